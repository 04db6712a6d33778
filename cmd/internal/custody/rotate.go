package custody

import (
	"context"
	"fmt"

	"carillon/command/sealing"
)

// RotateMaster wraps everything by another master key, and by a new epoch key, while both master keys open what there
// is. keep makes the next one the master key that is kept; afterwards the earlier one opens nothing. It can be cut off
// at any instant: called again with the same key, it goes on.
func (c *Custody) RotateMaster(ctx context.Context, next []byte, keep func() error) error {
	return c.alone(ctx, func(ctx context.Context) error {
		if err := c.Ring.AddMaster(next); err != nil {
			return err
		}
		_, epoch, err := c.sound(ctx)
		if err != nil {
			return err
		}
		return c.rotate(ctx, epoch, next, keep)
	})
}

func (c *Custody) rotate(ctx context.Context, epoch Epoch, next []byte, keep func() error) error {
	id, err := sealing.MasterID(next)
	if err != nil {
		return err
	}
	if c.epochs != nil {
		if _, err = c.epochs.Begin(epoch.Number, c.Now()); err == nil {
			epoch, err = c.loadEpochs()
		}
		if err != nil {
			return fmt.Errorf("key store: %w", err)
		}
	}
	if err := c.Ring.UseMaster(id); err != nil {
		return err
	}
	by, err := c.Ring.Current()
	if err != nil {
		return err
	}
	// From here on new data keys are wrapped by it in every process.
	if _, err := c.Pool.Exec(ctx, "UPDATE carillon.key_state SET wrapping = $1, renewed_at = now(), shredded_at = NULL", by[:]); err != nil {
		return fmt.Errorf("rotate the master key: %w", err)
	}
	if err := c.settle(ctx, epoch); err != nil {
		return err
	}
	if _, err := c.Pool.Exec(ctx, "UPDATE carillon.key_state SET master = $1", id[:]); err != nil {
		return fmt.Errorf("rotate the master key: %w", err)
	}
	if err := keep(); err != nil {
		return err
	}
	return c.Ring.OnlyMaster(id)
}
