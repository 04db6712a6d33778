package custody

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"carillon/command/sealing"
)

// lockNumber is the advisory lock of a comparison, renewal or rotation: one process runs one at a time.
const lockNumber = 0x6b657973 // "keys"

func (c *Custody) alone(ctx context.Context, do func(context.Context) error) error {
	lock, err := c.Locks.Acquire(ctx, lockNumber)
	if err != nil {
		return fmt.Errorf("data keys: %w", err)
	}
	defer lock.Release()
	ctx, cancel := lock.While(ctx)
	defer cancel()
	return do(ctx)
}

// held is the content of all places.
type held struct {
	home, copied, former map[uuid.UUID][]byte
	trouble              error // why the copy can't be read
}

func (c *Custody) read(ctx context.Context) (h held, err error) {
	if h.home, err = c.all(ctx, c.home); err != nil {
		return h, c.troubled(c.home, err)
	}
	if c.former != nil {
		if h.former, err = c.all(ctx, c.former); err != nil {
			return h, c.troubled(c.former, err)
		}
	}
	if c.copied != nil {
		h.copied, h.trouble = c.all(ctx, c.copied)
	}
	return h, nil
}

func (c *Custody) all(ctx context.Context, p place) (map[uuid.UUID][]byte, error) {
	if f, ok := p.(*files); ok {
		if err := f.open(); err != nil {
			return nil, err
		}
		if err := f.eraseLeftovers(ctx, c.Pass); err != nil {
			c.Log.Warn("incomplete files of data keys not erased, trying again later", "store", f.dir, "error", err)
		}
	}
	return p.All(ctx)
}

