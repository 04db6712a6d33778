package custody

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
)

// eventsTimeout is how long the event store is waited for before the read model is believed alone.
const eventsTimeout = 5 * time.Second

// alive reads the owners that exist: from the read models, and later ones from the events. If a read model is not
// complete, all of it comes from the events.
func (c *Custody) alive(ctx context.Context) (found alive, err error) {
	found.Owners = NewOwners()
	asking, cancel := context.WithTimeout(ctx, eventsTimeout)
	defer cancel()
	head, err := c.Store.Head(asking)
	var identity string
	if err == nil {
		identity, err = c.Store.Identity(asking)
	}
	if err != nil {
		c.Log.Warn("event store unreachable, data keys compared with the read models alone", "error", err)
		found.partial = true
	}
	for _, k := range kinds {
		after, err := c.reached(ctx, k.model.Name, identity, found.partial)
		if err != nil {
			return found, err
		}
		if after != eventstore.Start || found.partial {
			if err := c.readRows(ctx, k, found); err != nil {
				return found, err
			}
		}
		if found.partial {
			continue
		}
		if found.partial, err = c.readEvents(ctx, k, found, after, head); err != nil {
			return found, err
		}
	}
	return found, nil
}

// readEvents reads the events after a read model. partial reports whether the event store went away meanwhile.
func (c *Custody) readEvents(
	ctx context.Context, k kind, found alive, after, head eventstore.Position,
) (partial bool, err error) {
	for event, err := range eventstore.Between(ctx, c.Store, after, head, eventstore.Categories(k.category)) {
		if errors.Is(err, eventstore.ErrUnavailable) {
			c.Log.Warn("event store can't be read to its end, data keys are compared again later", "error", err)
			return true, nil
		}
		if err != nil {
			return false, fmt.Errorf("read owners of data keys: %w", err)
		}
		if err := found.Apply(event); err != nil {
			return false, err
		}
	}
	return false, nil
}

// reached returns the position of a read model; the start if its rows can't be relied on.
func (c *Custody) reached(ctx context.Context, model, identity string, partial bool) (eventstore.Position, error) {
	var at eventstore.Position
	var store string
	var sound bool
	err := c.Pool.QueryRow(ctx, `SELECT commit, prepare, store, NOT incomplete AND outdated IS NULL AND stopped IS NULL
		FROM carillon.checkpoints WHERE name = $1`, model).Scan(&at.Commit, &at.Prepare, &store, &sound)
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
