package delivery

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/feed"
	"carillon/aggregates/publication"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
	"carillon/eventstore/processtest"
)

// rule is that of a process manager of this package.
type rule struct{ *processtest.Rule }

// inTown is a news feed of alice's, and an endpoint of hers that wants everything.
func inTown(t *testing.T, fresh func(eventstore.Store) eventstore.ProcessManager) rule {
	t.Helper()
	r := rule{processtest.Of(t, fresh)}
	processtest.Given(r.Rule, feed.Aggregate, news,
		feed.Event(feed.Registered{Organization: alice, FeedType: "news", Name: "News"}))
	processtest.Given(r.Rule, destination.Aggregate, hook,
		destination.Event(destination.Created{Organization: alice,
			Settings: destination.Settings{URL: "https://example.org"}}),
		destination.Event(destination.SecretMinted{SecretID: uuid.New()}))
	processtest.Given(r.Rule, subscription.Aggregate, sub,
		subscription.Event(subscription.Created{Organization: alice, Destination: hook, Settings: all}))
	return r
}

func dispatching(t *testing.T) rule {
	t.Helper()
	return inTown(t, func(store eventstore.Store) eventstore.ProcessManager { return NewDispatcher(store, nil) })
}

// published records an event and names its dispatch, as then does.
func (r rule) published() (id uuid.UUID, dispatched string) {
	id = uuid.New()
	processtest.Given(r.Rule, publication.Aggregate, id, publication.Event(storm))
	return id, dispatch.Aggregate.Stream(id) + " dispatch.deliveries-scheduled.v1"
}

func TestDispatcher_dispatchesOnce(t *testing.T) {
	t.Parallel()
	r := dispatching(t)
	_, dispatched := r.published()
	r.Then(dispatched)
}

func TestDispatcher_noSubscription(t *testing.T) {
	t.Parallel()
	r := dispatching(t)
	processtest.Given(r.Rule, subscription.Aggregate, sub, subscription.Event(subscription.Deactivated{}))
	r.published()
	r.Then()
}

func TestDispatcher_newestInWindowSupersedes(t *testing.T) {
	t.Parallel()
	r := dispatching(t)
	processtest.Given(r.Rule, destination.Aggregate, hook,
		destination.Event(destination.Revised{Settings: destination.Settings{URL: "https://example.org",
			Plain: destination.Plain{DebounceWindowSeconds: 3600}}}))
	first, dispatched := r.published()
	r.Then(dispatched)
	_, again := r.published()
	r.Then(again, delivery.Aggregate.Stream(dispatch.DeliveryID(first, hook))+" delivery.superseded.v1")
}

// taking is a worker's side of the handoff, which keeps its jobs.
type taking struct {
	worker int32
	until  time.Time
	jobs   []Job
}

func (h *taking) Lease(uuid.UUID, uuid.UUID, *Body) (int32, time.Time, bool) {
	return h.worker, h.until, true
}
func (h *taking) Offer(jobs []Job) { h.jobs = append(h.jobs, jobs...) }

