package retire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/aggregates/retirement"
	"carillon/command/irreversible"
	"carillon/eventstore"
	"carillon/eventstore/panics"
)

const (
	turnEvery = time.Hour
	turnFirst = 10 * time.Minute // after the start
	walkEvery = 24 * time.Hour   // all old events are looked at again, in case those that had to stay have ended
	pageSize  = 500              // events that are looked at
	readers   = 8                // streams that are read at once
	// grace separates the last moment of a replay from the removal, in case clocks differ or an append is slow.
	grace = time.Hour
	// stepLimit bounds the time for a page of events, or for the deletion of a batch's streams, in case the event store
	// or Postgres does not answer.
	stepLimit = 10 * time.Minute
	// scavengeLimit bounds a scavenge. One that is cut off goes on in the next turn.
	scavengeLimit = 6 * time.Hour
	// MinAge is the shortest time that deliveries are kept.
	MinAge = 7 * 24 * time.Hour
)

// ErrRetiring means that another process retires now.
var ErrRetiring = errors.New("another process retires")

// actor is the actor of the events.
const actor = "retirement"

// allowed returns the time before which what is over must have changed last, if it may be retired now.
func allowed(
	ctx context.Context, pass irreversible.Pass, act irreversible.Act, keep time.Duration, due irreversible.Due,
) (before time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	now, err := pass(ctx, act, func(ctx context.Context, now time.Time) (irreversible.Share, error) {
		return due(ctx, cutoff(now, keep))
	})
	return cutoff(now, keep), err
}

func cutoff(now time.Time, keep time.Duration) time.Time {
	return now.Add(-keep - grace).UTC().Truncate(time.Microsecond)
}

// Retirer retires what is over, every hour, in one process of all.
type Retirer struct {
	Store eventstore.Store
	// Oldest lists events that were published before a time, in the order of their publishing, after one of them (the
	// zero value: from the first). revision is the last one of the stream of batches that these rows have applied.
	Oldest func(ctx context.Context, before time.Time, after retirement.Old, limit int) (
		page []retirement.Old, revision eventstore.Revision, err error)
	// Due counts the events that were published before a time, and all.
	Due irreversible.Due
	// Health returns the health of destinations.
	Health func(ctx context.Context, destinations []uuid.UUID) (map[uuid.UUID]retirement.Health, error)
	// Await waits until the read models have applied the event at a position.
	Await func(ctx context.Context, at eventstore.Position) error
	// Dispatched returns a position up to which all that is published has its deliveries.
	Dispatched func(ctx context.Context) eventstore.Position
	// Removed waits until the streams of the batch at a position are deleted.
	Removed func(ctx context.Context, at eventstore.Position) error
	// Scavenge reclaims the space of deleted streams. nil means that the store does that by itself.
	Scavenge func(ctx context.Context) error
	// Lock takes the lock of the process that retires, or fails with ErrRetiring.
	Lock func(ctx context.Context) (release func(), err error)
	// Reached waits until the event store is reached, and returns a context that ends when it is lost.
	Reached func(ctx context.Context) (context.Context, context.CancelFunc)
	Keep    time.Duration // since the last change; 0 means forever
	// Pass decides whether something may be removed now; see irreversible.Gate.
	Pass irreversible.Pass
	// Happenings retires happenings in the same turns. Optional.
	Happenings *Happenings
	Now        func() time.Time
	Log        *slog.Logger
	// Started is when the process did.
	Started time.Time

	scavenged bool           // since this process started, and nothing was retired since
	after     retirement.Old // the last event that was looked at, from which turns go on
	walked    time.Time      // when they last began with the first event

	mu      sync.Mutex
	retired Totals
	ended   time.Time // the last turn without an error; zero means none
	failure error     // of the last turn
	waiting []string  // what the last turn postponed, and why
}

// Run retires until the context ends.
func (r *Retirer) Run(ctx context.Context) error {
	wait := turnFirst
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
			r.turn(ctx)
			wait = turnEvery
		}
	}
}

