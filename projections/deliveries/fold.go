package deliveries

import (
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/retirement"
	"carillon/projections/column"
	"carillon/projections/deliveries/deliverystate"
)

// fold holds the changes of a batch to the rows that it concerns. It does no I/O.
type fold struct {
	rows    []*row // in the order of their first event
	byID    map[uuid.UUID]*row
	gone    map[uuid.UUID]struct{} // deleted destinations
	deleted column.UUIDs           // those of which rows leave with this batch
	retired retired
}

// row is a delivery in the making. A zero before means that it is new.
type row struct {
	id            uuid.UUID
	organization  uuid.UUID
	destination   uuid.UUID
	subscriptions []uuid.UUID
	publication   uuid.UUID
	event         dispatch.Summary
	createdAt     time.Time

	before      delivery.Status // as stored
	status      delivery.Status
	completedAt time.Time
	revision    int64
	changed     int64 // the place in the log of the event that changed it last
	attempts    int
	automatic   int
	last        *attempt  // made in this batch
	earlier     []attempt // made in this batch, before last

	reinstated     bool // for other subscriptions than it is stored with
	attemptsBefore int  // as stored
	touched        bool
	gone           bool // its destination is deleted: what happens to it later does not count

	replayBefore uuid.UUID // as stored
	replay       uuid.UUID // requested
	dueTouched   bool
	retried      bool      // the stored row is due at dueAt: only that is known of it, as a worker may hold it
	dueAt        time.Time // zero: not due
	decidedAt    time.Time // when that was decided
	availableAt  time.Time
	worker       int32
}

// attempt is an attempt, and the place of its event in the log.
type attempt struct {
	delivery.Attempted

	sequence int64
}

func newFold(size int) *fold {
	return &fold{rows: make([]*row, 0, size), byID: make(map[uuid.UUID]*row, size), gone: map[uuid.UUID]struct{}{}}
}

func (f *fold) add(r *row) {
	f.rows = append(f.rows, r)
	f.byID[r.id] = r
}

// apply takes the next event.
func (f *fold) apply(s step) {
	switch event := s.event.(type) {
	case dispatch.Event:
		scheduled := scheduledBy(event)
		for i := range scheduled.Deliveries {
			f.schedule(&scheduled, &scheduled.Deliveries[i], s.sequence)
		}
	case destination.Event:
		f.applyDestination(s.id, event)
	case delivery.Event:
		if r := f.byID[s.id]; r != nil && !r.gone {
			r.revision, r.changed, r.touched = int64(s.revision), s.sequence, true
			r.apply(event)
		}
	case retirement.Event:
		f.retire(retiredBy(event))
	}
}

func scheduledBy(event dispatch.Event) (scheduled dispatch.DeliveriesScheduled) {
	switch e := event.(type) {
	case dispatch.DeliveriesScheduled:
		scheduled = e
	}
	return scheduled
}

func (f *fold) applyDestination(id uuid.UUID, event destination.Event) {
	switch e := event.(type) {
	case destination.Deleted:
		f.drop(id, e.At)
	case destination.Created, destination.Revised, destination.Enabled, destination.Disabled, destination.AutoDisabled,
		destination.SecretMinted, destination.SecretRotated, destination.SecretExpired: // leave its deliveries as they are
	}
}

func (f *fold) schedule(event *dispatch.DeliveriesScheduled, d *dispatch.Scheduled, sequence int64) {
	r := &row{
		id:            dispatch.DeliveryID(event.Publication, d.Destination),
		organization:  d.Organization,
		destination:   d.Destination,
		subscriptions: d.Subscriptions,
		publication:   event.Publication,
		event:         event.Event,
		createdAt:     event.At,
		status:        delivery.StatusPending,
		revision:      -1,
		changed:       sequence,
		dueTouched:    true,
		dueAt:         event.At,
		decidedAt:     event.At,
	}
	if d.NotBefore.After(r.dueAt) {
		r.dueAt = d.NotBefore
	}
	r.availableAt = r.dueAt
	if !d.LeasedUntil.IsZero() {
		r.worker, r.availableAt = d.Worker, d.LeasedUntil
	}
	f.add(r)
	if _, gone := f.gone[d.Destination]; gone {
		r.drop(event.At)
		f.deleted = append(f.deleted, d.Destination)
	}
}