// A process that was stopped goes on to dispatch what another one has dispatched meanwhile: the other one sends it.
func TestDispatchers_oneSends(t *testing.T) {
	t.Parallel()
	mine, theirs := &taking{worker: 1, until: noon.Add(time.Hour)}, &taking{worker: 2, until: noon.Add(time.Hour)}
	r := dispatching(t)
	id, _ := r.published()
	batch := r.Events(eventstore.Start, (&Dispatcher{}).Filter())
	for _, handoff := range []Handoff{theirs, mine} {
		if err := NewDispatcher(r.Store, handoff).React(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
	}
	if len(theirs.jobs) != 1 || theirs.jobs[0].ID != dispatch.DeliveryID(id, hook) {
		t.Errorf("the first sends %+v", theirs.jobs)
	}
	if len(mine.jobs) != 0 {
		t.Errorf("the second sends %+v", mine.jobs)
	}
}

// An event published before the dispatcher began may have been delivered already: it is left to be claimed.
func TestDispatcher_replayedIsLeftToClaims(t *testing.T) {
	t.Parallel()
	r := dispatching(t)
	id, _ := r.published()
	batch := r.Events(eventstore.Start, (&Dispatcher{}).Filter())
	handoff := &taking{worker: 1, until: noon.Add(time.Hour)}
	d := NewDispatcher(r.Store, handoff)
	d.Begin(batch[len(batch)-1].Position)
	if err := d.React(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	if len(handoff.jobs) != 0 {
		t.Errorf("sends %+v", handoff.jobs)
	}
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
	return NewDispatcher(store, nil), store
}

// has waits until a stream holds an event of a type.
func (r rule) has(t *testing.T, stream, kind string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for message, err := range r.Store.Subscribe(ctx, eventstore.Start, eventstore.Filter{}) {
		if err != nil {
			t.Fatalf("%s in %s: %v", kind, stream, err)
		}
		if message.Event != nil && message.Event.Stream == stream && message.Event.Type == kind {
			return
		}
	}
}

// However many fan-outs of one organization are in flight into the store, another one's events are dispatched
// meanwhile.
func TestDispatcher_organizationsAreIndependent(t *testing.T) {
	t.Parallel()
	r := dispatching(t)
	processtest.Given(r.Rule, destination.Aggregate, other,
		destination.Event(destination.Created{Organization: bob,
			Settings: destination.Settings{URL: "https://example.com"}}))
	processtest.Given(r.Rule, subscription.Aggregate, uuid.New(),
		subscription.Event(subscription.Created{Organization: bob, Destination: other, Settings: all}))
	flood := make([]uuid.UUID, 2*concurrentAppends)
	for i := range flood {
		flood[i], _ = r.published()
	}
	bobs := uuid.New()
	processtest.Given(r.Rule, publication.Aggregate, bobs,
		publication.Event(publication.Published{Organization: bob, Type: "news.item.added", Data: []byte(`{}`)}))
	r.published()

	d, store := r.held(flood...)
	defer d.End()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := d.React(ctx, r.Events(eventstore.Start, d.Filter())); err != nil {
		t.Fatal(err)
	}
	r.has(t, dispatch.Aggregate.Stream(bobs), "dispatch.deliveries-scheduled.v1")
	if d.Pending() == nil {
		t.Error("nothing is outstanding")
	}
	close(store.let)
	processtest.Finish(t, d)
	scheduled := map[string]bool{}
	for _, event := range r.Events(eventstore.Start, eventstore.Categories("dispatch")) {
		scheduled[event.Stream] = true
	}
	for _, id := range flood {
		if !scheduled[dispatch.Aggregate.Stream(id)] {
			t.Errorf("%s is not dispatched", id)
		}
	}
}

// A delivery is ended by a newer one after it was made, whichever comes into the store first: else the read model,
// which learns of it later, would send it.
func TestDispatcher_supersedesAfterDispatch(t *testing.T) {
	t.Parallel()
	r := dispatching(t)
	processtest.Given(r.Rule, destination.Aggregate, hook,
		destination.Event(destination.Revised{Settings: destination.Settings{URL: "https://example.org",
			Plain: destination.Plain{DebounceWindowSeconds: 3600}}}))
	first, _ := r.published()
	newer := make([]uuid.UUID, 50)
	for i := range newer {
		newer[i], _ = r.published()
	}
	d, store := r.held(first)
	defer d.End()
	reacted := make(chan error, 1)
	go func() { reacted <- d.React(t.Context(), r.Events(eventstore.Start, d.Filter())) }()
	for _, id := range newer[:len(newer)-1] { // each by the next
		r.has(t, delivery.Aggregate.Stream(dispatch.DeliveryID(id, hook)), "delivery.superseded.v1")
	}
	close(store.let)
	if err := <-reacted; err != nil {
		t.Fatal(err)
	}
	processtest.Finish(t, d)
	older := delivery.Aggregate.Stream(dispatch.DeliveryID(first, hook))
	var order []string
	for _, event := range r.Events(eventstore.Start, eventstore.Filter{}) {
		if event.Stream == older || event.Stream == dispatch.Aggregate.Stream(first) {
			order = append(order, event.Type)
		}
	}
	if want := []string{"dispatch.deliveries-scheduled.v1", "delivery.superseded.v1"}; !slices.Equal(order, want) {
		t.Errorf("recorded %v", order)
	}
}
