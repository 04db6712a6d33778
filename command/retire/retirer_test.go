package retire_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/retirement"
	"carillon/command/irreversible"
	"carillon/command/retire"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// world is an event store and read models in which one call never answers.
type world struct {
	hangs string // the call; empty if all answer

	mu        sync.Mutex
	retired   int // batches
	removed   int // streams
	scavenges int
	recorded  eventstore.Proposed // at last
}

// answer waits until the caller gives up if the call hangs.
func (w *world) answer(ctx context.Context, call string) error {
	w.mu.Lock()
	hangs := w.hangs == call
	w.mu.Unlock()
	if !hangs {
		return ctx.Err()
	}
	<-ctx.Done()
	return eventstore.ErrUnavailable
}

// hang makes a call hang from now on, and all others answer.
func (w *world) hang(call string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hangs = call
}

func (w *world) batches() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.retired
}

// Append implements eventstore.Store.
func (w *world) Append(
	ctx context.Context, _ string, _ eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	if err := w.answer(ctx, "append"); err != nil {
		return eventstore.Appended{}, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.retired++
	w.recorded = events[0]
	return eventstore.Appended{Position: eventstore.Position{Commit: 1, Prepare: 1}}, nil
}

// Read implements eventstore.Store.
func (w *world) Read(ctx context.Context, _ string, _ eventstore.Revision) iter.Seq2[eventstore.Recorded, error] {
	return func(yield func(eventstore.Recorded, error) bool) {
		if err := w.answer(ctx, "read"); err != nil {
			yield(eventstore.Recorded{}, err)
		}
	}
}

// Subscribe implements eventstore.Store.
func (*world) Subscribe(context.Context, eventstore.Position, eventstore.Filter) iter.Seq2[eventstore.Message, error] {
	return func(func(eventstore.Message, error) bool) {}
}

// Head implements eventstore.Store.
func (w *world) Head(ctx context.Context) (eventstore.Position, error) {
	return eventstore.Start, w.answer(ctx, "head")
}

// seal seals the log.
func (w *world) seal(ctx context.Context, _ eventstore.Position) error { return w.answer(ctx, "seal") }

// tombstone deletes a stream.
func (w *world) tombstone(ctx context.Context, _ string) error {
	if err := w.answer(ctx, "tombstone"); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.removed++
	return nil
}

// retirer retires one event, which has no deliveries, under a lock.
func (w *world) retirer(lock *sync.Mutex) *retire.Retirer {
	wait := func(call string) func(context.Context, eventstore.Position) error {
		return func(ctx context.Context, _ eventstore.Position) error { return w.answer(ctx, call) }
	}
	return &retire.Retirer{
		Store: w,
		Oldest: func(ctx context.Context, _ time.Time, after retirement.Old, _ int) (
			page []retirement.Old, revision eventstore.Revision, err error,
		) {
			if w.batches() == 0 && after == (retirement.Old{}) {
				page = []retirement.Old{{ID: uuid.New(), At: time.Now().Add(-30 * 24 * time.Hour)}}
			}
			return page, eventstore.NoStream, w.answer(ctx, "rows")
		},
		Health: func(ctx context.Context, _ []uuid.UUID) (map[uuid.UUID]retirement.Health, error) {
			return nil, w.answer(ctx, "health")
		},
		Await:      wait("read models"),
		Dispatched: func(context.Context) eventstore.Position { return eventstore.Position{Commit: 9, Prepare: 9} },
		Removed:    wait("remover"),
		Scavenge: func(ctx context.Context) error {
			w.scavenges++
			return w.answer(ctx, "scavenge")
		},
		Lock: func(context.Context) (release func(), err error) {
			if !lock.TryLock() {
				return nil, retire.ErrRetiring
			}
			return lock.Unlock, nil
		},
		Reached: context.WithCancel,
		Keep:    retire.MinAge,
		Due: func(context.Context, time.Time) (irreversible.Share, error) {
			return irreversible.Share{Due: 1, Of: 1}, nil
		},
		Pass:    func(context.Context, irreversible.Act, irreversible.Due) (time.Time, error) { return time.Now(), nil },
		Now:     time.Now,
		Started: time.Now(),
		Log:     slog.New(slog.DiscardHandler),
	}
}

// pass lets time pass, and waits until all that becomes due in it is done.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// A turn against a store that never answers ends, and another process has the lock. The next turn goes on, and a stop
// in the middle of one is immediate.
func TestRetirerBesideHangingStore(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"rows", "read", "append", "health", "read models", "remover", "scavenge"} {
		synctest.Test(t, func(t *testing.T) {
			w, lock := &world{hangs: call}, &sync.Mutex{}
			r := w.retirer(lock)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var running sync.WaitGroup
			running.Go(func() { _ = r.Run(ctx) })
			pass(30 * time.Minute) // the turn began after 10
			must.True(t, lock.TryLock(), "%s: the lock is held", call)
			lock.Unlock()
			pass(6 * time.Hour)
			_, age := r.Retired()
			failing := age > 6*time.Hour && len(r.Warnings()) == 1
			recorded := call == "read models" || call == "remover" // then nothing is left for the second turn
			if failing == recorded {
				t.Errorf("%s: the last turn ended %s ago, warnings %q", call, age, r.Warnings())
			}
			w.hang("")
			pass(7 * time.Hour)
			var retired retire.Totals
			retired, age = r.Retired()
			if retired.Events != 1 || w.batches() != 1 || age > time.Hour || len(r.Warnings()) != 0 {
				t.Errorf("%s: %d events retired in %d batches, the last turn ended %s ago, warnings %q", call,
					retired.Events, w.batches(), age, r.Warnings())
			}
			began := time.Now()
			w.hang("rows")
			pass(59 * time.Minute)
			stop()
			running.Wait()
			took := time.Since(began)
			assert.True(t, took <= 59*time.Minute, "%s: stopped after %s", call, took)
		})
	}
}