// troubled notes that a place, or a file of epoch keys, can't be used, and returns the error. Postgres is watched
// elsewhere.
func (c *Custody) troubled(p place, err error) error {
	if t, own := p.(*table); own && !t.own {
		return fmt.Errorf("data keys: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trouble = err
	return fmt.Errorf("key store: %w", err)
}

// Compare checks the master key, compares the home with the events and the copy, and repairs what can be repaired. It
// takes in a former home, and finishes a renewal or rotation that was cut off. It fails with a *WrongMasterError or
// ErrNoEpoch, and if the home or Postgres can't be read.
func (c *Custody) Compare(ctx context.Context) error {
	return c.alone(ctx, c.compare)
}

func (c *Custody) compare(ctx context.Context) error {
	alive, err := c.alive(ctx) // before the keys: a key is there before its owner
	if err != nil {
		return err
	}
	h, err := c.read(ctx)
	if err != nil {
		return err
	}
	newest, err := c.prepare(ctx, h)
	if err != nil {
		return err
	}
	if len(h.former) > 0 {
		taken := &comparison{
			Custody: c,
			alive:   alive,
			home:    h.home,
			other:   h.former,
		}
		if err := taken.all(ctx); err != nil {
			return err
		}
		if h.home, err = c.home.All(ctx); err != nil {
			return err
		}
	}
	compared := &comparison{
		Custody: c,
		alive:   alive,
		home:    h.home,
		other:   h.copied,
		mirror:  h.copied != nil,
	}
	if err := compared.all(ctx); err != nil {
		return err
	}
	c.note(compared.lost, h.trouble, alive)
	if len(compared.lost) == 0 && !alive.partial {
		if err := c.clean(ctx, h); err != nil {
			return err
		}
	}
	if h.trouble != nil {
		c.Log.Error("copy of data keys unusable, no new key can be made", "store", c.copied.String(), "error", h.trouble)
		return nil //nolint:nilerr // the rest continues, and readiness reports it
	}
	if err := c.useNewest(ctx, newest); err != nil {
		return err
	}
	home, err := c.home.Owners(ctx)
	if err != nil {
		return err
	}
	left, err := c.gap(ctx, home)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = left
	return err
}

// note keeps what a comparison found, and logs it if it is news. A partial comparison can't find lost keys.
func (c *Custody) note(lost []uuid.UUID, trouble error, alive alive) {
	lost = sorted(lost)
	c.mu.Lock()
	defer c.mu.Unlock()
	lostBy := alive.Lost(lost)
	if !slices.Equal(lost, c.lost) && len(lost) > 0 {
		c.Log.Error("data keys lost, data sealed with them can't be opened", "count", len(lost), "by", lostBy.String())
	}
	if c.trouble, c.partial = trouble, alive.partial; !alive.partial {
		c.lost, c.lostBy = lost, lostBy
	}
}

// clean erases a former home, and the epoch keys if the home is a directory. Both might help while an owner has no key.
func (c *Custody) clean(ctx context.Context, h held) error {
	var moved []uuid.UUID
	for owner, key := range h.former {
		if c.Ring.Opens(owner, key) == nil {
			moved = append(moved, owner)
		}
	}
	if len(moved) > 0 {
		if err := c.former.Erase(ctx, moved...); err != nil {
			return err
		}
		c.Log.Info("data keys moved to their home", "from", c.former.String(), "to", c.home.String(), "keys", len(moved))
	}
	if c.File == "" {
		return nil
	}
	if err := c.epochs.destroy(epoch{}); err != nil { // from now on nothing that Postgres has kept opens
		return err
	}
	return c.Ring.UseEpochs(nil)
}

// comparison compares the home with the copy, or with a former home.
type comparison struct {
	*Custody
	alive       alive
	home, other map[uuid.UUID][]byte
	mirror      bool // the other lacks nothing afterwards
	lost        []uuid.UUID

	restored, mirrored, shredded int
}

func (m *comparison) all(ctx context.Context) error {
	owners := map[uuid.UUID]struct{}{}
	for owner := range m.alive.Live {
		owners[owner] = struct{}{}
	}
	for _, keys := range []map[uuid.UUID][]byte{m.home, m.other} {
		for owner := range keys {
			owners[owner] = struct{}{}
		}
	}
	for owner := range owners {
		if err := m.one(ctx, owner); err != nil {
			return err
		}
	}
	if m.mirrored > 0 {
		m.Log.Warn("data keys copied, the copy lacked them", "store", m.copied.String(), "keys", m.mirrored)
	}
	if m.restored > 0 {
		m.Log.Warn("data keys restored", "home", m.Custody.home.String(), "keys", m.restored)
	}
	if m.shredded > 0 {
		m.Log.Warn("data keys of deleted owners had come back, shredded again", "keys", m.shredded)
	}
	return nil
}

// one compares the keys of one owner.
func (m *comparison) one(ctx context.Context, owner uuid.UUID) error {
	key, inHome := m.home[owner]
	other, inOther := m.other[owner]
	now := lives
	if _, live := m.alive.Live[owner]; !live {
		if m.alive.partial {
			return nil // the events can't be asked: nothing is known of it
		}
		var err error
		if now, _, err = m.fate(ctx, m.alive, owner); err != nil {
			return err
		}
		if now == ended {
			m.shredded++
			return m.Delete(ctx, owner)
		}
	}
	inHome = inHome && m.Ring.Opens(owner, key) == nil
	inOther = inOther && m.Ring.Opens(owner, other) == nil
	switch {
	case inHome && inOther:
		return m.agree(ctx, owner, key, other)
	case inHome:
		return m.copyOut(ctx, owner, key)
	case inOther:
		return m.takeIn(ctx, owner, other)
	case now == lives:
		return m.missing(ctx, owner)
	}
	return nil
}

func (m *comparison) takeIn(ctx context.Context, owner uuid.UUID, wrapped []byte) error {
	m.restored++
	return m.stored(ctx, owner, m.keep(ctx, m.Custody.home, owner, wrapped, m.Custody.home.Put))
}

func (m *comparison) copyOut(ctx context.Context, owner uuid.UUID, wrapped []byte) error {
	if !m.mirror {
		return nil
	}
	m.mirrored++
	return m.stored(ctx, owner, m.keep(ctx, m.copied, owner, wrapped, m.copied.Put))
}

// stored erases a key again if its owner ended at that moment: then it was shredded before it was stored.
func (m *comparison) stored(ctx context.Context, owner uuid.UUID, err error) error {
	if err != nil || m.alive.partial {
		return err
	}
	now, _, err := m.fate(ctx, m.alive, owner)
	if err == nil && now == ended {
		err = m.Delete(ctx, owner)
	}
	return err
}

// missing notes an owner that lives and has no key, unless it ended or was made at this moment. If the events can't be
// asked, it may have ended long ago.
func (m *comparison) missing(ctx context.Context, owner uuid.UUID) error {
	if m.alive.partial {
		return nil
	}
	now, _, err := m.fate(ctx, m.alive, owner)
	if err != nil || now != lives {
		return err
	}
	wrapped, err := m.Find(ctx, owner)
	switch {
	case err == nil && m.Ring.Opens(owner, wrapped) == nil:
		return nil
	case err != nil && !errors.Is(err, sealing.ErrShredded):
		return err
	}
	m.lost = append(m.lost, owner)
	return nil
}

// agree decides between two different keys: the one that opens the newest sealed value counts.
func (m *comparison) agree(ctx context.Context, owner uuid.UUID, home, other []byte) error {
	if same, err := m.Ring.Same(owner, home, other); err != nil || same || m.alive.partial {
		return err
	}
	_, newest, err := m.fate(ctx, m.alive, owner)
	if err != nil || len(newest) == 0 {
		return err
	}
	if _, err := m.Ring.OpenWith(owner, m.alive.Live[owner].Field(), other, newest); err == nil {
		return m.takeIn(ctx, owner, other)
	}
	return m.copyOut(ctx, owner, home)
}
