package retire

import (
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/retirement"
	"carillon/eventstore"
)

// Limits of a batch. An event that exceeds maxWeight alone stays.
const (
	maxDeliveries = 2000
	maxWeight     = 900_000 // bytes of JSON, about; the store takes 1 MiB
)

// published is a published event with all that happened to its deliveries.
type published struct {
	id         uuid.UUID
	at         time.Time
	dispatched []dispatch.DeliveriesScheduled
	deliveries map[uuid.UUID][]delivery.Event
	deleted    map[uuid.UUID]struct{} // destinations
}

// over reports whether the event has come to its end before a time: each delivery is final, no replay is to be made,
// and nothing happened since. Deliveries to a destination that was deleted are over.
func (p *published) over(before time.Time) bool {
	if !p.at.Before(before) {
		return false
	}
	for i := range p.dispatched {
		d := &p.dispatched[i]
		if !d.At.Before(before) {
			return false
		}
		for _, scheduled := range d.Deliveries {
			if _, deleted := p.deleted[scheduled.Destination]; deleted {
				continue
			}
			state := stateAfter(p.deliveries[dispatch.DeliveryID(p.id, scheduled.Destination)])
			if !state.Over() || !state.ChangedAt.Before(before) {
				return false
			}
		}
	}
	return true
}

func stateAfter(events []delivery.Event) (state delivery.State) {
	for _, event := range events {
		state = delivery.Aggregate.Evolve(state, event)
	}
	return state
}

// batch is a retirement in the making.
type batch struct {
	retired    retirement.Retired
	known      map[uuid.UUID]int // destinations
	outcomes   map[retirement.Outcomes]int
	attempts   map[retirement.Attempts]int
	deliveries int
	weight     int
	// dispatched is a position up to which all that is published has its deliveries.
	dispatched eventstore.Position
}

func newBatch(before time.Time) *batch {
	return &batch{
		retired:  retirement.Retired{Batch: uuid.New(), Before: before},
		known:    map[uuid.UUID]int{},
		outcomes: map[retirement.Outcomes]int{},
		attempts: map[retirement.Attempts]int{},
	}
}

// bytes of JSON, at most.
const (
	publicationWeight = 60
	toWeight          = 6
	destinationWeight = 1000
	outcomesWeight    = 220
	attemptsWeight    = 200
)

// add adds an event that is over. It reports false if the batch has no room for it.
func (b *batch) add(p *published) bool {
	weight, deliveries := publicationWeight, 0
	for i := range p.dispatched {
		for _, scheduled := range p.dispatched[i].Deliveries {
			deliveries++
			weight += toWeight + outcomesWeight
			if _, known := b.known[scheduled.Destination]; !known {
				weight += destinationWeight
			}
			weight += attemptsWeight * len(p.deliveries[dispatch.DeliveryID(p.id, scheduled.Destination)])
		}
	}
	if b.weight+weight > maxWeight || b.deliveries > 0 && b.deliveries+deliveries > maxDeliveries {
		return false
	}
	b.weight += weight
	b.deliveries += deliveries
	of := retirement.Publication{ID: p.id}
	for i := range p.dispatched {
		for j := range p.dispatched[i].Deliveries {
			of.To = append(of.To, b.count(p, &p.dispatched[i], &p.dispatched[i].Deliveries[j]))
		}
	}
	b.retired.Publications = append(b.retired.Publications, of)
	return true
}

// count adds a delivery to the counts, and returns the index of its destination.
func (b *batch) count(p *published, d *dispatch.DeliveriesScheduled, scheduled *dispatch.Scheduled) int {
	to, known := b.known[scheduled.Destination]
	if !known {
		to = len(b.retired.Destinations)
		b.known[scheduled.Destination] = to
		b.retired.Destinations = append(b.retired.Destinations, retirement.Destination{
			ID:           scheduled.Destination,
			Organization: scheduled.Organization,
		})
	}
	happened := p.deliveries[dispatch.DeliveryID(p.id, scheduled.Destination)]
	failures := map[retirement.Attempts]struct{}{}
	for _, event := range happened {
		switch e := event.(type) {
		case delivery.Attempted:
			b.attempted(to, e, failures)
		case delivery.Superseded, delivery.Discarded, delivery.Reinstated, delivery.ReplayRequested,
			delivery.ReplayDropped, delivery.RetryRequested: // no attempts
		}
	}
	b.ended(retirement.Outcomes{
		To:     to,
		Day:    day(d.At),
		Type:   d.Event.Type,
		FeedID: d.Event.FeedID,
	}, stateAfter(happened).Status)
	return to
}

// ended counts a delivery. One that waited when its destination was deleted is discarded with it.
func (b *batch) ended(key retirement.Outcomes, status delivery.Status) {
	at, known := b.outcomes[key]
	if !known {
		at = len(b.retired.Outcomes)
		b.outcomes[key] = at
		b.retired.Outcomes = append(b.retired.Outcomes, key)
	}
	o := &b.retired.Outcomes[at]
	switch status {
	case delivery.StatusSucceeded:
		o.Succeeded++
	case delivery.StatusFailed:
		o.Failed++
	case delivery.StatusSuperseded:
		o.Superseded++
	case delivery.StatusDiscarded, delivery.StatusPending:
		o.Discarded++
	}
}

// attempted counts an attempt. failures holds how the same delivery failed before.
func (b *batch) attempted(to int, e delivery.Attempted, failures map[retirement.Attempts]struct{}) {
	key := retirement.Attempts{
		To:             to,
		Day:            day(e.At),
		FailureReason:  string(e.FailureReason),
		ResponseStatus: e.ResponseStatus,
	}
	_, failedBefore := failures[key]
	failures[key] = struct{}{}
	key.DurationMicros = rounded(e.DurationMicros)
	at, known := b.attempts[key]
	if !known {
		at = len(b.retired.Attempts)
		b.attempts[key] = at
		b.retired.Attempts = append(b.retired.Attempts, key)
	}
	a := &b.retired.Attempts[at]
	a.Count++
	if e.Succeeded() {
		return
	}
	if !failedBefore {
		a.Deliveries++
	}
	if e.At.After(a.LastAt) {
		a.LastAt = e.At
	}
}

func day(at time.Time) string { return at.UTC().Format(time.DateOnly) }

// rounded keeps two significant digits.
func rounded(micros int64) int64 {
	unit := int64(1)
	for micros/unit >= 100 {
		unit *= 10
	}
	return (micros + unit/2) / unit * unit
}
