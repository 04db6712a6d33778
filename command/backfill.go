package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/organization"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
	"carillon/eventstore/panics"
)

// Bounds of a backfill.
const (
	MaxBackfillWindow = 30 * 24 * time.Hour
	MaxBackfillEvents = 10_000
	concurrentRecords = 8
	// maxUncharged is the number of events that a backfill goes through before they are counted against the limit.
	maxUncharged = 1000
)

// History is the read models of published events and items.
type History interface {
	// History goes through the events that an organization can see, by their time, both ends included.
	// Those published before a time are retired, or about to be, and left out; zero means none is.
	History(ctx context.Context, organization uuid.UUID, since, until, retiredBefore time.Time,
		each func(uuid.UUID, dispatch.Summary) error) error
	// ItemsQuiet reports whether no item of a happening was added or got feedback since a time.
	ItemsQuiet(ctx context.Context, happening uuid.UUID, since time.Time) (bool, error)
	// SubscriptionSettings lists the active subscriptions of a destination.
	SubscriptionSettings(ctx context.Context, organization, destination uuid.UUID) (map[uuid.UUID]subscription.Settings,
		error)
}

// BackfillDestination is the input of a backfill: a window by the time of the events, both ends included.
type BackfillDestination struct {
	Destination  uuid.UUID
	Since, Until time.Time
	// Each is called, by several goroutines at once, for each processed event. Optional.
	Each func()
}

// Backfill is the result of a backfill.
type Backfill struct {
	EventsScanned     int // events in the window that the destination's subscriptions want
	DeliveriesCreated int // of those, the ones that had no delivery to it yet, or a discarded one
}

var errTooMany = errors.New("too many events")

// BackfillDestination makes deliveries of the events in a window that the destination's subscriptions want now and that
// have none yet, and makes discarded ones pending again. It makes all of them or, if the window holds too many, none.
// One backfill of an organization runs at a time, in all processes.
func (c *Commands) BackfillDestination(
	ctx context.Context, by Caller, in BackfillDestination,
) (none Result[Backfill], err error) {
	if err := in.check(); err != nil {
		return none, err
	}
	release, err := c.turn(ctx, by.Organization)
	if err != nil {
		return none, err
	}
	defer release()
	wanted, err := c.chargedFor(ctx, by, in)
	if err != nil {
		return none, err
	}
	if len(wanted) == 0 {
		return none, nil
	}
	counted := amount{by.Organization, organization.LimitRedeliveries, uuid.New(), len(wanted)}
	return within(ctx, c.Quotas, counted, func() (Result[Backfill], error) {
		return c.schedule(ctx, by, wanted, in.Each)
	})
}

// BackfillCount is a number of events of a backfill, of which some may have their delivery already.
type BackfillCount struct {
	Events int
	More   bool // than were counted: counting stops after going through MaxBackfillEvents events
}

// CountBackfill counts the events of a backfill. It costs the organization nothing, but waits for its turn.
func (c *Commands) CountBackfill(
	ctx context.Context, by Caller, in BackfillDestination,
) (none BackfillCount, err error) {
	if err := in.check(); err != nil {
		return none, err
	}
	release, err := c.turn(ctx, by.Organization)
	if err != nil {
		return none, err
	}
	defer release()
	return c.countBackfill(ctx, by, in)
}

// countBackfill is CountBackfill in the turn of the organization.
func (c *Commands) countBackfill(ctx context.Context, by Caller, in BackfillDestination) (BackfillCount, error) {
	scanned := 0
	wanted, err := c.wanted(ctx, by, in, func() error {
		if scanned++; scanned > MaxBackfillEvents {
			return errTooMany
		}
		return nil
	})
	counted := BackfillCount{Events: len(wanted), More: errors.Is(err, errTooMany)}
	if counted.More {
		err = nil
	}
	return counted, err
}

// Missed is the range of events published while a destination was off: enabling it does not send them, a backfill does.
type Missed struct {
	BackfillCount

	Since, Until time.Time
	Unknown      bool // they can't be counted now, as a backfill of the organization or another count runs
}

// MissedEvents counts what a destination that is not enabled has missed, in the longest window that a backfill takes.
func (c *Commands) MissedEvents(ctx context.Context, by Caller, id uuid.UUID) (Missed, error) {
	known, err := c.knownDestination(ctx, by, id)
	if err != nil || known.State.OffSince.IsZero() {
		return Missed{}, err
	}
	missed := Missed{Since: known.State.OffSince, Until: c.now()}
	if first := missed.Until.Add(-MaxBackfillWindow); missed.Since.Before(first) {
		missed.Since = first
	}
	release, granted, err := c.tryTurn(ctx, by.Organization)
	if missed.Unknown = !granted; err != nil || !granted {
		return missed, err
	}
	defer release()
	missed.BackfillCount, err = c.countBackfill(ctx, by, BackfillDestination{
		Destination: id,
		Since:       missed.Since,
		Until:       missed.Until,
	})
	return missed, err
}

