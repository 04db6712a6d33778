package sending

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
	"carillon/eventstore/panics"
)

// Handoff takes fresh deliveries without a detour through Postgres; Deliverer is one. A nil Handoff takes none.
type Handoff interface {
	// Lease finds a worker with room for a fresh delivery, and sets until when it holds it. In this process the room is
	// kept for it. worker is 0 if none has room: then the delivery is claimed from the read model.
	Lease(fresh *schedule.Delivery) (worker int32)
	// Offer hands over deliveries that are recorded as leased, and leaves those of workers elsewhere, which read the
	// record themselves. A delivery that is not taken is found by its lease.
	Offer(recorded []*schedule.Delivery)
	// Withdraw frees the room that is kept for deliveries that are not recorded as leased.
	Withdraw(leased []*schedule.Delivery)
}

var _ Handoff = (*Deliverer)(nil)

// Lease implements Handoff.
func (d *Deliverer) Lease(fresh *schedule.Delivery) (worker int32) {
	d.init()
	worker, known := d.Queue.Worker()
	if !known {
		return 0
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if fresh.Limit = d.Facts.Limit(fresh.Destination); d.ctx == nil || !d.restsKnown || d.Facts.Stopped(fresh) ||
		!d.schedule.Admit(fresh, time.Now()) {
		return 0
	}
	fresh.LeasedUntil = d.LeasedUntil()
	return worker
}

// LeasedUntil returns the end of leases that are handed over now.
func (d *Deliverer) LeasedUntil() time.Time { return d.Queue.Now().Add(d.lease()) }

// Offer implements Handoff.
func (d *Deliverer) Offer(recorded []*schedule.Delivery) {
	d.takeFresh(recorded, func(id uuid.UUID) bool { return d.schedule.Has(id) }) // another schedule may take its place
}

// Withdraw implements Handoff.
func (d *Deliverer) Withdraw(leased []*schedule.Delivery) {
	d.guarded(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, fresh := range leased {
			d.schedule.Withdraw(fresh.ID)
		}
	})()
}

// takeFresh takes deliveries that are recorded as this worker's: those that mine reports.
func (d *Deliverer) takeFresh(deliveries []*schedule.Delivery, mine func(id uuid.UUID) bool) {
	losses, _ := d.Queue.Holding()
	now := time.Now()
	var refused []uuid.UUID
	var ctx context.Context
	d.guarded(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		ctx = d.ctx //nolint:fatcontext // of the deliverer, read under its mutex
		for _, fresh := range deliveries {
			if !mine(fresh.ID) {
				continue
			}
			fresh.QueuedAt, fresh.Losses = now, losses
			if !d.offer(fresh, now) {
				refused = append(refused, fresh.ID)
				d.refused[fresh.Destination] = struct{}{}
			}
		}
		d.begin(now)
	})()
	if len(refused) > 0 && ctx != nil {
		d.announceNow()
		d.Log.Debug("no room for fresh deliveries", "deliveries", len(refused))
		time.AfterFunc(projectionWait, panics.Func("deliverer", func() { d.release(ctx, refused...) }))
	}
}

// offer puts a delivery into the schedule, and reports whether it was taken. The mutex is held.
func (d *Deliverer) offer(one *schedule.Delivery, now time.Time) bool {
	if d.Facts.Stopped(one) {
		d.schedule.Withdraw(one.ID)
		return false
	}
	one.Limit = d.Facts.Limit(one.Destination)
	return d.schedule.Offer(one, now)
}
