package command

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/organization"
	"carillon/eventstore"
)

// Bounds of a recovery.
const (
	RecoveryWindow = 7 * 24 * time.Hour // if the caller names none
	MaxRecoveryAge = 30 * 24 * time.Hour
	MaxRecovered   = 10_000
	recoverySlack  = time.Minute // between the clock by which a caller counted back and this one
)

// Backlog is the read model of deliveries that have not arrived.
type Backlog interface {
	// Undelivered lists those that can be sent now, oldest first.
	Undelivered(context.Context, UndeliveredFilter) ([]Undelivered, error)
	// HeldUntil returns until when nothing is sent to a destination, because its receiver asked for that, or its limit
	// allows no more. The zero time means that it is not held.
	HeldUntil(ctx context.Context, destination uuid.UUID) (time.Time, error)
}

// UndeliveredFilter selects what waits for a later time and was made until a time, and what failed permanently and was
// made between two; both ends are included.
type UndeliveredFilter struct {
	Destination  uuid.UUID
	Since, Until time.Time
	Now          time.Time
	Types        []string // of events: exact, or with a trailing wildcard. Empty means all
	Limit        int
}

// Undelivered is a delivery that has not arrived.
type Undelivered struct {
	ID     uuid.UUID
	FeedID uuid.UUID // of its event; zero: no feed
	Failed bool      // permanently; else it waits
}

// RecoverDestination is the input of a recovery.
type RecoverDestination struct {
	Destination uuid.UUID
	Since       time.Time // Optional. RecoveryWindow before Until
	Until       time.Time // Optional. Now
	Types       []string  // as in UndeliveredFilter
	// Each is called, by several goroutines at once, for each processed delivery. Optional.
	Each func()
}

// Recovery is the result of a recovery.
type Recovery struct {
	Retried  int // deliveries that waited, and are due now
	Replayed int // deliveries that failed, and are sent again
}

// All returns the number of deliveries that are sent.
func (r Recovery) All() int { return r.Retried + r.Replayed }

// RecoverDestination sends everything that has not arrived at a destination and can be sent, the oldest first, as fast
// as the destination takes it: what waits is due now, what failed in the window is replayed. It asks for all of that
// or, if it is too much, for nothing.
func (c *Commands) RecoverDestination(
	ctx context.Context, by Caller, in RecoverDestination,
) (none Result[Recovery], err error) {
	to, err := c.knownDestination(ctx, by, in.Destination)
	switch {
	case err != nil:
		return none, err
	case to.State.Status != destination.StatusEnabled:
		return none, refused(delivery.ErrOff)
	}
	release, err := c.turn(ctx, by.Organization)
	if err != nil {
		return none, err
	}
	defer release()
	found, err := c.undelivered(ctx, by, in)
	if err != nil {
		return none, err
	}
	ask := func() (Result[Recovery], error) { return c.askForAll(ctx, by, found, in) }
	replays := countRecovery(found).Replayed
	if replays == 0 {
		return ask() // what waits is counted already
	}
	return within(ctx, c.Quotas, amount{by.Organization, organization.LimitRedeliveries, uuid.New(), replays}, ask)
}

// CountRecovery returns what a recovery does, were the destination enabled.
func (c *Commands) CountRecovery(ctx context.Context, by Caller, in RecoverDestination) (Recovery, error) {
	if _, err := c.knownDestination(ctx, by, in.Destination); err != nil {
		return Recovery{}, err
	}
	found, err := c.undelivered(ctx, by, in)
	return countRecovery(found), err
}

func countRecovery(of []Undelivered) (counted Recovery) {
	for _, d := range of {
		if d.Failed {
			counted.Replayed++
		} else {
			counted.Retried++
		}
	}
	return counted
}

// askForAll records the retries and replays of a recovery. A delivery that has changed meanwhile is left alone.
func (c *Commands) askForAll(
	ctx context.Context, by Caller, found []Undelivered, in RecoverDestination,
) (Result[Recovery], error) {
	began, retiredBefore := c.now(), c.retiredBefore()
	asked, last, err := forEach(ctx, found, in.Each, func(ctx context.Context, i int, d Undelivered) (
		eventstore.Position, error) {
		at := began.Add(time.Duration(i) * time.Microsecond) // claims go by it: the oldest first
		var request delivery.Command = delivery.RequestRetry{
			Organization: by.Organization,
			Destination:  in.Destination,
			At:           at,
		}
		if d.Failed {
			request = delivery.RequestReplay{
				Organization:  by.Organization,
				Destination:   in.Destination,
				Replay:        uuid.New(),
				At:            at,
				RetiredBefore: retiredBefore,
			}
		}
		out, err := c.ask(ctx, by, d.ID, request)
		if refusal := (*Refusal)(nil); errors.As(refused(err), &refusal) || err == nil && len(out.Events) == 0 {
			return eventstore.Start, nil
		}
		return out.Position, err
	})
	return Result[Recovery]{Value: countRecovery(asked), Position: last}, err
}

// fillWindow sets the ends of the window that the caller left open, or refuses the one that the caller named.
func (in *RecoverDestination) fillWindow(now time.Time) error {
	const tooOld = "%s must be at most 30 days ago"
	oldest := now.Add(-MaxRecoveryAge - recoverySlack)
	switch since, until := in.Since, in.Until; {
	case !since.IsZero() && since.Before(oldest):
		return refuse(Malformed, "since", tooOld, "since")
	case !until.IsZero() && until.Before(oldest):
		return refuse(Malformed, "until", tooOld, "until")
	case until.IsZero() && since.After(now.Add(recoverySlack)):
		return refuse(Malformed, "since", "since must not be in the future")
	case !until.IsZero() && until.Before(since):
		return refuse(Malformed, "until", "until must not be before since")
	}
	if in.Until.IsZero() {
		in.Until = now
	}
	if in.Since.IsZero() {
		in.Since = in.Until.Add(-RecoveryWindow)
		if in.Since.Before(oldest) {
			in.Since = oldest
		}
	}
	return nil
}

// undelivered lists what a recovery sends, the oldest first.
func (c *Commands) undelivered(ctx context.Context, by Caller, in RecoverDestination) ([]Undelivered, error) {
	now := c.now()
	if err := in.fillWindow(now); err != nil {
		return nil, err
	}
	all, err := c.Backlog.Undelivered(ctx, UndeliveredFilter{
		Destination: in.Destination,
		Since:       in.Since,
		Until:       in.Until,
		Now:         now,
		Types:       in.Types,
		Limit:       MaxRecovered + 1,
	})
	if err != nil {
		return nil, err
	}
	if len(all) > MaxRecovered {
		return nil, refuse(Invalid, "until", "until is too late: more than %d deliveries wait or have failed; nothing was "+
			"sent: recover in parts, the oldest first, by an earlier until, or by types", MaxRecovered)
	}
	refusals := map[uuid.UUID]*Refusal{} // by feed
	sendable := all[:0]
	for _, d := range all {
		refusal, known := refusals[d.FeedID]
		if !known && d.Failed {
			if refusal, err = c.unreadable(ctx, by, d.FeedID); err != nil {
				return nil, err
			}
			refusals[d.FeedID] = refusal
		}
		if !d.Failed || refusal == nil {
			sendable = append(sendable, d)
		}
	}
	return sendable, nil
}
