package delivery

import (
	"time"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
)

// Handoff takes fresh deliveries without a way round through Postgres; Deliverer is one. A nil Handoff takes none.
type Handoff interface {
	// Lease returns the worker that has room for a delivery now, and until when it holds it. ok is false if none has: then the
	// delivery is claimed from the read model.
	Lease(organization, destination uuid.UUID, body *Body) (worker int32, until time.Time, ok bool)
	// Offer hands over deliveries that are recorded as leased. What is not taken is found by its lease.
	Offer(jobs []Job)
}

var _ Handoff = (*Deliverer)(nil)

// Lease implements Handoff.
func (d *Deliverer) Lease(organization, destination uuid.UUID, body *Body) (worker int32, until time.Time, ok bool) {
	d.init()
	worker, known := d.Queue.Worker()
	if !known || d.suspended.has(organization) {
		return 0, time.Time{}, false
	}
	job := Job{Organization: organization, Destination: destination, Body: body}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil || !d.restsKnown || !d.schedule.Admits(job.scheduled(), time.Now()) {
		return 0, time.Time{}, false
	}
	return worker, d.Queue.Now().Add(d.lease()), true
}

// Offer implements Handoff.
func (d *Deliverer) Offer(jobs []Job) {
	losses, _ := d.Queue.Holding()
	now := time.Now()
	var refused []uuid.UUID
	d.mu.Lock()
	for i := range jobs {
		jobs[i].fresh, jobs[i].came, jobs[i].Losses = true, now, losses
		if d.stopped(&jobs[i]) || !d.schedule.Offer(jobs[i].scheduled(), now) {
			refused = append(refused, jobs[i].ID)
		}
	}
	d.begin(now)
	ctx := d.ctx
	d.mu.Unlock()
	if len(refused) > 0 && ctx != nil {
		d.Log.Debug("fresh deliveries found no room", "deliveries", len(refused))
		time.AfterFunc(projectionWait, func() { d.release(ctx, refused...) })
	}
}

// scheduled returns the job as the scheduler takes it.
func (j *Job) scheduled() schedule.Delivery {
	return schedule.Delivery{
		ID: j.ID, Destination: j.Destination, Organization: j.Organization, Event: j.Body.Event, Size: j.Body.size,
		Claimed: !j.fresh, Payload: j,
	}
}
