package tail_test

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/eventstore/tail"
)

const patience = 2 * time.Minute

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, tail.New(nodetest.Start(t), slog.New(slog.DiscardHandler)))
}

// counted reports how many subscriptions of a store are open, how many of them are filtered, and how many events they
// have yielded.
type counted struct {
	eventstore.Store
	open, filtered, yielded atomic.Int64
}

// awaitShared waits until only the shared subscription is open, which has no filter.
func (c *counted) awaitShared(ctx context.Context, t *testing.T) {
	t.Helper()
	for c.open.Load() != 1 || c.filtered.Load() != 0 {
		select {
		case <-ctx.Done():
			t.Fatalf("%d subscriptions are open, want the shared one alone", c.open.Load())
		case <-time.After(time.Millisecond):
		}
	}
}

func (c *counted) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) {
		c.open.Add(1)
		defer c.open.Add(-1)
		if len(filter.Prefixes) > 0 {
			c.filtered.Add(1)
			defer c.filtered.Add(-1)
		}
		for m, err := range c.Store.Subscribe(ctx, after, filter) {
			if m.Event != nil {
				c.yielded.Add(1)
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

func fact() eventstore.Proposed {
	return eventstore.Proposed{
		ID:       uuid.New(),
		Type:     "thing.happened.v1",
		Data:     []byte(`{}`),
		Metadata: []byte(`{}`),
	}
}

func record(t *testing.T, store eventstore.Store, category string) eventstore.Position {
	t.Helper()
	done := must.Get(store.Append(t.Context(), eventstore.StreamName(category, uuid.New()), eventstore.NoStream,
		[]eventstore.Proposed{fact()}))(t)
	return done.Position
}

// consumer follows one category.
type consumer struct {
	seen   []eventstore.Position
	caught chan struct{} // closed when it has caught up
	ended  chan struct{}
	pause  <-chan struct{} // where given, it stands still at its first event until this is closed
}

func (c *consumer) follow(ctx context.Context, store eventstore.Store, category string, want int) {
	defer close(c.ended)
	caughtUp := sync.OnceFunc(func() { close(c.caught) })
	for m, err := range store.Subscribe(ctx, eventstore.Start, eventstore.Categories(category)) {
		switch {
		case err != nil:
			return
		case m.CaughtUp:
			caughtUp()
		case m.Event != nil:
			c.seen = append(c.seen, m.Position)
			if c.pause != nil {
				<-c.pause
			}
		}
		if len(c.seen) == want {
			return
		}
	}
}

func newConsumer() *consumer {
	return &consumer{caught: make(chan struct{}), ended: make(chan struct{})}
}

// check waits until it has ended, and compares.
func (c *consumer) check(t *testing.T, want []eventstore.Position) {
	t.Helper()
	<-c.ended
	must.Equal(t, len(c.seen), len(want), "events came")
	for i := range want {
		must.Equal(t, c.seen[i], want[i], "event %d is that at", i)
	}
}

func TestConsumersShareOneSubscription(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	below := &counted{Store: nodetest.Start(t)}
	store := tail.New(below, slog.New(slog.DiscardHandler))
	want := map[string][]eventstore.Position{}
	for range 3 {
		want["a"] = append(want["a"], record(t, store, "a"))
		want["b"] = append(want["b"], record(t, store, "b"))
	}
	const live = 50
	consumers := map[string][]*consumer{}
	for _, category := range []string{"a", "a", "a", "b", "c"} {
		c := newConsumer()
		consumers[category] = append(consumers[category], c)
		go c.follow(ctx, store, category, 3+live)
		<-c.caught
	}
	below.awaitShared(ctx, t)
	before := below.yielded.Load()
	for range live {
		want["a"] = append(want["a"], record(t, store, "a"))
		want["b"] = append(want["b"], record(t, store, "b"))
	}
	for _, category := range []string{"a", "b"} {
		for _, c := range consumers[category] {
			c.check(t, want[category])
		}
	}
	if open, yielded := below.open.Load(), below.yielded.Load()-before; open != 1 || yielded != 2*live {
		t.Errorf("%d subscriptions are open and have yielded %d events, want one and %d", open, yielded, 2*live)
	}
	cancel()
	<-consumers["c"][0].ended
	assert.Equal(t, below.open.Load(), 0, "subscriptions are open without a reader")
}

// A stalled consumer delays no other, and misses nothing.
func TestTail_laggingConsumerMissesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	store := tail.NewSized(nodetest.Start(t), slog.New(slog.DiscardHandler), 16)
	const events = 200
	slow, quick, going := newConsumer(), newConsumer(), make(chan struct{})
	slow.pause = going
	go slow.follow(ctx, store, "a", events)
	go quick.follow(ctx, store, "a", events)
	<-slow.caught
	<-quick.caught
	var want []eventstore.Position
	for range events {
		want = append(want, record(t, store, "a"))
		record(t, store, "b")
	}
	quick.check(t, want)
	close(going)
	slow.check(t, want)
}

// A position comes now and then, so that checkpoints move if nothing concerns a consumer.
func TestSilentConsumersHearHowFarTheyHaveCome(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	store := tail.New(nodetest.Start(t), slog.New(slog.DiscardHandler))
	var last eventstore.Position
	caughtUp := false
	for m, err := range store.Subscribe(ctx, eventstore.Start, eventstore.Categories("nothing")) {
		switch {
		case err != nil:
			t.Fatal(err)
		case m.CaughtUp && !caughtUp:
			caughtUp = true
			var group sync.WaitGroup
			for range 64 {
				group.Go(func() {
					for range tail.SilentAfter/64 + 1 {
						record(t, store, "a")
					}
				})
			}
			group.Wait()
		case m.Event != nil:
			t.Fatalf("an event of %s came", m.Event.Stream)
		default:
			last = m.Position
		}
		if caughtUp && last != eventstore.Start {
			return
		}
	}
}

// On servers that send no checkpoint when a subscriber has caught up, one without recent events of its own becomes live
// all the same.
func TestTail_caughtUpWithoutCheckpoint(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	below := &counted{Store: nodetest.StartStrict(t, &stricttest.Strict{}, slog.New(slog.DiscardHandler))}
	store := tail.New(below, slog.New(slog.DiscardHandler))
	want := []eventstore.Position{record(t, store, "rare")}
	for range 20 {
		record(t, store, "other")
	}
	first := newConsumer() // keeps the shared subscription, from before the other one comes
	go first.follow(ctx, store, "other", 21)
	<-first.caught
	late := newConsumer()
	go late.follow(ctx, store, "rare", 2)
	<-late.caught
	below.awaitShared(ctx, t)
	want = append(want, record(t, store, "rare"))
	late.check(t, want)
	record(t, store, "other")
	<-first.ended
}

// mute is a store whose head is asked for in vain.
type mute struct {
	eventstore.Store
	asked chan struct{}
}

func (m *mute) Head(ctx context.Context) (eventstore.Position, error) {
	m.asked <- struct{}{}
	<-ctx.Done()
	return eventstore.Start, ctx.Err()
}

// TestSubscriberIsNotHeldUpByOthers: while one waits for a store that does not answer, others can ask too, and give up.
func TestSubscriberIsNotHeldUpByOthers(t *testing.T) {
	t.Parallel()
	below := &mute{Store: nodetest.Start(t), asked: make(chan struct{})}
	store := tail.New(below, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 2)
	subscribe := func(ctx context.Context) {
		for _, err := range store.Subscribe(ctx, eventstore.Start, eventstore.Filter{}) {
			ended <- err
		}
	}
	go subscribe(ctx)
	<-below.asked
	hurried, abort := context.WithCancel(ctx)
	go subscribe(hurried)
	select {
	case <-below.asked:
	case <-ctx.Done():
		t.Fatal("it waits for the other's answer")
	}
	abort()
	if err := <-ended; err == nil || ctx.Err() != nil {
		t.Errorf("it ended with %v", err)
	}
	cancel()
	<-ended
}

// gated is a store whose unfiltered subscriptions, such as the shared one, begin when they are let go.
type gated struct {
	*nodetest.Replaceable
	letGo chan struct{}
}

func (u *gated) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	if len(filter.Prefixes) == 0 {
		<-u.letGo
	}
	return u.Replaceable.Subscribe(ctx, after, filter)
}

// A store that was restored from an older backup has other events at the positions to come, so consumers end, and then
// get its new events: when the shared subscription breaks, and when it begins after the store was replaced.
func TestConsumersEndAfterStoreReplaced(t *testing.T) {
	t.Parallel()
	t.Run("during", func(t *testing.T) { t.Parallel(); consumersEnd(t, false) })
	t.Run("before", func(t *testing.T) { t.Parallel(); consumersEnd(t, true) })
}

func consumersEnd(t *testing.T, late bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	older := nodetest.StartStrict(t, &stricttest.Strict{Later: true}, slog.New(slog.DiscardHandler))
	record(t, older, "a")
	below := &gated{Replaceable: nodetest.NewReplaceable(nodetest.Start(t)), letGo: make(chan struct{})}
	letGo := sync.OnceFunc(func() { close(below.letGo) })
	defer letGo()
	if !late {
		letGo()
	}
	store := tail.New(below, slog.New(slog.DiscardHandler))
	for range 20 {
		record(t, store, "a")
	}
	other := newConsumer() // keeps the shared subscription
	go other.follow(ctx, store, "b", 1)
	<-other.caught
	caughtUp := false
	for message := range eventstore.Follow(ctx, store, eventstore.Start, eventstore.Categories("a"),
		slog.New(slog.DiscardHandler)) {
		if message.CaughtUp && !caughtUp {
			caughtUp = true
			below.Replace(older)
			letGo()
			<-other.ended // so that what is shared has begun again before this one joins it
		}
	}
	must.True(t, ctx.Err() == nil, "it did not end")
	again := newConsumer()
	go again.follow(ctx, store, "a", 2)
	<-again.caught
	record(t, store, "a")
	if <-again.ended; len(again.seen) != 2 {
		t.Errorf("%d events came, want 2", len(again.seen))
	}
}

// broken is a store whose shared subscription panics when it has yielded some events, and then once more when it is
// asked where to go on.
type broken struct {
	eventstore.Store
	left, heads atomic.Int64
}

func (b *broken) Head(ctx context.Context) (eventstore.Position, error) {
	if b.left.Load() <= 0 && b.heads.Add(1) == 1 {
		panic("planted")
	}
	return b.Store.Head(ctx)
}

func (b *broken) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) {
		for m, err := range b.Store.Subscribe(ctx, after, filter) {
			if m.Event != nil && len(filter.Prefixes) == 0 && b.left.Add(-1) == 0 {
				panic("planted")
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// A panic in the shared subscription costs a consumer that follows the store no event, and none comes twice.
func TestTail_survivesAPanic(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	below, log := &broken{Store: nodetest.Start(t)}, slog.New(slog.DiscardHandler)
	below.left.Store(5)
	store := tail.New(below, log)
	var want, got []eventstore.Position
	for m := range eventstore.Follow(ctx, store, eventstore.Start, eventstore.Categories("a"), log) {
		if m.Event != nil {
			got = append(got, m.Position)
		}
		if len(got) == len(want) && len(want) < 20 {
			want = append(want, record(t, store, "a"))
		}
		if len(got) == 20 {
			break
		}
	}
	assert.True(t, slices.Equal(got, want) && below.left.Load() <= 0,
		"%d events came, want %d; it panics in %d", len(got), len(want), below.left.Load())
}