// drop ends what waits for a destination. All its rows leave when the fold is written; only counts stay.
func (f *fold) drop(destination uuid.UUID, at time.Time) {
	for _, r := range f.rows {
		if r.destination == destination {
			r.drop(at)
		}
	}
	f.gone[destination] = struct{}{}
	f.deleted = append(f.deleted, destination)
}

func (r *row) drop(at time.Time) {
	r.gone, r.touched, r.replay = true, true, uuid.Nil
	r.setDue(time.Time{}, at)
	if r.status == delivery.StatusPending {
		r.end(delivery.StatusDiscarded, at)
	}
}

func (r *row) apply(event delivery.Event) {
	switch e := event.(type) {
	case delivery.Attempted:
		r.attempted(e)
	case delivery.Superseded:
		r.end(delivery.StatusSuperseded, e.At)
		r.setDue(time.Time{}, e.At)
	case delivery.Discarded:
		r.replay = uuid.Nil
		r.end(delivery.StatusDiscarded, e.At)
		r.setDue(time.Time{}, e.At)
	case delivery.Reinstated:
		r.status, r.completedAt, r.automatic = delivery.StatusPending, time.Time{}, 0
		r.subscriptions, r.reinstated = e.Subscriptions, true
		r.setDue(e.At, e.At)
	case delivery.RetryRequested:
		r.retry(e.At)
	case delivery.ReplayRequested:
		r.replay = e.Replay
		r.setDue(e.At, e.At)
	case delivery.ReplayDropped:
		r.replay = uuid.Nil
		r.setDue(time.Time{}, e.At)
	}
}

func (r *row) attempted(e delivery.Attempted) {
	if r.last != nil {
		r.earlier = append(r.earlier, *r.last)
	}
	r.last, r.attempts = &attempt{e, r.changed}, e.Number
	switch {
	case e.Trigger != delivery.Automatic:
		r.replay = uuid.Nil
	case !e.LostRace():
		r.automatic++
	}
	if e.Status == delivery.StatusPending {
		r.status, r.completedAt = e.Status, time.Time{}
	} else {
		r.end(e.Status, e.At.Add(e.Duration()))
	}
	if r.replay == uuid.Nil { // else another driver's automatic attempt came between: the replay is still to be made
		r.setDue(e.NextAttemptAt, e.At)
	}
}

// unsuccessful is the state if the last attempt failed, or the delivery ended otherwise than by a success.
func (r *row) unsuccessful() string {
	switch {
	case r.status == delivery.StatusPending && r.attempts > 0:
		return string(deliverystate.Retrying)
	case r.status == delivery.StatusPending, r.status == delivery.StatusSucceeded:
		return ""
	}
	return string(r.status)
}

// wasDue reports whether the stored row waits for an attempt.
func (r *row) wasDue() bool {
	return r.before == delivery.StatusPending || r.replayBefore != uuid.Nil
}

// end sets the final status of the row. A replay that changes nothing about it leaves the time as it was.
func (r *row) end(status delivery.Status, at time.Time) {
	if r.status != status {
		r.status, r.completedAt = status, at
	}
}

// setDue sets the time of the next attempt, by any worker; zero means none.
func (r *row) setDue(at, decided time.Time) {
	r.dueTouched, r.dueAt, r.availableAt, r.decidedAt, r.worker = true, at, at, decided, 0
	r.retried = false
}

// retry makes the next attempt due now. A worker that holds the delivery is about to make it, and keeps its lease.
func (r *row) retry(at time.Time) {
	r.retried, r.dueAt, r.decidedAt = !r.dueTouched, at, at
	if r.worker == 0 {
		r.availableAt = at
	}
}
