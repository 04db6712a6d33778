package custody

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/command/sealing"
)

// lockNumber is the advisory lock of whoever compares, renews or rotates: one process at a time.
const lockNumber = 0x6b657973 // "keys"

// WrongMasterError says that a master key is not the one by which the stored data keys are wrapped.
type WrongMasterError struct {
	Want  sealing.KeyID // zero: the stored data keys don't name it
	Given []sealing.KeyID
}

// Error names the keys by their ids, which tell nothing of them.
func (e *WrongMasterError) Error() string {
	want := "another key"
	if e.Want != (sealing.KeyID{}) {
		want = "key " + e.Want.String()
	}
	return fmt.Sprintf("what is stored here is sealed by %s, and this is key %s", want, e.Given[0])
}

// Open checks the master key, carries over what an earlier version stored, compares the two places with each other and
// with the events, and mends what can be mended. It fails with a *WrongMasterError, and where Postgres fails.
func (c *Custody) Open(ctx context.Context) error { return c.Compare(ctx) }

// alone runs one process at a time.
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

// stored is what both places hold.
type stored struct {
	rows    map[uuid.UUID]Key
	kept    map[uuid.UUID]Key // of the second place; nil where it can't be used
	damaged int               // parts of the second place that are no whole key
	trouble error             // why it can't be used
}

func (c *Custody) read(ctx context.Context) (s stored, err error) {
	if s.rows, err = readKeys(ctx, c.Pool, "SELECT id, wrapped, created_at FROM carillon.data_keys"); err != nil || c.second == nil {
		return s, err
	}
	if s.kept, s.damaged, s.trouble = c.second.All(ctx); s.trouble != nil {
		s.kept = nil
	}
	return s, nil
}

// ErrNoEpoch: data keys are there, and none of them opens although the master key is right.
var ErrNoEpoch = errors.New("the master key is right, and yet no data key opens: the epoch key is missing")

// prepare brings the ring and Postgres to what the files say: which epoch key is in use, and which master key.
func (c *Custody) prepare(ctx context.Context, s stored) (epoch Epoch, err error) {
	if c.epochs != nil {
		if _, err = c.loadEpochs(); err != nil {
			return epoch, fmt.Errorf("key store: %w", err)
		}
	}
	if err := c.checkMaster(ctx, s); err != nil {
		return epoch, err
	}
	if c.epochs != nil {
		if epoch, err = c.ensureEpoch(); err != nil {
			return epoch, fmt.Errorf("key store: %w", err)
		}
	}
	base := c.Ring.Base()
	by, err := c.Ring.Current()
	if err != nil {
		return epoch, err
	}
	_, err = c.Pool.Exec(ctx, `INSERT INTO carillon.key_state AS s (master, wrapping) VALUES ($1, $2)
		ON CONFLICT (one) DO UPDATE SET wrapping = $2, renewed_at = now(), shredded_at = NULL WHERE s.wrapping <> $2`, base[:], by[:])
	if err != nil {
		return epoch, fmt.Errorf("data keys: %w", err)
	}
	return epoch, nil
}

// checkMaster compares the ring with the key-check value, and uses the master key that it names.
func (c *Custody) checkMaster(ctx context.Context, s stored) error {
	var master, wrapping []byte
	err := c.Pool.QueryRow(ctx, "SELECT master, wrapping FROM carillon.key_state").Scan(&master, &wrapping)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return c.checkUnnamed(s)
	case err != nil:
		return fmt.Errorf("data keys: %w", err)
	}
	if _, known := c.Ring.MasterOf(sealing.KeyID(master)); !known {
		return &WrongMasterError{Want: sealing.KeyID(master), Given: c.Ring.Masters()}
	}
	if err := c.Ring.UseMaster(sealing.KeyID(master)); err != nil {
		return err
	}
	if err := c.follow(wrapping); err != nil { // the next master key, where a rotation was cut off
		return err
	}
	if _, known := c.Ring.MasterOf(sealing.KeyID(wrapping)); !known && len(s.rows) > 0 && !c.AcceptLost && !c.opens(s.rows) && !c.opens(s.kept) {
		return ErrNoEpoch
	}
	return nil
}

func (c *Custody) opens(keys map[uuid.UUID]Key) bool {
	for owner, key := range keys {
		if c.Ring.Opens(owner, key.Wrapped) == nil {
			return true
		}
	}
	return false
}

// checkUnnamed checks the master key where Postgres does not name it: it is new, or of an earlier version. If there are
// keys, some of them must open.
func (c *Custody) checkUnnamed(s stored) error {
	if len(s.rows)+len(s.kept) == 0 || c.opens(s.rows) || c.opens(s.kept) {
		return nil
	}
	wrong := &WrongMasterError{Given: c.Ring.Masters()}
	for _, key := range s.kept {
		if id, named := sealing.WrappedBy(key.Wrapped); named {
			wrong.Want = id
		}
	}
	return wrong
}

// ensureEpoch takes the epoch keys into the ring, makes the first, and sees to it that every file has the newest.
func (c *Custody) ensureEpoch() (Epoch, error) {
	newest, err := c.loadEpochs()
	if err != nil {
		return newest, err
	}
	if newest.Key == nil {
		if newest, err = c.epochs.Begin(0, c.Now()); err != nil {
			return newest, err
		}
	} else if err := c.epochs.Copy([]Epoch{newest}); err != nil {
		return newest, err
	}
	return c.loadEpochs()
}