// turn retires what is over, unless another process does.
func (r *Retirer) turn(ctx context.Context) {
	reached, done := r.Reached(ctx)
	defer done()
	_, err := r.Retire(reached)
	if errors.Is(err, ErrRetiring) || ctx.Err() != nil {
		return
	}
	r.end(err)
	if err != nil {
		r.Log.Error("retirement failed, tried again", "after", turnEvery, "error", err)
	}
}

// Retire retires all that is over by now, and returns the number of published events and happenings.
func (r *Retirer) Retire(ctx context.Context) (n int, err error) {
	n, last, err := r.retire(ctx)
	if err != nil {
		return n, err
	}
	return n, r.scavenge(ctx, last)
}

// retire retires all that is over by now under the lock. last is the position of the last batch.
func (r *Retirer) retire(ctx context.Context) (n int, last eventstore.Position, err error) {
	locking, cancel := context.WithTimeout(ctx, stepLimit)
	release, err := r.Lock(locking)
	cancel()
	if err != nil {
		return 0, eventstore.Start, err
	}
	defer release()
	r.forgetPostponed()
	if r.Keep > 0 {
		n, last, err = r.retireEvents(ctx)
		if err := r.unlessPostponed(err); err != nil {
			return n, last, err
		}
	}
	if r.Happenings == nil {
		return n, last, nil
	}
	happenings, at, err := r.Happenings.Retire(ctx, r.Pass)
	err = r.unlessPostponed(err)
	r.count(Totals{Happenings: happenings})
	if at != eventstore.Start {
		last, r.scavenged = at, false
	}
	return n + happenings, last, err
}

// retireEvents retires published events. last is the position of the last batch.
func (r *Retirer) retireEvents(ctx context.Context) (events int, last eventstore.Position, err error) {
	before, err := allowed(ctx, r.Pass, irreversible.RetireEvents, r.Keep, r.Due)
	if err != nil {
		return 0, last, err
	}
	began, deliveries := r.Now(), 0
	if began.Sub(r.walked) >= walkEvery {
		r.after, r.walked = retirement.Old{}, began
	}
	for {
		b, at, err := r.step(ctx, before)
		if err != nil {
			return events, last, err
		}
		if b == nil {
			break
		}
		if n := len(b.retired.Publications); n > 0 {
			last, events, deliveries = at, events+n, deliveries+b.deliveries
		}
	}
	if events > 0 {
		r.Log.Info("events retired", "events", events, "deliveries", deliveries, "before", before,
			"took", r.Now().Sub(began).Round(time.Millisecond))
	}
	return events, last, nil
}

// step retires what is over of the next page. It returns nil after the last one.
func (r *Retirer) step(ctx context.Context, before time.Time) (b *batch, at eventstore.Position, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	page, revision, err := r.Oldest(ctx, before, r.after, pageSize)
	if err != nil || len(page) == 0 {
		return nil, eventstore.Start, err
	}
	b = newBatch(before)
	b.dispatched = r.Dispatched(ctx)
	looked, err := r.fill(ctx, b, page)
	if err != nil {
		return nil, eventstore.Start, err
	}
	if len(b.retired.Publications) > 0 {
		if at, err = r.record(ctx, b, revision); err != nil {
			return nil, at, err
		}
	}
	r.after = page[looked-1]
	return b, at, nil
}

// fill adds the events of a page that are over to a batch, until that is full, and returns how many it has looked at,
// at least one.
func (r *Retirer) fill(ctx context.Context, b *batch, page []retirement.Old) (looked int, err error) {
	for looked < len(page) {
		part := page[looked:min(looked+readers, len(page))]
		all := make([]*published, len(part))
		reading, readingCtx := errgroup.WithContext(ctx)
		for i, p := range part {
			reading.Go(panics.Task("retirement", func() (err error) {
				all[i], err = r.read(readingCtx, p, b)
				if errors.Is(err, eventstore.ErrStreamDeleted) {
					return nil // retired before, and the row is yet to follow
				}
				return err
			}))
		}
		if err := reading.Wait(); err != nil {
			return looked, err
		}
		for _, p := range all {
			if p != nil && !b.add(p) {
				if len(b.retired.Publications) > 0 {
					return looked, nil
				}
				r.Log.Warn("event has too many deliveries to be retired", "event", p.id)
			}
			looked++
		}
	}
	return looked, nil
}

