package custody

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/destination"
	"carillon/eventstore"
	"carillon/projections/destinations"
)

// eventsTimeout is how long the event store is waited for before the read model is believed alone.
const eventsTimeout = 5 * time.Second

// alive are the destinations that exist.
type alive struct {
	ids     map[uuid.UUID]struct{}
	partial bool // the event store could not be asked: some may be deleted by now, and others are missing
}

// alive reads the destinations that exist: from the read model, and what came after it from the events. Where the read
// model is not complete, all of it comes from the events.
func (c *Custody) alive(ctx context.Context) (found alive, err error) {
	found.ids = map[uuid.UUID]struct{}{}
	asking, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	head, err := c.Store.Head(asking)
	var identity string
	if err == nil {
		identity, err = c.Store.Identity(asking)
	}
	if err != nil {
		c.Log.Warn("the event store can't be reached: live destinations are compared with data keys as far as the read model knows them", "error", err)
		found.partial = true
	}
	after, err := c.reached(ctx, identity, found.partial)
	if err != nil {
		return found, err
	}
	if after != eventstore.Start || found.partial {
		if err := c.aliveInRows(ctx, found.ids); err != nil {
			return found, err
		}
	}
	if found.partial || !after.Before(head) {
		return found, nil
	}
	for message, err := range c.Store.Subscribe(ctx, after, eventstore.Categories(destination.Aggregate.Category)) {
		if errors.Is(err, eventstore.ErrUnavailable) {
			c.Log.Warn("the event store can't be read to its end: data keys are compared again later", "error", err)
			found.partial = true
			return found, nil
		}
		if err != nil {
			return found, fmt.Errorf("read destinations: %w", err)
		}
		if message.Event != nil {
			if err := found.apply(message.Event); err != nil {
				return found, err
			}
		}
		if message.CaughtUp || !message.Position.Before(head) {
			break
		}
	}
	return found, nil
}

func (a alive) apply(recorded *eventstore.Recorded) error {
	event, err := destination.Events.Decode(recorded)
	if err != nil {
		return err
	}
	switch event.(type) {
	case destination.Created:
		a.ids[recorded.StreamID()] = struct{}{}
	case destination.Deleted:
		delete(a.ids, recorded.StreamID())
	case destination.Revised, destination.SecretMinted, destination.SecretRotated, destination.SecretExpired,
		destination.Enabled, destination.Disabled, destination.AutoDisabled: // neither begin nor end one
	}
	return nil
}

// reached is how far the read model has come; the start where its rows can't be gone by.
func (c *Custody) reached(ctx context.Context, identity string, partial bool) (eventstore.Position, error) {
	var at eventstore.Position
	var store string
	var sound bool
	err := c.Pool.QueryRow(ctx, `SELECT commit, prepare, store, NOT incomplete AND outdated IS NULL AND stopped IS NULL
		FROM carillon.checkpoints WHERE name = $1`, destinations.ReadModel.Name).Scan(&at.Commit, &at.Prepare, &store, &sound)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return eventstore.Start, nil
	case err != nil:
		return eventstore.Start, fmt.Errorf("data keys: %w", err)
	case !sound || !partial && store != identity:
		return eventstore.Start, nil
	}
	return at, nil
}

func (c *Custody) aliveInRows(ctx context.Context, ids map[uuid.UUID]struct{}) error {
	rows, err := c.Pool.Query(ctx, "SELECT id FROM destinations.destinations")
	if err != nil {
		return fmt.Errorf("data keys: %w", err)
	}
	var id uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{&id}, func() error {
		ids[id] = struct{}{}
		return nil
	})
	if err != nil {
		return fmt.Errorf("data keys: %w", err)
	}
	return nil
}
