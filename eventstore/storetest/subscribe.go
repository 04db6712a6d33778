package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// follow collects the events of the fixture's category after a position, until want have come.
func (f *fixture) follow(after eventstore.Position, want int) (events []eventstore.Recorded, caughtUp bool) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.ctx())
	defer cancel()
	for message, err := range f.store.Subscribe(ctx, after, eventstore.Categories(f.category)) {
		if err != nil {
			f.Fatalf("subscription after %s: %v, with %d of %d events", after, err, len(events), want)
		}
		caughtUp = caughtUp || message.CaughtUp
		if message.Event != nil {
			events = append(events, *message.Event)
		}
		if len(events) >= want {
			return events, caughtUp
		}
	}
	f.Fatal("the subscription ended without an error")
	return nil, false
}

func subscriptions(t *testing.T, store eventstore.Store) {
	t.Run("from the start, from between, in order", func(t *testing.T) {
		f := begin(t, store)
		start := must.Get(store.Head(f.ctx()))(t)
		a, b := f.stream(), f.stream()
		f.append(a, eventstore.NoStream, event("1"))
		second := f.append(b, eventstore.NoStream, event("2"))
		f.append(a, 0, event("3"), event("4"))
		all, _ := f.follow(start, 4)
		labels := func(events []eventstore.Recorded) string {
			text := ""
			for _, e := range events {
				text += string(e.Data)
			}
			return text
		}
		assert.Equal(t, labels(all), `{"label":"1"}{"label":"2"}{"label":"3"}{"label":"4"}`,
			"events … are not in the order of their appends")
		rest, _ := f.follow(second.Position, 2)
		assert.Equal(t, labels(rest), labels(all[2:]), "after the second")
	})
	t.Run("other categories are filtered out", func(t *testing.T) {
		f := begin(t, store)
		start := must.Get(store.Head(f.ctx()))(t)
		stranger := &fixture{T: t, store: store, category: f.category + "x"}
		for range 50 {
			stranger.append(stranger.stream(), eventstore.NoStream, event("strange"))
		}
		stream := f.stream()
		f.append(stream, eventstore.NoStream, event("mine"))
		events, _ := f.follow(start, 1)
		if len(events) != 1 || events[0].Stream != stream {
			t.Errorf("events = %+v, want the one of %s", events, stream)
		}
	})
	t.Run("says when it has caught up, then goes on", func(t *testing.T) {
		f := begin(t, store)
		stream := f.stream()
		appended := f.append(stream, eventstore.NoStream, event("1"))
		ctx, cancel := context.WithCancel(f.ctx())
		defer cancel()
		live := false
		for message, err := range store.Subscribe(ctx, appended.Position, eventstore.Categories(f.category)) {
			switch {
			case err != nil:
				t.Fatal(err)
			case message.CaughtUp && !live:
				live = true
				f.append(stream, 0, event("2"))
			case message.Event != nil:
				if !live || message.Event.Revision != 1 {
					t.Fatalf("event %d came, live: %t", message.Event.Revision, live)
				}
				return
			}
		}
	})
	t.Run("a burst comes whole, to one who reads slowly too", func(t *testing.T) {
		f := begin(t, store)
		start := must.Get(store.Head(f.ctx()))(t)
		const burst = 500
		stream := f.stream()
		ctx, cancel := context.WithCancel(f.ctx())
		defer cancel()
		var came []eventstore.Recorded
		for message, err := range store.Subscribe(ctx, start, eventstore.Categories(f.category)) {
			switch {
			case err != nil:
				t.Fatalf("after %d of %d events: %v", len(came), 2*burst, err)
			case message.CaughtUp && len(came) == 0:
				for round := range 2 {
					list := make([]eventstore.Proposed, burst)
					for i := range list {
						list[i] = event(fmt.Sprint(i))
					}
					f.append(stream, eventstore.Revision(round*burst-1), list...)
				}
			case message.Event != nil:
				came = append(came, *message.Event)
			}
			if len(came) == 2*burst {
				break
			}
		}
		checkOrder(t, came)
	})
	t.Run("from catching up to live, nothing is missed or repeated", func(t *testing.T) {
		f := begin(t, store)
		start := must.Get(store.Head(f.ctx()))(t)
		const writers, each = 8, 50
		ctx := f.ctx()
		var group sync.WaitGroup
		for range writers {
			stream := f.stream()
			group.Go(func() {
				for i := range each {
					_, err := store.Append(ctx, stream, eventstore.Revision(i-1), []eventstore.Proposed{event(fmt.Sprint(i))})
					if err != nil {
						t.Errorf("append: %v", err)
						return
					}
				}
			})
		}
		events, _ := f.follow(start, writers*each)
		group.Wait()
		checkOrder(t, events)
		again, _ := f.follow(start, writers*each)
		if !slices.EqualFunc(events, again, func(a, b eventstore.Recorded) bool {
			return a.ID == b.ID && a.Position == b.Position
		}) {
			t.Error("the global order differs between two subscriptions")
		}
	})
}

// checkOrder: global positions increase, and each stream's revisions come without a gap or a repeat.
func checkOrder(t *testing.T, events []eventstore.Recorded) {
	t.Helper()
	next := map[string]eventstore.Revision{}
	for i, e := range events {
		if i > 0 && !events[i-1].Position.Before(e.Position) {
			t.Fatalf("position %s follows %s", e.Position, events[i-1].Position)
		}
		must.Equal(t, e.Revision, next[e.Stream], "%s: revision … came", e.Stream)
		next[e.Stream]++
	}
}
