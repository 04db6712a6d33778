package sending

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/feed"
	"carillon/aggregates/subscription"
	"carillon/command/delivery/schedule"
	"carillon/command/webhook"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// sending is a deliverer with a store, whose queue hands out what a test gives it.
type sending struct {
	*Deliverer

	t       *testing.T
	waiting chan schedule.Delivery
	sender  *recording
}

// recording is a sender that notes what it sends. before is called first. Optional.
type recording struct {
	mu     sync.Mutex
	sent   map[string]int
	result webhook.Result
	before func()
}

func (r *recording) Send(_ context.Context, request webhook.Request) webhook.Result {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent[request.ID]++
	if r.before != nil {
		r.before()
	}
	return r.result
}

func (r *recording) count(id uuid.UUID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent[id.String()]
}

func startSending(t *testing.T, result webhook.Result, before func(eventstore.Store)) *sending {
	t.Helper()
	store := nodetest.Start(t)
	sender := &recording{sent: map[string]int{}, result: result}
	s := &sending{t: t, waiting: make(chan schedule.Delivery, 10), sender: sender}
	if before != nil {
		s.sender.before = func() { before(store) }
	}
	queue := &claims{released: make(chan uuid.UUID, 10)}
	queue.claim = func(int) (claimed []*schedule.Delivery) {
		for {
			select {
			case held := <-s.waiting:
				claimed = append(claimed, &held)
			default:
				return claimed
			}
		}
	}
	makeDestination(t, store, hook, bob, "https://example.org")
	s.Deliverer = deliverer(store, queue, s.sender)
	follow(t, s.Deliverer)
	t.Cleanup(s.begin())
	return s
}

// eventually polls for a condition.
func (s *sending) eventually(what string, holds func() bool) {
	s.t.Helper()
	must.Eventually(s.t, what, holds)
}

// deliver hands out a delivery, as a claim of long ago does, and returns its state when it has an end.
func (s *sending) deliver(held schedule.Delivery, ended func(delivery.State) bool) delivery.State {
	s.t.Helper()
	s.waiting <- held
	s.Wake()
	var state delivery.State
	s.eventually("the delivery has ended", func() bool {
		known := must.Get(delivery.Aggregate.Load(s.t.Context(), s.Store, held.ID))(s.t)
		state = known.State
		return ended(state)
	})
	return state
}

func execute[S, E, C any](t *testing.T, store eventstore.Store, of eventstore.Aggregate[S, E, C],
	id uuid.UUID) func(command C) {
	return func(command C) {
		t.Helper()
		must.Get(of.Execute(context.WithoutCancel(t.Context()), store, id, command, eventstore.Options[S]{}))(t)
	}
}

// newsOf registers a news feed that another organization reads, and a subscription of that one.
func newsOf(t *testing.T, store eventstore.Store, reader uuid.UUID) (id, sub uuid.UUID) {
	t.Helper()
	id, sub = uuid.New(), uuid.New()
	execute(t, store, feed.Aggregate, id)(feed.Register{
		Organization: alice,
		FeedType:     "news",
		Name:         "News",
		At:           time.Now(),
	})
	execute(t, store, feed.Aggregate, id)(feed.Share{FeedType: "news", With: reader, At: time.Now()})
	execute(t, store, subscription.Aggregate, sub)(subscription.Create{
		Organization: reader,
		Destination:  hook,
		Settings:     all,
		At:           time.Now(),
	})
	return id, sub
}

func claimedFor(organization, of, sub uuid.UUID) schedule.Delivery {
	d := claimedOf(organization, hook)
	d.Feed, d.Subscriptions = of, []uuid.UUID{sub}
	return d
}

