package custody

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"carillon/command/sealing"
)

// renewAfter is the age of the first shredding at which the epoch key is renewed.
const renewAfter = 12 * time.Hour

// useNewest wraps everything by the keys in use, and destroys the epoch keys that nothing needs any more. It can be cut
// off at any instant and begun again.
func (c *Custody) useNewest(ctx context.Context, newest epoch) error {
	for _, p := range []place{c.home, c.copied} {
		if p == nil {
			continue
		}
		by, err := c.by(p)
		if err == nil {
			err = c.rewrap(ctx, p, by)
		}
		if err != nil {
			return err
		}
	}
	if c.File != "" || c.epochs == nil {
		return nil
	}
	if err := c.epochs.destroy(newest); err != nil {
		return err
	}
	_, err := c.loadEpochs()
	return err
}

// rewrap wraps the keys of a place by another key. A key that does not open stays: no epoch key helps with it.
func (c *Custody) rewrap(ctx context.Context, p place, by sealing.KeyID) error {
	keys, err := p.All(ctx)
	if err != nil {
		return err
	}
	var changes []change
	for owner, key := range keys {
		if id, named := sealing.WrappedBy(key); named && id == by {
			continue
		}
		next, err := c.Ring.Rewrap(by, owner, key)
		if errors.Is(err, sealing.ErrDamaged) {
			continue
		}
		if err != nil {
			return fmt.Errorf("wrap data keys: %w", err)
		}
		changes = append(changes, change{owner: owner, from: key, to: next})
	}
	return p.Exchange(ctx, changes)
}

// nextEpoch makes a new epoch key, unless the home is a directory.
func (c *Custody) nextEpoch() error {
	if c.File != "" || c.epochs == nil {
		return nil
	}
	newest, err := c.loadEpochs()
	if err != nil {
		return err
	}
	return c.epochs.begin(newest.number)
}

// check compares, and fails unless every place can be used: then everything is wrapped by the keys in use.
func (c *Custody) check(ctx context.Context) error {
	if err := c.compare(ctx); err != nil {
		return err
	}
	return c.Trouble()
}

// Renew makes a new epoch key, wraps the data keys by it, and destroys the old one: shredded keys that Postgres' pages,
// log and backups keep can't be opened from then on. A directory keeps nothing of shredded keys.
func (c *Custody) Renew(ctx context.Context) error {
	if c.File != "" {
		return nil
	}
	if c.epochs == nil {
		return errors.New("there is no epoch key to renew: data keys are kept in databases alone " +
			"(CARILLON_KEY_STORE names no directory)")
	}
	return c.alone(ctx, func(ctx context.Context) error {
		if err := c.check(ctx); err != nil {
			return err
		}
		if err := c.nextEpoch(); err != nil {
			return err
		}
		return c.check(ctx)
	})
}

// due reports whether the epoch key must be renewed.
func (c *Custody) due(ctx context.Context) (due bool, err error) {
	if c.File != "" || c.epochs == nil {
		return false, nil
	}
	err = c.Pool.QueryRow(ctx, "SELECT coalesce(shredded_at < now() - $1::interval, false) FROM carillon.key_state",
		renewAfter).Scan(&due)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return due, err
}
