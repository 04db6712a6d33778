// Package storetest is the contract of eventstore.Store for any implementation, the embedded node and a real
// EventStoreDB alike.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// patience bounds every wait for something that must come.
const patience = 2 * time.Minute

// Run runs the whole contract against a store. It works in new streams, so a store in use will do.
func Run(t *testing.T, store eventstore.Store) {
	t.Helper()
	t.Run("append", func(t *testing.T) { appends(t, store) })
	t.Run("idempotence", func(t *testing.T) { idempotence(t, store) })
	t.Run("read", func(t *testing.T) { reads(t, store) })
	t.Run("subscribe", func(t *testing.T) { subscriptions(t, store) })
	t.Run("concurrency", func(t *testing.T) { concurrency(t, store) })
}

// fixture is one test's view of the store: streams of a unique category.
type fixture struct {
	*testing.T
	store    eventstore.Store
	category string
}

func begin(t *testing.T, store eventstore.Store) *fixture {
	t.Helper()
	t.Parallel()
	return &fixture{T: t, store: store, category: "contract" + uuid.NewString()[:8]}
}

func (f *fixture) ctx() context.Context {
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	f.Cleanup(cancel)
	return ctx
}

func (f *fixture) stream() string { return eventstore.StreamName(f.category, uuid.New()) }

// event makes an event with unique data.
func event(label string) eventstore.Proposed {
	return eventstore.Proposed{
		ID:       uuid.New(),
		Type:     "thing.happened.v1",
		Data:     fmt.Appendf(nil, "{%q:%q}", "label", label),
		Metadata: []byte(`{"actor":"contract"}`),
	}
}

func (f *fixture) append(
	stream string, expected eventstore.Revision, events ...eventstore.Proposed,
) eventstore.Appended {
	f.Helper()
	appended, err := f.store.Append(f.ctx(), stream, expected, events)
	if err != nil {
		f.Fatalf("append to %s at %d: %v", stream, expected, err)
	}
	return appended
}

func (f *fixture) read(stream string, from eventstore.Revision) []eventstore.Recorded {
	f.Helper()
	var events []eventstore.Recorded
	for recorded, err := range f.store.Read(f.ctx(), stream, from) {
		if err != nil {
			f.Fatalf("read %s: %v", stream, err)
		}
		events = append(events, recorded)
	}
	return events
}

func appends(t *testing.T, store eventstore.Store) {
	states := map[string]int{"no stream": 0, "one event": 1, "three events": 3}
	for name, existing := range states {
		for expected := eventstore.NoStream; expected <= 3; expected++ {
			t.Run(fmt.Sprintf("%s, expecting revision %d", name, expected), func(t *testing.T) {
				f := begin(t, store)
				stream := f.stream()
				for i := range existing {
					f.append(stream, eventstore.Revision(i-1), event("old"))
				}
				appended, err := store.Append(f.ctx(), stream, expected, []eventstore.Proposed{event("a"), event("b")})
				if expected != eventstore.Revision(existing-1) {
					var detail *eventstore.WrongRevisionError
					if !errors.Is(err, eventstore.ErrWrongRevision) || !errors.As(err, &detail) || detail.Stream != stream {
						t.Fatalf("error = %v, want a wrong revision of %s", err, stream)
					}
					assert.Equal(t, len(f.read(stream, 0)), existing, "a refused append left … events")
					return
				}
				must.OK(t, err)
				if want := expected + 2; appended.Revision != want {
					t.Errorf("revision = %d, want %d", appended.Revision, want)
				}
				events := f.read(stream, 0)
				if last := events[len(events)-1]; last.Position != appended.Position {
					t.Errorf("position = %s, last event at %s", appended.Position, last.Position)
				}
			})
		}
	}
	t.Run("too large", func(t *testing.T) {
		f := begin(t, store)
		large := event("large")
		large.Data = append(slices.Grow([]byte(`"`), 1<<20+64), slices.Repeat([]byte("x"), 1<<20+1)...)
		large.Data = append(large.Data, '"')
		if _, err := store.Append(f.ctx(), f.stream(), eventstore.NoStream, []eventstore.Proposed{large}); !errors.Is(err,
			eventstore.ErrTooLarge) {
			t.Errorf("error = %v, want too large", err)
		}
	})
	t.Run("a context that has ended", func(t *testing.T) {
		f := begin(t, store)
		ctx, cancel := context.WithCancel(f.ctx())
		cancel()
		for range 100 { // an answer may be there as soon as the end of the context
			if _, err := store.Append(ctx, f.stream(), eventstore.NoStream, []eventstore.Proposed{event("a")}); !errors.Is(err,
				eventstore.ErrUnavailable) {
				t.Fatalf("error = %v, want unavailable", err)
			}
		}
	})
}

