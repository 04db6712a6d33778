package custody

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"carillon/command/sealing"
)

// Compare compares the two places with each other and with the events. The key of an owner that lives, if it is in one
// place, is put into the other; that of one that ended goes from both; and those who live and whose key is in neither are
// remembered as lost. It goes on with a renewal or a rotation that was cut off.
func (c *Custody) Compare(ctx context.Context) error {
	return c.alone(ctx, c.compare)
}

func (c *Custody) compare(ctx context.Context) error {
	alive, err := c.alive(ctx) // before the keys: a key is there before its owner
	if err != nil {
		return err
	}
	s, err := c.read(ctx)
	if err != nil {
		return err
	}
	epoch, err := c.prepare(ctx, s)
	if err != nil {
		return err
	}
	m := &mending{custody: c, alive: alive, stored: s}
	if err := m.all(ctx); err != nil {
		return err
	}
	c.note(m.lost, s.trouble, alive)
	if s.trouble != nil {
		c.Log.Error("the key store can't be used: data keys are in Postgres alone, and no new one can be made", "store", c.second.String(), "error", s.trouble)
		return nil //nolint:nilerr // all else goes on, and readiness says so
	}
	if err := c.settle(ctx, epoch); err != nil {
		return err
	}
	left, err := c.gap(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = left
	return err
}

// note remembers what a comparison found, and says so where that is news. A partial one knows of none that is lost.
func (c *Custody) note(lost []uuid.UUID, trouble error, alive alive) {
	lost = sorted(lost)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(lost, c.lost) && len(lost) > 0 {
		c.Log.Error("data keys are lost: what is sealed with them can't be opened", "count", len(lost), "by", LostOf(lost, alive.ids).String())
	}
	if c.trouble, c.partial = trouble, alive.partial; !alive.partial {
		c.lost, c.lostOf = lost, organizationsOf(lost, alive.ids)
	}
}

// mending is one comparison.
type mending struct {
	custody *Custody
	alive   alive
	stored  stored
	lost    []uuid.UUID

	toSecond, toTable, shredded int
}

func (m *mending) all(ctx context.Context) error {
	owners := map[uuid.UUID]struct{}{}
	for owner := range m.alive.ids {
		owners[owner] = struct{}{}
	}
	for _, keys := range []map[uuid.UUID]Key{m.stored.rows, m.stored.kept} {
		for owner := range keys {
			owners[owner] = struct{}{}
		}
	}
	for owner := range owners {
		if err := m.one(ctx, owner); err != nil {
			return err
		}
	}
	c := m.custody
	if m.stored.damaged > 0 {
		if err := c.second.EraseDamaged(); err != nil {
			return fmt.Errorf("key store: %w", err)
		}
		c.Log.Warn("damaged parts of the key store were overwritten; what Postgres has of them is back", "store", c.second.String(), "parts", m.stored.damaged)
	}
	if m.toSecond > 0 {
		c.Log.Warn("data keys were copied from Postgres into the key store, which did not have them", "store", c.second.String(), "keys", m.toSecond)
	}
	if m.toTable > 0 {
		c.Log.Warn("data keys were restored into Postgres from the key store", "store", c.second.String(), "keys", m.toTable)
	}
	if m.shredded > 0 {
		c.Log.Warn("data keys of what was deleted had come back, and were shredded again", "keys", m.shredded)
	}
	return nil
}

// one mends what the places have of one owner.
func (m *mending) one(ctx context.Context, owner uuid.UUID) error {
	c := m.custody
	row, inTable := m.stored.rows[owner]
	key, inSecond := m.stored.kept[owner]
	if _, live := m.alive.ids[owner]; !live {
		if m.alive.partial {
			return nil // the events can't be asked: nothing is known of it
		}
		fate, _, err := c.fate(ctx, m.alive, owner)
		switch {
		case err != nil || fate == unknown:
			return err
		case fate == ended:
			m.shredded++
			return c.Delete(ctx, owner)
		}
	}
	inTable = inTable && c.Ring.Opens(owner, row.Wrapped) == nil
	inSecond = inSecond && c.Ring.Opens(owner, key.Wrapped) == nil
	switch {
	case inTable && inSecond:
		return m.agree(ctx, owner, row, key)
	case inTable && m.stored.kept != nil:
		m.toSecond++
		return m.restored(ctx, owner, c.replaceSecond(ctx, owner, row.Wrapped))
	case inTable:
		return nil
	case inSecond:
		m.toTable++
		_, err := c.insert(ctx, replaceKey, owner, key.Wrapped)
		return m.restored(ctx, owner, err)
	}
	return m.missing(ctx, owner)
}

// restored undoes a restoring where the owner ended at that moment: then its key was shredded before it was put back.
func (m *mending) restored(ctx context.Context, owner uuid.UUID, err error) error {
	if err != nil || m.alive.partial {
		return err
	}
	fate, _, err := m.custody.fate(ctx, m.alive, owner)
	if err == nil && fate == ended {
		err = m.custody.Delete(ctx, owner)
	}
	return err
}

// missing notes an owner that lives and has no key, unless it ended or was made at this moment. Where the events can't be
// asked, it may have ended long ago.
func (m *mending) missing(ctx context.Context, owner uuid.UUID) error {
	if m.alive.partial {
		return nil
	}
	fate, _, err := m.custody.fate(ctx, m.alive, owner)
	if err != nil || fate != lives {
		return err
	}
	wrapped, err := m.custody.Find(ctx, owner)
	switch {
	case err == nil && m.custody.Ring.Opens(owner, wrapped) == nil:
		return nil
	case err != nil && !errors.Is(err, sealing.ErrShredded):
		return err
	}
	m.lost = append(m.lost, owner)
	return nil
}

// agree decides which key counts where the places have different ones: that which opens what was sealed last.
func (m *mending) agree(ctx context.Context, owner uuid.UUID, row, key Key) error {
	c := m.custody
	if same, err := c.Ring.Same(owner, row.Wrapped, key.Wrapped); err != nil || same || m.alive.partial {
		return err
	}
	_, newest, err := c.fate(ctx, m.alive, owner)
	if err != nil || len(newest) == 0 {
		return err
	}
	if _, err := c.Ring.OpenWith(owner, m.alive.field(owner), key.Wrapped, newest); err == nil {
		m.toTable++
		_, err := c.insert(ctx, replaceKey, owner, key.Wrapped)
		return m.restored(ctx, owner, err)
	}
	m.toSecond++
	return m.restored(ctx, owner, c.replaceSecond(ctx, owner, row.Wrapped))
}