// While clocks differ nothing is retired or scavenged, and it is a failure. A large share waits, with a warning.
func TestRetirerAsksBeforeRemoval(t *testing.T) {
	t.Parallel()
	large := &irreversible.PostponedError{Share: irreversible.Share{Due: 2, Of: 3}, Act: irreversible.RetireEvents}
	for _, refusal := range []error{irreversible.ErrClocks, large} {
		synctest.Test(t, func(t *testing.T) {
			w, asked, scavenged := &world{}, 0, 0
			r := w.retirer(&sync.Mutex{})
			r.Pass = func(_ context.Context, act irreversible.Act, _ irreversible.Due) (time.Time, error) {
				asked++
				if act == irreversible.Scavenge && errors.Is(refusal, large) {
					return time.Now(), nil
				}
				return time.Now(), refusal
			}
			r.Scavenge = func(context.Context) error { scavenged++; return nil }
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = r.Run(ctx) })
			pass(5 * time.Hour)
			stop()
			running.Wait()
			_, age := r.Retired()
			if errors.Is(refusal, large) != (r.Postponed() == 1) {
				t.Errorf("%v: %d acts postponed", refusal, r.Postponed())
			}
			if w.batches() != 0 || asked == 0 || len(r.Warnings()) != 1 || !strings.Contains(r.Warnings()[0], refusal.Error()) {
				t.Errorf("%v: %d batches, asked %d times, warnings %q", refusal, w.batches(), asked, r.Warnings())
			}
			if failed := age > 4*time.Hour; failed != errors.Is(refusal, irreversible.ErrClocks) || failed != (scavenged == 0) {
				t.Errorf("%v: the last turn ended %s ago, scavenged %d times", refusal, age, scavenged)
			}
		})
	}
}

