package custody

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/command/sealing"
)

// WrongMasterError reports that a master key is not the one by which the stored data keys are wrapped.
type WrongMasterError struct {
	Want  sealing.KeyID // zero means that the stored data keys don't name it
	Given []sealing.KeyID
}

// Error names the keys by their ids, which reveal nothing of them.
func (e *WrongMasterError) Error() string {
	want := "another key"
	if e.Want != (sealing.KeyID{}) {
		want = "key " + e.Want.String()
	}
	return fmt.Sprintf("the data stored here is sealed by %s, and this is key %s", want, e.Given[0])
}

// ErrNoEpoch means that data keys are there, and none of them opens although the master key is right.
var ErrNoEpoch = errors.New("the master key is right, and yet no data key opens: the epoch key is missing")

// prepare checks the master key, and brings ring, Postgres and files to the keys that wrap now.
func (c *Custody) prepare(ctx context.Context, h held) (newest epoch, err error) {
	if newest, err = c.loadEpochs(); err != nil {
		return newest, c.troubled(nil, err)
	}
	if err := c.checkMaster(ctx, h); err != nil {
		return newest, err
	}
	if c.File == "" && c.epochs != nil {
		if newest.key == nil {
			err = c.epochs.begin(0)
		} else {
			err = c.epochs.copy(newest)
		}
		if err == nil {
			newest, err = c.loadEpochs()
		}
		if err != nil {
			return newest, err
		}
	}
	base := c.Ring.Base()
	by, err := c.by(c.home)
	if err != nil {
		return newest, err
	}
	_, err = c.Pool.Exec(ctx, `INSERT INTO carillon.key_state AS s (master, wrapping) VALUES ($1, $2)
		ON CONFLICT (one) DO UPDATE SET wrapping = $2, renewed_at = now(), shredded_at = NULL WHERE s.wrapping <> $2`,
		base[:], by[:])
	if err != nil {
		return newest, fmt.Errorf("data keys: %w", err)
	}
	return newest, nil
}

// loadEpochs takes the epoch keys of the files into the ring, and returns the newest. If the home is a directory, there
// are some only until the rows of Postgres are taken in.
func (c *Custody) loadEpochs() (newest epoch, err error) {
	if c.epochs == nil {
		return newest, nil
	}
	found, err := c.epochs.load()
	if err != nil {
		return newest, err
	}
	keys := make([][]byte, len(found))
	for i, e := range found {
		keys[i], newest = e.key, e
	}
	return newest, c.Ring.UseEpochs(keys)
}

// checkMaster compares the ring with the key-check value, and uses the master key that it names.
func (c *Custody) checkMaster(ctx context.Context, h held) error {
	var master, wrapping []byte
	err := c.Pool.QueryRow(ctx, "SELECT master, wrapping FROM carillon.key_state").Scan(&master, &wrapping)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return c.checkUnnamed(h)
	case err != nil:
		return fmt.Errorf("data keys: %w", err)
	}
	if _, known := c.Ring.MasterOf(sealing.KeyID(master)); !known {
		return &WrongMasterError{Want: sealing.KeyID(master), Given: c.Ring.Masters()}
	}
	if err := c.Ring.UseMaster(sealing.KeyID(master)); err != nil {
		return err
	}
	if err := c.follow(wrapping); err != nil { // the next master key, if a rotation was cut off
		return err
	}
	_, known := c.Ring.MasterOf(sealing.KeyID(wrapping))
	if !known && !c.AcceptLost && len(h.home)+len(h.former) > 0 && !c.opensSome(h) {
		return ErrNoEpoch
	}
	return nil
}

// checkUnnamed checks the master key if Postgres does not name it: Postgres is new, or of an earlier version. If there
// are keys, some of them must open.
func (c *Custody) checkUnnamed(h held) error {
	if len(h.home)+len(h.copied)+len(h.former) == 0 || c.opensSome(h) {
		return nil
	}
	wrong := &WrongMasterError{Given: c.Ring.Masters()}
	based := []map[uuid.UUID][]byte{h.copied}
	if c.File != "" {
		based = append(based, h.home)
	}
	for _, keys := range based {
		for _, key := range keys {
			if id, named := sealing.WrappedBy(key); named {
				wrong.Want = id
			}
		}
	}
	return wrong
}

func (c *Custody) opensSome(h held) bool {
	for _, keys := range []map[uuid.UUID][]byte{h.home, h.copied, h.former} {
		for owner, key := range keys {
			if c.Ring.Opens(owner, key) == nil {
				return true
			}
		}
	}
	return false
}

// reload takes in what another process has changed of the keys that wrap.
func (c *Custody) reload(ctx context.Context) error {
	c.wraps.Lock()
	defer c.wraps.Unlock()
	var wrapping []byte
	if err := c.Pool.QueryRow(ctx, "SELECT wrapping FROM carillon.key_state").Scan(&wrapping); err != nil {
		return err
	}
	if _, err := c.loadEpochs(); err != nil { // after the look: it has no key that is not in the files
		return err
	}
	if _, known := c.Ring.MasterOf(sealing.KeyID(wrapping)); !known {
		return errUnknownWrapping
	}
	return c.follow(wrapping)
}

// follow uses the master key by which data keys are wrapped now, if it is known.
func (c *Custody) follow(wrapping []byte) error {
	if master, known := c.Ring.MasterOf(sealing.KeyID(wrapping)); known {
		return c.Ring.UseMaster(master)
	}
	return nil
}

// RotateMaster wraps everything by another master key, and by a new epoch key, while both master keys open what there
// is. keep makes the next one the master key that is kept; afterwards the earlier one opens nothing. It can be cut off
// at any instant: called again with the same key, it continues.
func (c *Custody) RotateMaster(ctx context.Context, next []byte, keep func() error) error {
	return c.alone(ctx, func(ctx context.Context) error {
		if err := c.Ring.AddMaster(next); err != nil {
			return err
		}
		if err := c.check(ctx); err != nil {
			return err
		}
		if err := c.nextEpoch(); err != nil {
			return err
		}
		id, err := c.useMaster(ctx, next)
		if err != nil {
			return err
		}
		if err := c.check(ctx); err != nil {
			return err
		}
		if _, err := c.Pool.Exec(ctx, "UPDATE carillon.key_state SET master = $1", id[:]); err != nil {
			return fmt.Errorf("rotate the master key: %w", err)
		}
		if err := keep(); err != nil {
			return err
		}
		return c.Ring.OnlyMaster(id)
	})
}

// useMaster wraps new data keys by a master key from now on, in every process.
func (c *Custody) useMaster(ctx context.Context, master []byte) (id sealing.KeyID, err error) {
	c.wraps.Lock()
	defer c.wraps.Unlock()
	if id, err = sealing.MasterID(master); err != nil {
		return id, err
	}
	if _, err := c.loadEpochs(); err != nil {
		return id, err
	}
	if err := c.Ring.UseMaster(id); err != nil {
		return id, err
	}
	by, err := c.by(c.home)
	if err != nil {
		return id, err
	}
	_, err = c.Pool.Exec(ctx, "UPDATE carillon.key_state SET wrapping = $1, renewed_at = now(), shredded_at = NULL", by[:])
	if err != nil {
		return id, fmt.Errorf("rotate the master key: %w", err)
	}
	return id, nil
}
