package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/dispatch"
	"carillon/aggregates/organization"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
)

// Bounds of a backfill.
const (
	MaxBackfillWindow   = 30 * 24 * time.Hour
	MaxBackfillEvents   = 10_000
	concurrentBackfills = 32
)

// History is the read model of what was published.
type History interface {
	// History goes through the events that an organization can see, by their time, both ends included.
	History(ctx context.Context, organization uuid.UUID, since, until time.Time, each func(uuid.UUID, dispatch.Summary) error) error
	// SubscriptionSettings lists the active subscriptions of a destination.
	SubscriptionSettings(ctx context.Context, organization, destination uuid.UUID) (map[uuid.UUID]subscription.Settings, error)
}

// BackfillDestination is the input of a backfill: a window by the time of the events, both ends included.
type BackfillDestination struct {
	Destination  uuid.UUID
	Since, Until time.Time
	// Each is called, by several goroutines at once, for each event that has been dealt with. Nil: nobody wants to know.
	Each func()
}

// Backfill is what a backfill came to.
type Backfill struct {
	EventsScanned     int // events in the window that the destination's subscriptions want
	DeliveriesCreated int // of those, the ones that had no delivery to it yet
}

var errTooMany = errors.New("too many events")

// BackfillDestination makes deliveries of the events in a window that the destination's subscriptions want today and
// that have none yet. It makes all of them or, where the window holds too many, none.
func (c *Commands) BackfillDestination(ctx context.Context, by Caller, in BackfillDestination) (Backfill, eventstore.Position, error) {
	if err := in.check(); err != nil {
		return Backfill{}, eventstore.Start, err
	}
	wanted, err := c.wanted(ctx, by, in)
	if err != nil {
		return Backfill{}, eventstore.Start, err
	}
	if len(wanted) == 0 {
		return Backfill{}, eventstore.Start, nil
	}
	result := Backfill{EventsScanned: len(wanted)}
	at := eventstore.Start
	counted := amount{by.Organization, organization.LimitRedeliveries, uuid.New(), len(wanted)}
	err = c.within(ctx, counted, func() (eventstore.Position, error) {
		result.DeliveriesCreated, at, err = c.schedule(ctx, by, wanted, in.Each)
		return at, err
	})
	return result, at, err
}

// CountBackfill tells how many events a backfill would go through, of which some may have their delivery already.
func (c *Commands) CountBackfill(ctx context.Context, by Caller, in BackfillDestination) (int, error) {
	if err := in.check(); err != nil {
		return 0, err
	}
	wanted, err := c.wanted(ctx, by, in)
	return len(wanted), err
}

func (in BackfillDestination) check() error {
	switch {
	case in.Until.Before(in.Since):
		return refuse(Malformed, "until", "until must not be before since")
	case in.Until.Sub(in.Since) > MaxBackfillWindow:
		return refuse(Malformed, "until", "the window must be at most 30 days: run it in parts, the oldest first")
	}
	return nil
}

// schedule makes the deliveries that are yet to be made, and counts them.
func (c *Commands) schedule(ctx context.Context, by Caller, wanted []dispatch.Schedule, each func()) (created int, at eventstore.Position, err error) {
	made := make([]eventstore.Position, len(wanted))
	group, appending := errgroup.WithContext(ctx)
	group.SetLimit(concurrentBackfills)
	for i, command := range wanted {
		group.Go(func() error {
			out, err := dispatch.Aggregate.Execute(appending, c.Store, command.DeliveriesScheduled.Publication,
				command, dispatch.Options{Metadata: by.metadata()})
			if len(out.Events) > 0 {
				made[i] = out.Position
			}
			if err == nil && each != nil {
				each()
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return 0, eventstore.Start, fmt.Errorf("backfill: %w", err)
	}
	for _, position := range made {
		if position == eventstore.Start {
			continue
		}
		created++
		if at.Before(position) {
			at = position
		}
	}
	return created, at, nil
}

// wanted lists what has to be scheduled.
func (c *Commands) wanted(ctx context.Context, by Caller, in BackfillDestination) ([]dispatch.Schedule, error) {
	settings, err := c.History.SubscriptionSettings(ctx, by.Organization, in.Destination)
	if err != nil {
		return nil, err
	}
	var wanted []dispatch.Schedule
	now := c.now()
	err = c.History.History(ctx, by.Organization, in.Since, in.Until, func(id uuid.UUID, event dispatch.Summary) error {
		var matching []uuid.UUID
		for sub, declaration := range settings {
			if declaration.Matches(event.Type, event.FeedType, event.FeedID) {
				matching = append(matching, sub)
			}
		}
		if len(matching) == 0 {
			return nil
		}
		if len(wanted) == MaxBackfillEvents {
			return errTooMany
		}
		wanted = append(wanted, dispatch.Schedule{DeliveriesScheduled: dispatch.DeliveriesScheduled{
			Publication: id, Event: event, At: now,
			Deliveries: []dispatch.Scheduled{{Destination: in.Destination, Organization: by.Organization, Subscriptions: matching}},
		}})
		return nil
	})
	if errors.Is(err, errTooMany) {
		return nil, refuse(Invalid, "since", "the window holds more than %d events for this destination; nothing was backfilled: narrow the window and run it in parts, the oldest first", MaxBackfillEvents)
	}
	return wanted, err
}