func idempotence(t *testing.T, store eventstore.Store) {
	t.Run("the same append again", func(t *testing.T) {
		f := begin(t, store)
		stream, a, b := f.stream(), event("a"), event("b")
		first := f.append(stream, eventstore.NoStream, a, b)
		f.append(stream, 1, event("c"))
		assert.Equal(t, f.append(stream, eventstore.NoStream, a, b).Revision, first.Revision,
			"revision … as the first time")
		assert.Equal(t, len(f.read(stream, 0)), 3, "events")
	})
	t.Run("other events at a taken revision", func(t *testing.T) {
		f := begin(t, store)
		stream := f.stream()
		f.append(stream, eventstore.NoStream, event("a"))
		if _, err := store.Append(f.ctx(), stream, eventstore.NoStream, []eventstore.Proposed{event("b")}); !errors.Is(err,
			eventstore.ErrWrongRevision) {
			t.Errorf("error = %v, want a wrong revision", err)
		}
	})
}

func reads(t *testing.T, store eventstore.Store) {
	t.Run("a stream that does not exist", func(t *testing.T) {
		f := begin(t, store)
		assert.Equal(t, len(f.read(f.stream(), 0)), 0, "events of nothing")
	})
	t.Run("appended events", func(t *testing.T) {
		f := begin(t, store)
		stream := f.stream()
		proposed := []eventstore.Proposed{event("a"), event("b"), event("c")}
		before := time.Now().Add(-time.Minute)
		f.append(stream, eventstore.NoStream, proposed...)
		events := f.read(stream, 0)
		must.Equal(t, len(events), len(proposed), "events")
		for i, got := range events {
			want := eventstore.Recorded{
				ID:       proposed[i].ID,
				Stream:   stream,
				Revision: eventstore.Revision(i),
				Position: got.Position,
				Type:     proposed[i].Type,
				Data:     proposed[i].Data,
				Metadata: proposed[i].Metadata,
				Created:  got.Created,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("event %d (-appended +read):\n%s", i, diff)
			}
			if got.Created.Before(before) || got.Created.After(time.Now().Add(time.Minute)) {
				t.Errorf("event %d was created at %s", i, got.Created)
			}
			if i > 0 && !events[i-1].Position.Before(got.Position) {
				t.Errorf("positions %s, %s do not increase", events[i-1].Position, got.Position)
			}
		}
	})
	t.Run("from a revision", func(t *testing.T) {
		f := begin(t, store)
		stream := f.stream()
		f.append(stream, eventstore.NoStream, event("a"), event("b"), event("c"))
		if got := f.read(stream, 1); len(got) != 2 || got[0].Revision != 1 {
			t.Errorf("read from 1: %+v", got)
		}
	})
	t.Run("head", func(t *testing.T) {
		f := begin(t, store)
		appended := f.append(f.stream(), eventstore.NoStream, event("a"))
		head, err := store.Head(f.ctx())
		if err != nil || head.Before(appended.Position) {
			t.Errorf("head = %s, %v, want at least %s", head, err, appended.Position)
		}
	})
}

func concurrency(t *testing.T, store eventstore.Store) {
	t.Run("one of many wins each revision", func(t *testing.T) {
		f := begin(t, store)
		stream, ctx := f.stream(), f.ctx()
		const writers, rounds = 8, 10
		var won [rounds]int
		for round := range rounds {
			var mu sync.Mutex
			var group sync.WaitGroup
			for range writers {
				group.Go(func() {
					_, err := store.Append(ctx, stream, eventstore.Revision(round-1), []eventstore.Proposed{event("x")})
					mu.Lock()
					defer mu.Unlock()
					switch {
					case err == nil:
						won[round]++
					case !errors.Is(err, eventstore.ErrWrongRevision):
						t.Errorf("append: %v", err)
					}
				})
			}
			group.Wait()
			must.Equal(t, won[round], 1, "round %d was won by … writers", round)
		}
		assert.Equal(t, len(f.read(stream, 0)), rounds, "events")
	})
}