func (in BackfillDestination) check() error {
	switch {
	case in.Until.Before(in.Since):
		return refuse(Malformed, "until", "until must not be before since")
	case in.Until.Sub(in.Since) > MaxBackfillWindow:
		return refuse(Malformed, "until", "until must be at most 30 days after since: backfill in parts, the oldest first")
	}
	return nil
}

// schedule makes the deliveries that are yet to be made, and counts them. If it fails with errPartly, these are made.
func (c *Commands) schedule(
	ctx context.Context, by Caller, wanted []dispatch.Schedule, each func(),
) (result Result[Backfill], err error) {
	made, last, err := forEach(ctx, wanted, each, func(ctx context.Context, _ int, s dispatch.Schedule) (
		eventstore.Position, error) {
		return c.scheduleOne(ctx, by, s.DeliveriesScheduled)
	})
	result.Value = Backfill{EventsScanned: len(wanted), DeliveriesCreated: len(made)}
	result.Position = last
	return result, err
}

// forEach records something for each of many, with a few at a time, in about their order. It returns those for which
// something was recorded, and the last position. Its error has errPartly if there are any. each is optional.
func forEach[T any](ctx context.Context, all []T, each func(),
	record func(context.Context, int, T) (eventstore.Position, error)) (made []T, last eventstore.Position, err error) {
	positions := make([]eventstore.Position, len(all))
	group, recording := errgroup.WithContext(ctx)
	group.SetLimit(concurrentRecords)
	for i, one := range all {
		group.Go(panics.Task("backfill", func() error {
			var err error
			if positions[i], err = record(recording, i, one); err == nil && each != nil {
				each()
			}
			return err
		}))
	}
	err = group.Wait()
	for i, position := range positions {
		if position == eventstore.Start {
			continue
		}
		made = append(made, all[i])
		if last.Before(position) {
			last = position
		}
	}
	if err != nil && len(made) > 0 {
		err = fmt.Errorf("%w: %w", errPartly, err)
	}
	return made, last, err
}

// scheduleOne makes the delivery of an event, or makes it pending again if it is discarded, and reports if it recorded
// that; eventstore.Start: there was nothing to do.
func (c *Commands) scheduleOne(
	ctx context.Context, by Caller, scheduled dispatch.DeliveriesScheduled,
) (eventstore.Position, error) {
	made, err := dispatch.Aggregate.Execute(ctx, c.Store, scheduled.Publication,
		dispatch.Schedule{DeliveriesScheduled: scheduled}, dispatch.Options{Metadata: by.metadata()})
	if errors.Is(err, eventstore.ErrStreamDeleted) {
		return eventstore.Start, nil // retired right now
	}
	if err != nil {
		return eventstore.Start, err
	}
	if len(made.Events) > 0 {
		return made.Position, nil
	}
	to := scheduled.Deliveries[0]
	id := dispatch.DeliveryID(scheduled.Publication, to.Destination)
	again, err := delivery.Aggregate.Execute(ctx, c.Store, id, delivery.Reinstate{
		Organization:  by.Organization,
		Destination:   to.Destination,
		Subscriptions: to.Subscriptions,
		At:            c.now(),
		RetiredBefore: c.retiredBefore(),
	}, delivery.Options{Metadata: by.metadata()})
	if err != nil || len(again.Events) == 0 {
		return eventstore.Start, err
	}
	return again.Position, nil
}

// chargedFor is wanted at the expense of the organization. It refuses what is too much for a backfill.
func (c *Commands) chargedFor(ctx context.Context, by Caller, in BackfillDestination) ([]dispatch.Schedule, error) {
	uncharged := 0
	charge := func() error {
		n := uncharged
		uncharged = 0
		return c.spend(ctx, by.Organization, organization.LimitBackfillEventsPerDay, n)
	}
	wanted, err := c.wanted(ctx, by, in, func() error {
		if uncharged++; uncharged < maxUncharged {
			return nil
		}
		return charge()
	})
	err = errors.Join(err, charge())
	if errors.Is(err, errTooMany) {
		refusal := refuse(Invalid, "since", "since and until hold more than %d events for this destination between them; "+
			"nothing was backfilled: bring them closer, and run the backfill in parts, the oldest first", MaxBackfillEvents)
		refusal.Err = errTooMany
		return nil, refusal
	}
	return wanted, err
}

// wanted lists what has to be scheduled, up to the first error. It calls scanned first for each event that it goes
// through.
func (c *Commands) wanted(
	ctx context.Context, by Caller, in BackfillDestination, scanned func() error,
) ([]dispatch.Schedule, error) {
	settings, err := c.History.SubscriptionSettings(ctx, by.Organization, in.Destination)
	if err != nil {
		return nil, err
	}
	var wanted []dispatch.Schedule
	now := c.now()
	each := func(id uuid.UUID, event dispatch.Summary) error {
		if err := scanned(); err != nil {
			return err
		}
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
			Publication: id,
			Event:       event,
			At:          now,
			Deliveries: []dispatch.Scheduled{{
				Destination:   in.Destination,
				Organization:  by.Organization,
				Subscriptions: matching,
			}},
		}})
		return nil
	}
	return wanted, c.History.History(ctx, by.Organization, in.Since, in.Until, c.retiredBefore(), each)
}