// Old events that have to stay are looked at again once a day, not in each turn.
func TestRetirerLooksAgainDaily(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		r, walks, turns := w.retirer(&sync.Mutex{}), 0, 0
		r.Oldest = func(_ context.Context, _ time.Time, after retirement.Old, _ int) (
			page []retirement.Old, revision eventstore.Revision, err error,
		) {
			if after == (retirement.Old{}) {
				walks++
				return []retirement.Old{{ID: uuid.New(), At: time.Now()}}, eventstore.NoStream, nil // too young
			}
			turns++
			return nil, eventstore.NoStream, nil
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.Run(ctx) })
		pass(48 * time.Hour)
		stop()
		running.Wait()
		assert.True(t, walks == 2 && turns == 48 && w.batches() == 0,
			"in two days %d walks through all in %d turns", walks, turns)
	})
}

// Space is given back after each retirement, once.
func TestRetirerScavengesOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		r := w.retirer(&sync.Mutex{})
		for turn, want := range []struct{ events, scavenges int }{{1, 1}, {0, 1}, {1, 2}} {
			if w.removed = 0; turn == 2 {
				w.retired = 0 // one more event is old enough
				pass(24 * time.Hour)
			}
			n, err := r.Retire(t.Context())
			assert.True(t, n == want.events && w.scavenges == want.scavenges && err == nil,
				"turn %d: %d events retired, %d scavenges, %v", turn, n, w.scavenges, err)
		}
		total, _ := r.Retired()
		assert.True(t, total == (retire.Totals{Events: 2}), "totals: %+v", total)
		recorded := eventstore.Recorded{Type: w.recorded.Type, Data: w.recorded.Data}
		event, err := retirement.Events.Decode(&recorded)
		retired, is := event.(retirement.Retired)
		metadata, metadataErr := eventstore.ParseMetadata(w.recorded.Metadata)
		assert.True(t, err == nil && metadataErr == nil && is && retired.At.Equal(time.Now()) &&
			metadata.Actor == "retirement", "recorded %+v by %q (%v, %v)", event, metadata.Actor, err, metadataErr)
	})
}

// A remover whose store hangs is started again by its runner, so it must fail.
func TestRemoverBesideHangingStore(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"seal", "tombstone", "read", "append"} {
		synctest.Test(t, func(t *testing.T) {
			_, data, err := retirement.Events.Encode(retirement.Retired{
				Batch:        uuid.New(),
				Publications: []retirement.Publication{{ID: uuid.New()}},
			})
			must.OK(t, err)
			batch := []eventstore.Recorded{{Type: "retirement.events-retired.v1", Data: data}}
			w, began := &world{hangs: call}, time.Now()
			err = retire.NewRemover(w, w.seal, w.tombstone).React(t.Context(), batch)
			assert.True(t, err != nil && time.Since(began) <= time.Hour, "%s: %v after %s", call, err, time.Since(began))
			w.hang("")
			assert.Is(t, retire.NewRemover(w, w.seal, w.tombstone).React(t.Context(), batch), nil, "%s", call)
		})
	}
}

// While another process retires, this one has not failed, and the age of the oldest event is known.
func TestRetirerBesideAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, lock := &world{}, &sync.Mutex{}
		r := w.retirer(lock)
		lock.Lock()
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.Run(ctx) })
		pass(5 * time.Hour)
		overdue, err := r.Overdue(ctx)
		want := 23*24*time.Hour - time.Hour
		assert.True(t, overdue == want && err == nil, "overdue by %s, %v; want %s", overdue, err, want)
		if retired, age := r.Retired(); retired.Events != 0 || age != 5*time.Hour || len(r.Warnings()) != 0 {
			t.Errorf("%d events retired, %s, %q", retired.Events, age, r.Warnings())
		}
		lock.Unlock()
		pass(time.Hour)
		if overdue, err := r.Overdue(ctx); overdue != 0 || err != nil {
			t.Errorf("overdue by %s, %v", overdue, err)
		}
		stop()
		running.Wait()
	})
}
