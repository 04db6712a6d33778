package sending

import (
	"context"
	"encoding/base64"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/organization"
	"carillon/aggregates/publication"
	"carillon/command/delivery/deliverytest"
	"carillon/command/delivery/facts"
	"carillon/command/delivery/schedule"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	noon  = deliverytest.Noon
	alice = deliverytest.Alice
	bob   = deliverytest.Bob
	hook  = deliverytest.Hook
	all   = deliverytest.All
)

// claims is a queue whose claims return values of the test.
type claims struct {
	Queue

	claim    func(n int) []*schedule.Delivery
	released chan uuid.UUID
	n        int
}

func (*claims) Worker() (id int32, known bool)       { return 1, true }
func (*claims) Holding() (losses int, sure bool)     { return 0, true }
func (*claims) Now() time.Time                       { return time.Now() }
func (*claims) NextDue() (time.Time, bool)           { return time.Time{}, false }
func (*claims) Resting() map[uuid.UUID]time.Duration { return nil }
func (*claims) NotifyDue()                           {}
func (*claims) Announce(Capacity)                    {}
func (*claims) Recover(context.Context, time.Duration, func(uuid.UUID) bool) (int, error) {
	return 0, nil
}

// roomOf returns what a claim may take.
func roomOf(d *Deliverer) schedule.Room {
	room, _ := d.room()
	return room
}

func (c *claims) Claim(context.Context, schedule.Room, time.Duration) ([]*schedule.Delivery, error) {
	c.n++
	return c.claim(c.n), nil
}

func (c *claims) Release(_ context.Context, ids []uuid.UUID) error {
	for _, id := range ids {
		c.released <- id
	}
	return nil
}

// noting is a sender that notes to whom it sends, and does not end before it is let.
type noting struct {
	mu  sync.Mutex
	to  map[string]int
	let chan struct{}
}

func (n *noting) Send(ctx context.Context, r webhook.Request) webhook.Result {
	n.mu.Lock()
	n.to[r.URL]++
	n.mu.Unlock()
	select {
	case <-n.let:
	case <-ctx.Done():
	}
	return webhook.Result{Aborted: true}
}

func (n *noting) sent(url string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.to[url]
}

// unsealed is a vault of plain values.
type unsealed struct{ Vault }

func (unsealed) Open(_ context.Context, _ uuid.UUID, _ sealing.Field, plain []byte) ([]byte, error) {
	return plain, nil
}

var signingSecret = []byte("whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 32)))

func makeDestination(t *testing.T, store eventstore.Store, id, organization uuid.UUID, url string) {
	t.Helper()
	execute(t, store, destination.Aggregate, id)(destination.Create{
		Organization: organization,
		Settings:     destination.Settings{Name: url, URL: url},
		SecretID:     uuid.New(),
		Secret:       signingSecret,
		At:           time.Now(),
	})
}

// claimedOf returns a delivery of an event, as it is claimed.
func claimedOf(organization, destination uuid.UUID) schedule.Delivery {
	event := publication.Published{Type: "news.item.added", Data: []byte("{}")}
	return *NewBody(uuid.New(), event, time.Now()).Claimed(schedule.Delivery{
		ID:           uuid.New(),
		Destination:  destination,
		Organization: organization,
		LeasedUntil:  time.Now().Add(time.Hour),
	})
}

// claimedAt makes a destination and returns a delivery to it.
func claimedAt(t *testing.T, store eventstore.Store, organization uuid.UUID, url string) schedule.Delivery {
	t.Helper()
	id := uuid.New()
	makeDestination(t, store, id, organization, url)
	return claimedOf(organization, id)
}

func deliverer(store eventstore.Store, queue Queue, sender Sender) *Deliverer {
	log := slog.New(slog.DiscardHandler)
	d := &Deliverer{
		Facts: &facts.Follower{
			Store: store,
			Vault: unsealed{},
			Now:   time.Now,
			Log:   log,
		},
		Store:       store,
		Queue:       queue,
		Vault:       unsealed{},
		Sender:      sender,
		Policy:      Policy{Timeout: 30 * time.Second, RetrySchedule: []time.Duration{5 * time.Second, 5 * time.Minute}},
		Settings:    DefaultSettings,
		Now:         time.Now,
		Jitter:      func() float64 { return 0 },
		Log:         log,
		Count:       func(Attempt) {},
		SearchEvery: DefaultSearchEvery,
	}
	d.Facts.Listener = d
	return d
}

// follow lets a deliverer follow events until the test ends.
func follow(t *testing.T, d *Deliverer) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); d.Facts.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

// begin runs the deliverer until end is called.
func (s *sending) begin() (end func()) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() {
		s.t.Helper()
		cancel()
		assert.OK(s.t, <-ended)
	}
}

// heard waits until a deliverer has applied all that is recorded.
func (s *sending) heard() {
	s.t.Helper()
	var last eventstore.Position
	for m, err := range s.Store.Subscribe(s.t.Context(), last, eventstore.Categories(facts.Categories()...)) {
		must.OK(s.t, err)
		if m.CaughtUp {
			break
		}
		last = m.Position
	}
	s.eventually("all is followed", func() bool {
		applied := s.Facts.Applied()
		return applied != eventstore.Start && !applied.Before(last)
	})
}

