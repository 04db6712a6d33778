package sending

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/organization"
	"carillon/aggregates/publication"
	"carillon/command/delivery/facts"
	"carillon/eventstore"
)

var _ facts.Listener = (*Deliverer)(nil)

// Following implements facts.Listener.
func (d *Deliverer) Following(following bool) {
	d.init()
	d.mu.Lock()
	d.following = following && d.Facts.Dispatches
	d.mu.Unlock()
	d.announceNow()
}

// Applied implements facts.Listener. It waits for nothing but events, so that they are known at once.
func (d *Deliverer) Applied(ctx context.Context, recorded *eventstore.Recorded, event any) {
	d.init()
	d.guarded(func() {
		switch recorded.Category() {
		case publication.Aggregate.Category:
			d.published.add(recorded)
			return
		case dispatch.Aggregate.Category:
			d.dispatched(ctx, recorded)
			return
		case destination.Aggregate.Category, organization.Aggregate.Category:
			d.afterChange(recorded.StreamID(), event)
		}
		d.announceNow()
	})()
}

// afterChange returns waiting deliveries to the queue if a destination or an organization gets no more. Later
// requests use the state of the destination at their time.
func (d *Deliverer) afterChange(id uuid.UUID, event any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	switch e := event.(type) {
	case destination.Event:
		d.afterDestination(id, e, now)
	case organization.Event:
		d.afterOrganization(id, e, now)
	}
	d.begin(now)
}

func (d *Deliverer) afterDestination(id uuid.UUID, event destination.Event, now time.Time) {
	switch event.(type) {
	case destination.Deleted:
		d.schedule.Changed(id, 0, now)
		d.putBack(d.schedule.Drop(id, now))
	case destination.Disabled, destination.AutoDisabled: // replays are claimed again
		d.putBack(d.schedule.Drop(id, now))
	case destination.Enabled:
		d.schedule.Changed(id, d.Facts.Limit(id), now)
		d.Wake()
	case destination.Revised: // it may be another receiver
		d.schedule.Changed(id, d.Facts.Limit(id), now)
	// Nothing to it.
	case destination.Created, destination.SecretMinted, destination.SecretRotated, destination.SecretExpired:
	}
}

func (d *Deliverer) afterOrganization(id uuid.UUID, event organization.Event, now time.Time) {
	switch event.(type) {
	case organization.Suspended, organization.Deleted: // its objects are deleted soon after it
		d.putBack(d.schedule.DropAll(id, now))
	case organization.Resumed:
		d.Wake()
	// Nothing to it.
	case organization.Registered, organization.KeyIssued, organization.KeyRotated, organization.KeyRevoked,
		organization.LimitsSet:
	}
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
