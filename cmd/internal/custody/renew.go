package custody

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/command/sealing"
)

const (
	// renewAfter is how old an epoch key gets once keys that it wraps were shredded.
	renewAfter = 12 * time.Hour
	rewrapped  = 500 // data keys in one transaction
)

// settle wraps everything by the keys in use, and destroys the epoch keys that nothing needs any more. It can be cut off
// at any instant and begun again.
func (c *Custody) settle(ctx context.Context, epoch Epoch) error {
	if err := c.rewrapTable(ctx); err != nil {
		return err
	}
	if err := c.rewrapSecond(ctx); err != nil {
		return err
	}
	if c.epochs == nil {
		return nil
	}
	if err := c.epochs.Destroy(epoch); err != nil {
		return fmt.Errorf("key store: %w", err)
	}
	_, err := c.loadEpochs()
	return err
}

// rewrapTable wraps data keys in Postgres by the key in use. What does not open is left alone: no epoch key helps with
// it.
func (c *Custody) rewrapTable(ctx context.Context) error {
	by, err := c.Ring.Current()
	if err != nil {
		return err
	}
	for after, more := uuid.Nil, true; more; {
		err := pgx.BeginFunc(ctx, c.Pool, func(tx pgx.Tx) (err error) {
			after, more, err = c.rewrapSome(ctx, tx, by, after)
			return err
		})
		if err != nil {
			return fmt.Errorf("wrap data keys: %w", err)
		}
	}
	return nil
}

// rewrapSome goes on after an owner, and says where it has come to.
func (c *Custody) rewrapSome(ctx context.Context, tx pgx.Tx, by sealing.KeyID, after uuid.UUID) (last uuid.UUID, more bool, err error) {
	rows, err := tx.Query(ctx, `SELECT id, wrapped FROM carillon.data_keys
		WHERE id > $1 AND substring(wrapped FROM 1 FOR 9) <> $2 ORDER BY id LIMIT $3 FOR UPDATE`, after, sealing.Prefix(by), rewrapped)
	if err != nil {
		return after, false, err
	}
	var changes pgx.Batch
	var wrapped []byte
	read, err := pgx.ForEachRow(rows, []any{&last, &wrapped}, func() error {
		next, err := c.Ring.Rewrap(by, last, wrapped)
		if errors.Is(err, sealing.ErrDamaged) {
			return nil
		}
		changes.Queue("UPDATE carillon.data_keys SET wrapped = $2 WHERE id = $1", last, next)
		return err
	})
	if err != nil {
		return after, false, err
	}
	return last, read.RowsAffected() == rewrapped, tx.SendBatch(ctx, &changes).Close()
}

// rewrapSecond wraps data keys in the second place by the master key in use.
func (c *Custody) rewrapSecond(ctx context.Context) error {
	if c.second == nil {
		return nil
	}
	keys, _, err := c.second.All(ctx)
	if err != nil {
		return fmt.Errorf("key store: %w", err)
	}
	base := c.Ring.Base()
	for owner, key := range keys {
		if id, named := sealing.WrappedBy(key.Wrapped); named && id == base {
			continue
		}
		next, err := c.Ring.Rewrap(base, owner, key.Wrapped)
		if errors.Is(err, sealing.ErrDamaged) {
			continue
		}
		if err == nil {
			err = c.second.Exchange(ctx, owner, key.Wrapped, next)
		}
		if err != nil {
			return fmt.Errorf("key store: %w", err)
		}
	}
	return nil
}

// sound reads what there is, where both places can be used.
func (c *Custody) sound(ctx context.Context) (s stored, epoch Epoch, err error) {
	if s, err = c.read(ctx); err == nil {
		err = s.trouble
	}
	if err == nil {
		epoch, err = c.prepare(ctx, s)
	}
	return s, epoch, err
}

// Renew makes a new epoch key, wraps the data keys by it, and destroys the old one: what Postgres' pages, log and backups
// keep of shredded keys opens for nobody from then on.
func (c *Custody) Renew(ctx context.Context) error {
	if c.epochs == nil {
		return errors.New("there is no epoch key to renew: data keys are kept in databases alone (CARILLON_KEY_STORE names no directory)")
	}
	return c.alone(ctx, func(ctx context.Context) error {
		s, epoch, err := c.sound(ctx)
		if err != nil {
			return err
		}
		if _, err = c.epochs.Begin(epoch.Number, c.Now()); err != nil {
			return fmt.Errorf("key store: %w", err)
		}
		if epoch, err = c.prepare(ctx, s); err != nil {
			return err
		}
		return c.settle(ctx, epoch)
	})
}

// due says whether the epoch key is to be renewed.
func (c *Custody) due(ctx context.Context) (due bool, err error) {
	if c.epochs == nil {
		return false, nil
	}
	err = c.Pool.QueryRow(ctx, "SELECT shredded_at IS NOT NULL AND shredded_at < $1 FROM carillon.key_state", c.Now().Add(-renewAfter)).Scan(&due)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return due, err
}
