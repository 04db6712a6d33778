// Package irreversible decides whether an irreversible act may happen by the clock now. Each act that time alone brings
// about, and that can't be undone, asks the one Gate: a clock that is wrong takes nothing.
//
//	Postgres' clock ── the process's ── the newest event's     agree within a minute
//	more than a tenth of the log is due                        in two turns a day apart
package irreversible

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/announcement"
	"carillon/eventstore"
)

// Act is an irreversible act by the clock.
type Act string

// The acts.
const (
	RetireEvents     Act = "retire_events"
	RetireHappenings Act = "retire_happenings"
	EraseLeftovers   Act = "erase_leftovers" // files of data keys that killed processes have not completed
	Scavenge         Act = "scavenge"        // what streams have lost is removed from the event store's files
	RenewKeys        Act = "renew_keys"      // shredded data keys can't be opened any more, also in copies of Postgres
)

const (
	// maxDifference is how far clocks may be apart.
	maxDifference = time.Minute
	// secondTurn is the time after which what takes a large share of the log may happen.
	secondTurn = 24 * time.Hour
)

// ErrClocks means that clocks differ, so nothing irreversible happens.
var ErrClocks = errors.New("clocks differ by more than a minute, nothing is removed by the clock: set them right")

// PostponedError means that a large share of the log is due: the act may happen a day after it was announced.
type PostponedError struct {
	Share

	Act   Act
	Until time.Time
}

// Error names the share and the time.
func (e *PostponedError) Error() string {
	return fmt.Sprintf("%s waits until %s, %d of %d are due at once: if the clock was set ahead, set it back before",
		e.Act, e.Until.UTC().Format(time.RFC3339), e.Due, e.Of)
}

// Share is the part of the log that an act takes.
type Share struct {
	Due int // 0 means that nothing is to be done
	Of  int // 0 means that the act takes nothing of the log by itself
}

// Due returns what an act would take at a time.
type Due func(ctx context.Context, now time.Time) (Share, error)

// Pass is Gate.Pass.
type Pass func(ctx context.Context, act Act, due Due) (now time.Time, err error)

// Gate decides about all acts. It is safe for concurrent use, by several processes as well.
type Gate struct {
	Store eventstore.Store
	// Database returns the time by Postgres' clock.
	Database func(context.Context) (time.Time, error)
	// Own is the process's clock, which follows no other.
	Own func() time.Time
}

// Pass returns the time by which an act may happen now. due is optional: without it the act takes nothing of the log by
// itself. Pass fails with ErrClocks, with a *PostponedError, or if the event store or Postgres can't be asked.
//
// An act is announced in the log before: the event shows the event store's clock, and remembers the first of two turns.
func (g *Gate) Pass(ctx context.Context, act Act, due Due) (now time.Time, err error) {
	asked := g.Own()
	now, err = g.Database(ctx)
	if err != nil {
		return now, err
	}
	now = now.UTC().Truncate(time.Microsecond)
	if err := agree("this process's", asked, now, g.Own()); err != nil {
		return now, err
	}
	share := Share{Due: 1}
	if due != nil {
		if share, err = due(ctx, now); err != nil {
			return now, err
		}
	}
	id := announcement.StreamID(string(act))
	known, err := announcement.Aggregate.Load(ctx, g.Store, id)
	if err != nil || share.Due == 0 && known.State.Due == 0 {
		return now, err
	}
	announced, err := announcement.Aggregate.Execute(ctx, g.Store, id, announcement.Make{
		Act: string(act),
		Due: share.Due,
		Of:  share.Of,
		At:  now,
	}, announcement.Options{
		Metadata: eventstore.Metadata{Actor: "irreversible"},
		Known:    &known,
	})
	if err == nil {
		err = g.recorded(ctx, id, announced.Revision, now)
	}
	until := announced.State.Since.Add(secondTurn)
	if err != nil || !announcement.Large(share.Due, share.Of) || !now.Before(until) {
		return now, err
	}
	return now, &PostponedError{
		Share: share,
		Act:   act,
		Until: until,
	}
}

// recorded compares the event store's clock, by the event that was recorded just now: it is the newest one.
func (g *Gate) recorded(ctx context.Context, id uuid.UUID, revision eventstore.Revision, now time.Time) error {
	for newest, err := range g.Store.Read(ctx, announcement.Aggregate.Stream(id), revision) {
		if err != nil {
			return err
		}
		return agree("the event store's", newest.Created, now, newest.Created)
	}
	return fmt.Errorf("event %d of %s was recorded and is not there", revision, announcement.Aggregate.Stream(id))
}

// agree compares a clock with Postgres', which was asked in between.
func agree(whose string, before, now, after time.Time) error {
	if now.Sub(after) > maxDifference || before.Sub(now) > maxDifference {
		return fmt.Errorf("%w: %s shows %s, Postgres' %s", ErrClocks, whose, before.UTC().Format(time.RFC3339),
			now.UTC().Format(time.RFC3339))
	}
	return nil
}