// A claim is made when its destinations are disabled, moved or deleted. Its claimed do not include that change; they
// are sent by the current state of the destination.
func TestDeliverer_destinationChangedMeanwhile(t *testing.T) {
	t.Parallel()
	store := nodetest.Start(t)
	organization := uuid.New()
	claimedBy := func(name string) schedule.Delivery {
		return claimedAt(t, store, organization, "https://example.org/"+name)
	}
	revise := func(of schedule.Delivery, r destination.Revise) {
		r.Organization, r.At = organization, time.Now()
		execute(t, store, destination.Aggregate, of.Destination)(r)
	}
	before, disabled, moved, deleted, last := claimedBy("before"), claimedBy("disabled"), claimedBy("moved"),
		claimedBy("deleted"), claimedBy("last")
	replay := disabled
	replay.ID, replay.Replay = uuid.New(), uuid.New()
	again := moved
	again.ID = uuid.New()
	off, elsewhere := false, "https://example.org/elsewhere"
	sender := &noting{to: map[string]int{}, let: make(chan struct{})}
	queue := &claims{released: make(chan uuid.UUID, 10)}
	s := &sending{t: t}
	queue.claim = func(n int) []*schedule.Delivery {
		switch n {
		case 1:
			return []*schedule.Delivery{&before, &again} // so that the address of one is remembered
		case 2:
			s.eventually("the first ones are sent",
				func() bool { return sender.sent("https://example.org/moved") == 1 })
			revise(disabled, destination.Revise{Enabled: &off})
			revise(moved, destination.Revise{
				Sets:     destination.FieldURL,
				Settings: destination.Settings{URL: elsewhere},
			})
			execute(t, store, destination.Aggregate, deleted.Destination)(
				destination.Delete{Organization: organization, At: time.Now()})
			s.heard()
			return []*schedule.Delivery{&disabled, &replay, &moved, &deleted, &last}
		}
		return nil
	}
	s.Deliverer = deliverer(store, queue, sender)
	follow(t, s.Deliverer)
	end := s.begin()
	s.eventually("the last one is sent", func() bool { return sender.sent("https://example.org/last") == 1 })
	s.eventually("the moved one is sent", func() bool { return sender.sent(elsewhere) == 1 })
	s.eventually("the replay is sent", func() bool { return sender.sent("https://example.org/disabled") == 1 })
	assert.Equal(t, <-queue.released, disabled.ID, "goes back, want the claim of the disabled one")
	// Before, again, replay, moved, last.
	s.eventually("the rest has ended", func() bool { _, inFlight := s.Load(); return inFlight == 5 })
	if n := sender.sent("https://example.org/moved"); n != 1 {
		t.Errorf("%d were sent to an address that was changed", n-1)
	}
	assert.True(t, sender.sent("https://example.org/deleted") <= 0, "sent to a destination that was deleted")
	close(sender.let)
	end()
}

// The read model learns later than the deliverer that a destination was disabled: the rows that it still returns go
// back at once and hold no lease behind requests that hang. A replay is sent.
func TestDeliverer_disabledGoesBack(t *testing.T) {
	t.Parallel()
	store := nodetest.Start(t)
	makeDestination(t, store, hook, alice, "https://example.org")
	execute(t, store, organization.Aggregate, alice)(organization.Register{Name: "Alice"})
	s := &sending{t: t, Deliverer: deliverer(store, &claims{}, &noting{})}
	follow(t, s.Deliverer)
	s.init()
	held := claimedOf(alice, hook)
	assert.True(t, held.Claimed && !new(Body).Fresh(&dispatch.Scheduled{}).Claimed,
		"claimed deliveries and fresh ones look alike")
	replay := held
	replay.ID, replay.Replay = uuid.New(), uuid.New()
	surplus := func(want int) {
		t.Helper()
		s.heard()
		assert.Equal(t, len(s.take(roomOf(s.Deliverer), []*schedule.Delivery{&held, &replay})), want, "go back")
	}
	revise := func(enabled bool) {
		execute(t, store, destination.Aggregate, hook)(destination.Revise{
			Organization: alice,
			Enabled:      &enabled,
			At:           time.Now(),
		})
	}
	s.heard() // it follows from here on
	revise(false)
	surplus(1)
	revise(true)
	surplus(0)
	execute(t, store, organization.Aggregate, alice)(organization.Suspend{Reason: "unpaid"})
	surplus(2)
	execute(t, store, organization.Aggregate, alice)(organization.Resume{})
	surplus(0)
	execute(t, store, destination.Aggregate, hook)(destination.Delete{Organization: alice, At: time.Now()})
	surplus(0) // its deliveries are dropped when their turn comes
	s.mu.Lock()
	defer s.mu.Unlock()
	assert.Equal(t, len(s.back), 4, "that waited go back, want both at the suspension and both at the deletion")
}

// A delivery whose stream another client of the event store has deleted is not sent again and again: its lease stays.
func TestDeliverer_deletedStream(t *testing.T) {
	t.Parallel()
	store := nodetest.Start(t)
	d := deliverer(store, &claims{}, &noting{})
	d.init()
	held := claimedOf(alice, hook)
	must.OK(t, store.Tombstone(t.Context(), delivery.Aggregate.Stream(held.ID)))
	d.record(t.Context(), &held, time.Now(), webhook.Result{StatusCode: 200})
	d.discard(t.Context(), &held, "no subscription is left")
	surplus := d.take(roomOf(d), []*schedule.Delivery{&held})
	if len(surplus) != 0 || d.schedule.Has(held.ID) || !d.known(held.ID) {
		t.Errorf("%d go back; it is to be sent: %t; it rests: %t", len(surplus), d.schedule.Has(held.ID), d.known(held.ID))
	}
}
