package sending

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/aggregates/organization"
	"carillon/aggregates/publication"
	"carillon/command/delivery/schedule"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// announced is a queue that passes on announcements. Its clock stands still: no lease ages while the machine is busy.
type announced struct {
	*claims

	capacity chan Capacity
	now      time.Time
}

func (q announced) Now() time.Time { return q.now }

func (q announced) Announce(c Capacity) {
	if c.Fresh > 0 || len(c.Refused) > 0 {
		q.capacity <- c
	}
}

func publish(t *testing.T, store eventstore.Store, event uuid.UUID) {
	t.Helper()
	execute(t, store, publication.Aggregate, event)(publication.Publish{
		Published: publication.Published{
			Organization: bob,
			Type:         "news.item.added",
			Source:       "/news",
			Time:         time.Now(),
			Data:         []byte(`{}`),
		},
	})
}

// publishTo records an event, and its dispatch to the hook with a lease.
func publishTo(t *testing.T, store eventstore.Store, worker int32, until time.Time) (delivery uuid.UUID) {
	t.Helper()
	event := uuid.New()
	publish(t, store, event)
	lease := dispatch.Scheduled{
		Destination:  hook,
		Organization: bob,
		Worker:       worker,
		LeasedUntil:  until,
	}
	scheduled := dispatch.DeliveriesScheduled{
		Publication: event,
		Event:       dispatch.Summary{Type: "news.item.added", Source: "/news", Time: time.Now()},
		At:          time.Now(),
		Deliveries:  []dispatch.Scheduled{lease},
	}
	execute(t, store, dispatch.Aggregate, event)(dispatch.Schedule{DeliveriesScheduled: scheduled})
	return dispatch.DeliveryID(event, hook)
}

// A deliverer announces its room, and sends the deliveries that the dispatcher of another process records as
// its own; not those of another worker, nor those that were leased so long ago that others may have taken them over.
func TestDeliverer_readsDispatches(t *testing.T) {
	t.Parallel()
	store := nodetest.Start(t)
	makeDestination(t, store, hook, bob, "https://example.org")
	s := &sending{t: t, sender: &recording{sent: map[string]int{}}}
	nothing := &claims{released: make(chan uuid.UUID, 10), claim: func(int) []*schedule.Delivery { return nil }}
	queue := announced{nothing, make(chan Capacity), time.Now()}
	s.Deliverer = deliverer(store, queue, s.sender)
	s.Facts.Dispatches = true
	follow(t, s.Deliverer)
	end := s.begin()
	if c := <-queue.capacity; c.Fresh != s.Settings.Queued/2 || c.Claims != s.Settings.Queued/4 ||
		len(c.Refused) > 0 {
		t.Errorf("announced %+v", c)
	}
	others := publishTo(t, store, 2, s.LeasedUntil())
	old := publishTo(t, store, 1, s.LeasedUntil().Add(-freshFor-time.Second))
	mine := publishTo(t, store, 1, s.LeasedUntil())
	sent := func(id uuid.UUID) bool { return s.sender.count(id) > 0 }
	s.eventually("its own is sent", func() bool { return sent(mine) })
	assert.True(t, !sent(others) && !sent(old), "another worker's, or an old one, was sent")
	execute(t, store, organization.Aggregate, bob)(organization.Register{Name: "Bob"})
	execute(t, store, organization.Aggregate, bob)(organization.Suspend{Reason: "unpaid"})
	refused := publishTo(t, store, 1, s.LeasedUntil())
	for c := range queue.capacity {
		if slices.Contains(c.Refused, hook) {
			break
		}
	}
	if id := <-queue.released; id != refused || sent(refused) {
		t.Errorf("%s goes back, want the refused one", id)
	}
	go func() {
		for range queue.capacity { //nolint:revive // until all has ended
		}
	}()
	end()
	close(queue.capacity)
}

// The body of an event that was published long ago is read from the store.
func TestRecentPublications(t *testing.T) {
	t.Parallel()
	store := nodetest.Start(t)
	event := uuid.New()
	publish(t, store, event)
	var p recentPublications
	for recorded, err := range store.Read(t.Context(), publication.Aggregate.Stream(event), 0) {
		must.OK(t, err)
		p.add(&recorded)
	}
	kept := must.Get(p.body(t.Context(), nil, event))(t)
	for range keptPublications {
		p.add(&eventstore.Recorded{Stream: publication.Aggregate.Stream(uuid.New())})
	}
	assert.True(t, len(p.byID) == keptPublications && p.byID[event] == nil, "%d are kept", len(p.byID))
	read := must.Get(p.body(t.Context(), store, event))(t)
	want, _ := kept.Bytes()
	got, err := read.Bytes()
	assert.True(t, err == nil && bytes.Equal(got, want), "%s (%v), want %s", got, err, want)
	assert.True(t, assert.Err(p.body(t.Context(), store, uuid.New())) != nil, "a body of nothing")
}
