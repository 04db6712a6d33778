package dispatching

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/command/delivery/deliverytest"
	"carillon/command/delivery/schedule"
	"carillon/command/delivery/sending"
	"carillon/eventstore"
	"carillon/eventstore/processtest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	noon  = deliverytest.Noon
	alice = deliverytest.Alice
	bob   = deliverytest.Bob
	hook  = deliverytest.Hook
	storm = deliverytest.Storm
)

// rule is that of a dispatcher.
type rule struct{ deliverytest.Town }

func dispatching(t *testing.T) rule {
	t.Helper()
	return rule{deliverytest.WithNews(t, func(store eventstore.Store) eventstore.ProcessManager {
		return New(store, nil)
	})}
}

// published records an event and names its dispatch, as then does.
func (r rule) published() (id uuid.UUID, dispatched string) {
	id = uuid.New()
	processtest.Given(r.Rule, publication.Aggregate, id)(storm)
	return id, dispatch.Aggregate.Stream(id) + " dispatch.deliveries-scheduled.v1"
}

func TestDispatcher_newestInWindowSupersedes(t *testing.T) {
	t.Parallel()
	r := dispatching(t)
	processtest.Given(r.Rule, destination.Aggregate, hook)(deliverytest.Debounced(3600))
	first, dispatched := r.published()
	r.Then(dispatched)
	for _, recorded := range r.Events(eventstore.Start, eventstore.Categories(dispatch.Aggregate.Category)) {
		event, err := dispatch.Events.Decode(&recorded)
		scheduled, is := event.(dispatch.DeliveriesScheduled)
		summary := dispatch.Summary{
			Type:     storm.Type,
			Source:   storm.Source,
			Subject:  storm.Subject,
			Time:     storm.Time,
			FeedType: storm.FeedType,
			FeedID:   storm.FeedID,
		}
		assert.True(t, err == nil && is && scheduled.Event == summary && scheduled.Publication == first,
			"dispatched %+v, %v", event, err)
	}
	_, again := r.published()
	r.Then(again, delivery.Aggregate.Stream(dispatch.DeliveryID(first, hook))+" delivery.superseded.v1")
}

// taking is a worker's side of the handoff, which notes what it gets.
type taking struct {
	worker          int32
	until           time.Time
	taken, withdrew []*schedule.Delivery
}

func (h *taking) Lease(fresh *schedule.Delivery) int32 {
	fresh.LeasedUntil = h.until
	return h.worker
}
func (h *taking) Offer(recorded []*schedule.Delivery)  { h.taken = append(h.taken, recorded...) }
func (h *taking) Withdraw(leased []*schedule.Delivery) { h.withdrew = append(h.withdrew, leased...) }

// A process that was stopped goes on to dispatch what another one has dispatched meanwhile: the other one sends it.
func TestDispatchers_oneSends(t *testing.T) {
	t.Parallel()
	mine, theirs := &taking{worker: 1, until: noon.Add(time.Hour)}, &taking{worker: 2, until: noon.Add(time.Hour)}
	r := dispatching(t)
	id, _ := r.published()
	batch := r.Events(eventstore.Start, (&Dispatcher{}).Traits().Filter)
	for _, handoff := range []sending.Handoff{theirs, mine} {
		must.OK(t, New(r.Store, handoff).React(t.Context(), batch))
	}
	assert.True(t, len(theirs.taken) == 1 && theirs.taken[0].ID == dispatch.DeliveryID(id, hook) &&
		len(theirs.withdrew) == 0, "the first sends %+v, and withdraws %+v", theirs.taken, theirs.withdrew)
	assert.True(t, len(mine.taken) == 0 && len(mine.withdrew) == 1,
		"the second sends %+v, and withdraws %+v", mine.taken, mine.withdrew)
}

// An event published before the dispatcher began may have been delivered already: it is left to be claimed.
func TestDispatcher_replayedIsLeftToClaims(t *testing.T) {
	t.Parallel()
	r := dispatching(t)
	id, _ := r.published()
	batch := r.Events(eventstore.Start, (&Dispatcher{}).Traits().Filter)
	handoff := &taking{worker: 1, until: noon.Add(time.Hour)}
	d := New(r.Store, handoff)
	d.Begin(batch[len(batch)-1].Position)
	must.OK(t, d.React(t.Context(), batch))
	assert.Equal(t, len(handoff.taken), 0, "sends %+v", handoff.taken)
	r.has(t, dispatch.Aggregate.Stream(id), "dispatch.deliveries-scheduled.v1")
}

// gated is a store that holds up appends to some streams until they are let.
type gated struct {
	eventstore.Store
	streams map[string]bool
	let     chan struct{}
}

func (s *gated) Append(ctx context.Context, stream string, expected eventstore.Revision,
	events []eventstore.Proposed) (eventstore.Appended, error) {
	if s.streams[stream] {
		select {
		case <-s.let:
		case <-ctx.Done():
			return eventstore.Appended{}, ctx.Err()
		}
	}
	return s.Store.Append(ctx, stream, expected, events)
}

// held makes a dispatcher whose dispatches of some events are held up.
func (r rule) held(events ...uuid.UUID) (*Dispatcher, *gated) {
	store := &gated{Store: r.Store, streams: map[string]bool{}, let: make(chan struct{})}
	for _, id := range events {
		store.streams[dispatch.Aggregate.Stream(id)] = true
	}
	return New(store, nil), store
}

// has waits until a stream holds an event of a type.
func (r rule) has(t *testing.T, stream, kind string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for message, err := range r.Store.Subscribe(ctx, eventstore.Start, eventstore.Filter{}) {
		must.True(t, err == nil, "%s in %s: %v", kind, stream, err)
		if message.Event != nil && message.Event.Stream == stream && message.Event.Type == kind {
			return
		}
	}
}

// A delivery is ended by a newer one after it was made, whichever comes into the store first: else the read model,
// which learns of it later, would send it.
func TestDispatcher_supersedesAfterDispatch(t *testing.T) {
	t.Parallel()
	r := dispatching(t)
	processtest.Given(r.Rule, destination.Aggregate, hook)(deliverytest.Debounced(3600))
	first, _ := r.published()
	newer := make([]uuid.UUID, 50)
	for i := range newer {
		newer[i], _ = r.published()
	}
	d, store := r.held(first)
	defer d.End()
	reacted := make(chan error, 1)
	go func() { reacted <- d.React(t.Context(), r.Events(eventstore.Start, d.Traits().Filter)) }()
	for _, id := range newer[:len(newer)-1] { // each by the next
		r.has(t, delivery.Aggregate.Stream(dispatch.DeliveryID(id, hook)), "delivery.superseded.v1")
	}
	close(store.let)
	must.OK(t, <-reacted)
	processtest.Finish(t, d)
	older := delivery.Aggregate.Stream(dispatch.DeliveryID(first, hook))
	var order []string
	for _, event := range r.Events(eventstore.Start, eventstore.Filter{}) {
		if event.Stream == older || event.Stream == dispatch.Aggregate.Stream(first) {
			order = append(order, event.Type)
		}
	}
	want := []string{"dispatch.deliveries-scheduled.v1", "delivery.superseded.v1"}
	assert.True(t, slices.Equal(order, want), "recorded %v", order)
}

// BenchmarkTracingOff measures what dispatching an event costs more for a tracing that is off.
func BenchmarkTracingOff(b *testing.B) {
	dispatcher, f := &Dispatcher{}, &fanOut{}
	b.ReportAllocs()
	for b.Loop() {
		_, end := dispatcher.traceDispatch(b.Context(), f)
		must.True(b, end == nil, "a span was begun")
	}
}