// read reads an event with all its deliveries; nil if it is not over.
func (r *Retirer) read(ctx context.Context, of retirement.Old, b *batch) (*published, error) {
	p := &published{
		id:         of.ID,
		at:         of.At,
		deliveries: map[uuid.UUID][]delivery.Event{},
		deleted:    map[uuid.UUID]struct{}{},
	}
	recorded, err := publication.Aggregate.Load(ctx, r.Store, p.id)
	if err != nil || b.dispatched.Before(recorded.Position) {
		return nil, err
	}
	dispatched, err := events(ctx, r.Store, dispatch.Aggregate, p.id)
	if err != nil {
		return nil, err
	}
	for _, event := range dispatched {
		switch e := event.(type) {
		case dispatch.DeliveriesScheduled:
			p.dispatched = append(p.dispatched, e)
		}
	}
	for i := range p.dispatched {
		for _, scheduled := range p.dispatched[i].Deliveries {
			if err := r.readDelivery(ctx, p, scheduled.Destination); err != nil {
				return nil, err
			}
		}
	}
	if !p.over(b.retired.Before) {
		return nil, nil //nolint:nilnil // it stays, which is no error
	}
	return p, nil
}

func (r *Retirer) readDelivery(ctx context.Context, p *published, to uuid.UUID) error {
	id := dispatch.DeliveryID(p.id, to)
	happened, err := events(ctx, r.Store, delivery.Aggregate, id)
	if err != nil {
		return err
	}
	p.deliveries[id] = happened
	if stateAfter(happened).Over() {
		return nil
	}
	of, err := destination.Aggregate.Load(ctx, r.Store, to)
	if err == nil && of.State.Status == destination.StatusDeleted {
		p.deleted[to] = struct{}{}
	}
	return err
}

// events reads a stream.
func events[S, E, C any](
	ctx context.Context, store eventstore.Store, a eventstore.Aggregate[S, E, C], id uuid.UUID,
) (list []E, err error) {
	for recorded, err := range store.Read(ctx, a.Stream(id), 0) {
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", a.Stream(id), err)
		}
		event, err := a.Codec.Decode(&recorded)
		if err != nil {
			return nil, err
		}
		list = append(list, event)
	}
	return list, nil
}

// record appends a batch at the revision that its events were chosen by, and waits until the rows are gone.
func (r *Retirer) record(
	ctx context.Context, b *batch, revision eventstore.Revision,
) (at eventstore.Position, err error) {
	ids := make([]uuid.UUID, len(b.retired.Destinations))
	for i := range ids {
		ids[i] = b.retired.Destinations[i].ID
	}
	states, err := r.Health(ctx, ids)
	if err != nil {
		return eventstore.Start, err
	}
	for i, id := range ids {
		b.retired.Destinations[i].Health = states[id]
	}
	b.retired.At = r.Now().UTC().Truncate(time.Microsecond)
	out, err := retirement.Aggregate.Execute(ctx, r.Store, retirement.LogID, retirement.Retire(b.retired),
		retirement.Options{
			CommandID: b.retired.Batch,
			Metadata:  eventstore.Metadata{Actor: actor},
			Known:     &eventstore.Loaded[retirement.State]{Revision: revision},
			OnlyKnown: true,
		})
	if err != nil {
		return eventstore.Start, fmt.Errorf("record retired events: %w", err)
	}
	r.scavenged = false
	r.count(Totals{Events: len(b.retired.Publications), Deliveries: b.deliveries})
	return out.Position, r.Await(ctx, out.Position)
}

// scavenge removes the events of deleted streams, unless nothing was retired since it did.
func (r *Retirer) scavenge(ctx context.Context, last eventstore.Position) error {
	if r.Scavenge == nil || r.scavenged {
		return nil
	}
	if last != eventstore.Start {
		removing, cancel := context.WithTimeout(ctx, stepLimit)
		err := r.Removed(removing, last)
		cancel()
		if err != nil {
			return fmt.Errorf("wait for deleted streams: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, scavengeLimit)
	defer cancel()
	_, err := r.Pass(ctx, irreversible.Scavenge, nil)
	if err == nil {
		err = r.Scavenge(ctx)
	}
	r.scavenged = err == nil
	return err
}