// A delivery that was claimed before its organization lost the feed, or its subscription, is discarded and not
// sent; the same for its replay, which leaves it as it was and needs no subscription.
func TestEntitlement_checkedAtAttempt(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		lose   func(t *testing.T, store eventstore.Store, of, sub uuid.UUID)
		replay bool
		reason string // "": it is sent
	}{
		"unshared": {func(t *testing.T, store eventstore.Store, of, _ uuid.UUID) {
			execute(t, store, feed.Aggregate, of)(feed.Unshare{FeedType: "news", With: bob, At: time.Now()})
		}, false, delivery.ReasonUnshared},
		"shared again": {func(t *testing.T, store eventstore.Store, of, _ uuid.UUID) {
			execute(t, store, feed.Aggregate, of)(feed.Unshare{FeedType: "news", With: bob, At: time.Now()})
			execute(t, store, feed.Aggregate, of)(feed.Share{FeedType: "news", With: bob, At: time.Now()})
		}, false, ""},
		"deleted": {func(t *testing.T, store eventstore.Store, of, _ uuid.UUID) {
			execute(t, store, feed.Aggregate, of)(feed.End{At: time.Now()})
		}, false, delivery.ReasonNoFeed},
		"unsubscribed": {func(t *testing.T, store eventstore.Store, _, sub uuid.UUID) {
			execute(t, store, subscription.Aggregate, sub)(subscription.Delete{At: time.Now()})
		}, false, delivery.ReasonUnsubscribed},
		"switched off": {func(t *testing.T, store eventstore.Store, _, sub uuid.UUID) {
			execute(t, store, subscription.Aggregate, sub)(subscription.Deactivate{At: time.Now()})
		}, false, ""},
		"replay of an unshared": {func(t *testing.T, store eventstore.Store, of, _ uuid.UUID) {
			execute(t, store, feed.Aggregate, of)(feed.Unshare{FeedType: "news", With: bob, At: time.Now()})
		}, true, delivery.ReasonUnshared},
		"replay of an unsubscribed": {func(t *testing.T, store eventstore.Store, _, sub uuid.UUID) {
			execute(t, store, subscription.Aggregate, sub)(subscription.Delete{At: time.Now()})
		}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startSending(t, webhook.Result{StatusCode: 200}, nil)
			of, sub := newsOf(t, s.Store, bob)
			succeeded := func(d delivery.State) bool { return d.Status == delivery.StatusSucceeded }
			before := claimedFor(bob, of, sub)
			must.True(t, succeeded(s.deliver(before, succeeded)) && s.sender.count(before.ID) == 1,
				"not sent while there was access")
			held := claimedFor(bob, of, sub)
			if tt.replay {
				execute(t, s.Store, delivery.Aggregate, held.ID)(delivery.RecordAttempt{
					Destination: hook,
					Number:      1,
					Trigger:     delivery.Automatic,
					Outcome:     delivery.Outcome{FailureReason: "timeout"},
				})
				held.Attempts, held.Replay = 1, uuid.New()
				execute(t, s.Store, delivery.Aggregate, held.ID)(
					delivery.RequestReplay{Destination: hook, Replay: held.Replay})
			}
			tt.lose(t, s.Store, of, sub)
			s.heard()
			state := s.deliver(held, func(d delivery.State) bool { return d.Status != "" && d.Replay == uuid.Nil })
			switch {
			case tt.reason == "" && (state.Status != delivery.StatusSucceeded || s.sender.count(held.ID) != 1):
				t.Errorf("%s, sent %d times, want once", state.Status, s.sender.count(held.ID))
			case tt.reason == "":
			case s.sender.count(held.ID) != 0:
				t.Errorf("sent although %s", tt.reason)
			case tt.replay && state.Status != delivery.StatusFailed:
				t.Errorf("%s after its replay was dropped, want failed", state.Status)
			case !tt.replay && (state.Status != delivery.StatusDiscarded || state.Reason != tt.reason):
				t.Errorf("%s (%s), want discarded (%s)", state.Status, state.Reason, tt.reason)
			}
		})
	}
}

// A request in flight when its subscription is deleted ends by its outcome: after a failure nothing follows.
func TestUnsubscribedInFlightEndsByOutcome(t *testing.T) {
	t.Parallel()
	for result, want := range map[*webhook.Result]delivery.Status{
		{StatusCode: 200}: delivery.StatusSucceeded,
		{StatusCode: 500, FailureReason: "http_status"}: delivery.StatusFailed,
	} {
		t.Run(string(want), func(t *testing.T) {
			t.Parallel()
			var (
				s       *sending
				of, sub uuid.UUID
				held    schedule.Delivery
			)
			s = startSending(t, *result, func(store eventstore.Store) {
				execute(t, store, subscription.Aggregate, sub)(subscription.Delete{At: time.Now()})
				s.heard()
			})
			of, sub = newsOf(t, s.Store, bob)
			held = claimedFor(bob, of, sub)
			state := s.deliver(held, func(d delivery.State) bool { return d.Attempts > 0 })
			assert.True(t, state.Status == want && s.sender.count(held.ID) == 1, "%s, want %s", state.Status, want)
		})
	}
}

// Events are followed while leases can't be released, because Postgres does not answer.
func TestWatchWaitsForNoQueue(t *testing.T) {
	t.Parallel()
	store := nodetest.Start(t)
	makeDestination(t, store, hook, alice, "https://example.org")
	of, sub := newsOf(t, store, alice)
	inFlight, waits := claimedFor(alice, of, sub), claimedFor(alice, of, sub)
	queue := &claims{released: make(chan uuid.UUID)} // no lease can be given back
	queue.claim = func(n int) []*schedule.Delivery {
		if n == 1 {
			return []*schedule.Delivery{&inFlight, &waits}
		}
		return nil
	}
	sender := &noting{to: map[string]int{}, let: make(chan struct{})}
	s := &sending{t: t, Deliverer: deliverer(store, queue, sender)}
	follow(t, s.Deliverer)
	s.Settings.InFlight, s.Settings.Opening = 1, 1
	end := s.begin()
	s.eventually("one is in flight, and one waits",
		func() bool { queued, running := s.Load(); return queued == 1 && running == 1 })
	s.heard()
	off := false
	execute(t, store, destination.Aggregate, hook)(
		destination.Revise{Organization: alice, Enabled: &off, At: time.Now()})
	s.eventually("the one that waits is dropped", func() bool { queued, _ := s.Load(); return queued == 0 })
	execute(t, store, feed.Aggregate, of)(feed.End{At: time.Now()})
	s.heard()
	go func() {
		for range queue.released { //nolint:revive // it is taken, so that the deliverer can end
		}
	}()
	close(sender.let)
	end()
	close(queue.released)
}
