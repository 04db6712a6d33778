package delivery

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
	"carillon/eventstore/panics"
)

// Handoff takes fresh deliveries without a detour through Postgres; Deliverer is one. A nil Handoff takes none.
type Handoff interface {
	// Lease returns the worker that has room for a delivery now, and until when it holds it. ok is false if none
	// has: then the delivery is claimed from the read model.
	Lease(organization, destination uuid.UUID, body *Body) (worker int32, until time.Time, ok bool)
	// Offer hands over deliveries that are recorded as leased, and leaves those of workers elsewhere, which read the
	// record themselves. A delivery that is not taken is found by its lease.
	Offer(jobs []Job)
}

var _ Handoff = (*Deliverer)(nil)

// Lease implements Handoff.
func (d *Deliverer) Lease(organization, destination uuid.UUID, body *Body) (worker int32, until time.Time, ok bool) {
	d.init()
	worker, known := d.Queue.Worker()
	if !known {
		return 0, time.Time{}, false
	}
	job := Job{Organization: organization, Destination: destination, Body: body}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil || !d.restsKnown || d.stopped(&job) || !d.schedule.Admits(job.scheduled(), time.Now()) {
		return 0, time.Time{}, false
	}
	return worker, d.LeasedUntil(), true
}

// LeasedUntil returns the end of leases that are handed over now.
func (d *Deliverer) LeasedUntil() time.Time { return d.Queue.Now().Add(d.lease()) }

// Offer implements Handoff.
func (d *Deliverer) Offer(jobs []Job) {
	worker, _ := d.Queue.Worker()
	losses, _ := d.Queue.Holding()
	now := time.Now()
	var refused []uuid.UUID
	var ctx context.Context
	d.guarded(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		ctx = d.ctx //nolint:fatcontext // of the deliverer, read under its mutex
		for i := range jobs {
			if jobs[i].Worker != worker {
				continue
			}
			jobs[i].fresh, jobs[i].came, jobs[i].Losses = true, now, losses
			if d.stopped(&jobs[i]) || !d.schedule.Offer(jobs[i].scheduled(), now) {
				refused = append(refused, jobs[i].ID)
				d.refused[jobs[i].Destination] = struct{}{}
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

// scheduled returns the job as the scheduler takes it.
func (j *Job) scheduled() schedule.Delivery {
	return schedule.Delivery{
		ID:           j.ID,
		Destination:  j.Destination,
		Organization: j.Organization,
		Event:        j.Body.Event,
		Size:         j.Body.size,
		Claimed:      !j.fresh,
		Payload:      j,
	}
}
