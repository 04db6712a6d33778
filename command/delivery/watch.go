package delivery

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/feed"
	"carillon/aggregates/organization"
	"carillon/aggregates/publication"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
)

// watch follows destinations, suspensions, and access to feeds. It waits for nothing but
// events, so that they are known at once.
func (d *Deliverer) watch(ctx context.Context) {
	for ctx.Err() == nil { // again when the store has become another one
		d.watchFromHead(ctx)
	}
}

func (d *Deliverer) watchFromHead(ctx context.Context) {
	head, err := awaitHead(ctx, d.Store)
	if err != nil {
		return
	}
	d.mu.Lock()
	clear(d.disabled)
	d.mu.Unlock()
	d.readSuspensions(ctx)
	categories := []string{
		destination.Aggregate.Category, organization.Aggregate.Category, feed.Aggregate.Category,
		subscription.Aggregate.Category,
	}
	if d.ReadsDispatches {
		categories = append(categories, publication.Aggregate.Category, dispatch.Aggregate.Category)
	}
	filter := eventstore.Categories(categories...)
	broken := func() { d.remember(false) }
	defer broken()
	for m := range eventstore.FollowUnbroken(ctx, d.Store, head, filter, d.Log.With("consumer", "deliverer"),
		broken) {
		switch {
		case m.CaughtUp:
			d.remember(true)
		case m.Event != nil:
			d.changed(ctx, m.Event)
		}
	}
}

// awaitHead returns the head of the store as soon as it can be read, or the context's error.
func awaitHead(ctx context.Context, store eventstore.Store) (head eventstore.Position, err error) {
	for head, err = store.Head(ctx); err != nil; head, err = store.Head(ctx) {
		select {
		case <-ctx.Done():
			return head, ctx.Err()
		case <-time.After(idlePoll):
		}
	}
	return head, nil
}

// remember starts or stops caching, as changes are followed or not.
func (d *Deliverer) remember(following bool) {
	d.targets.follow(following)
	d.entitled.follow(following)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.following = following && d.ReadsDispatches
}

// changed takes in an event that the deliverer follows.
func (d *Deliverer) changed(ctx context.Context, recorded *eventstore.Recorded) {
	switch recorded.Category() {
	case publication.Aggregate.Category:
		d.published.add(recorded)
	case dispatch.Aggregate.Category:
		d.dispatched(ctx, recorded)
	case organization.Aggregate.Category:
		d.afterSuspension(recorded)
	case destination.Aggregate.Category:
		d.targets.forget(recorded.StreamID())
		event, err := destination.Events.Decode(recorded)
		if err != nil {
			d.Log.Error("deliverer can't read a destination event", "error", err)
			return // the projection that stops on it reports it; sending goes on with readable events
		}
		d.afterChange(recorded, event)
	default:
		d.entitled.changed(recorded)
	}
}

// afterChange returns a destination's waiting deliveries to the queue if it gets no more. Later requests use the
// state of the destination at their time.
func (d *Deliverer) afterChange(recorded *eventstore.Recorded, event destination.Event) {
	d.mu.Lock()
	defer d.mu.Unlock()
	id, now := recorded.StreamID(), time.Now()
	switch event.(type) {
	case destination.Deleted:
		delete(d.disabled, id)
		d.schedule.Changed(id, now)
		d.putBack(d.schedule.Drop(id, now))
	case destination.Disabled, destination.AutoDisabled: // replays are claimed again
		d.disabled[id] = struct{}{}
		d.putBack(d.schedule.Drop(id, now))
	case destination.Enabled:
		delete(d.disabled, id)
		d.schedule.Changed(id, now)
		d.Wake()
	case destination.Revised: // it may be another receiver
		d.schedule.Changed(id, now)
	// Nothing to it.
	case destination.Created, destination.SecretMinted, destination.SecretRotated, destination.SecretExpired:
	}
	d.begin(now)
}

// stopped reports whether a delivery is not to be sent, as its destination is disabled or its organization
// suspended. The read model may learn of that later than this process, so a claim may still return it, and the
// dispatcher may have leased it before. Behind requests that hang it would hold its lease until they end. The mutex
// is held.
func (d *Deliverer) stopped(job *Job) bool {
	_, disabled := d.disabled[job.Destination]
	return disabled && job.Replay == uuid.Nil || d.suspended.has(job.Organization)
}

// release returns deliveries to the queue and notifies other workers at once.
func (d *Deliverer) release(ctx context.Context, ids ...uuid.UUID) {
	if len(ids) > 0 {
		d.giveBack(ctx, ids)
		d.Queue.NotifyDue()
		d.Wake()
	}
}

func (d *Deliverer) giveBack(ctx context.Context, ids []uuid.UUID) {
	if len(ids) == 0 {
		return
	}
	if err := d.Queue.Release(ctx, ids); err != nil {
		d.Log.Warn("leases not released; they expire", "error", err)
	}
}
