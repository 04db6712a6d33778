package custody

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command/sealing"
)

// Compare compares the two places with each other and with the events. A live destination's key that is in one place
// is put into the other, what belongs to a deleted destination goes from both, and live destinations whose key is in
// neither are remembered as lost. It goes on with a renewal or a rotation that was cut off.
func (c *Custody) Compare(ctx context.Context) error {
	return c.alone(ctx, c.compare)
}

func (c *Custody) compare(ctx context.Context) error {
	alive, err := c.alive(ctx) // before the keys: a key is there before its destination
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
	c.note(m.lost, s.trouble, alive.partial)
	if s.trouble != nil {
		c.Log.Error("the key store can't be used: data keys are in Postgres alone, and no new destination can be made", "store", c.second.String(), "error", s.trouble)
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
func (c *Custody) note(lost []uuid.UUID, trouble error, partial bool) {
	slices.SortFunc(lost, func(a, b uuid.UUID) int { return strings.Compare(a.String(), b.String()) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if !slices.Equal(lost, c.lost) && len(lost) > 0 {
		c.Log.Error("live destinations have lost their data key: what is sealed for them can't be opened", "count", len(lost), "destinations", Named(lost))
	}
	if c.trouble, c.partial = trouble, partial; !partial {
		c.lost = lost
	}
}

const mostNamed = 5

// Named lists destinations for a message: the first of them, and how many more there are.
func Named(ids []uuid.UUID) string {
	names := make([]string, 0, mostNamed)
	for _, id := range ids[:min(len(ids), mostNamed)] {
		names = append(names, id.String())
	}
	text := strings.Join(names, ", ")
	if more := len(ids) - mostNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
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
	owners := maps.Clone(m.alive.ids)
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
		c.Log.Warn("data keys of deleted destinations had come back, and were shredded again", "keys", m.shredded)
	}
	return nil
}

// one mends what the places have of one destination.
func (m *mending) one(ctx context.Context, owner uuid.UUID) error {
	c := m.custody
	row, inTable := m.stored.rows[owner]
	key, inSecond := m.stored.kept[owner]
	if _, live := m.alive.ids[owner]; !live {
		if m.alive.partial {
			return nil // the events can't be asked: nothing is known of it
		}
		status, err := c.status(ctx, owner)
		switch {
		case err != nil:
			return err
		case status == destination.StatusDeleted:
			m.shredded++
			return c.Delete(ctx, owner)
		case status == destination.StatusNone:
			return nil // it is about to be made, or the event store is an older one, and the newer may come back
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

// restored undoes a restoring where the destination was deleted at that moment: then its key was shredded before it was
// put back.
func (m *mending) restored(ctx context.Context, owner uuid.UUID, err error) error {
	if err != nil || m.alive.partial {
		return err
	}
	status, err := m.custody.status(ctx, owner)
	if err == nil && status == destination.StatusDeleted {
		err = m.custody.Delete(ctx, owner)
	}
	return err
}

// missing notes a live destination that has no key, unless it was deleted or made at this moment. Where the events can't
// be asked, it may have been deleted long ago.
func (m *mending) missing(ctx context.Context, owner uuid.UUID) error {
	if m.alive.partial {
		return nil
	}
	status, err := m.custody.status(ctx, owner)
	if err != nil || status == destination.StatusDeleted || status == destination.StatusNone {
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

// agree decides which key counts where the places have different ones: that which opens the newest secret.
func (m *mending) agree(ctx context.Context, owner uuid.UUID, row, key Key) error {
	c := m.custody
	if same, err := c.Ring.Same(owner, row.Wrapped, key.Wrapped); err != nil || same || m.alive.partial {
		return err
	}
	known, err := destination.Aggregate.Load(ctx, c.Store, owner)
	if err != nil || len(known.State.Secrets) == 0 {
		return err
	}
	newest := known.State.Secrets[len(known.State.Secrets)-1].Sealed
	if _, err := c.Ring.OpenWith(owner, key.Wrapped, newest); err == nil {
		m.toTable++
		_, err := c.insert(ctx, replaceKey, owner, key.Wrapped)
		return m.restored(ctx, owner, err)
	}
	m.toSecond++
	return m.restored(ctx, owner, c.replaceSecond(ctx, owner, row.Wrapped))
}

func (c *Custody) status(ctx context.Context, owner uuid.UUID) (destination.Status, error) {
	known, err := destination.Aggregate.Load(ctx, c.Store, owner)
	return known.State.Status, err
}
