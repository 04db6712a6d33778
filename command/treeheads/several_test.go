package treeheads_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/command/treeheads"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/seal"
)

// all yields the events of a store up to its present end.
func all(store eventstore.Store) func(context.Context) iter.Seq2[eventstore.Recorded, error] {
	return func(ctx context.Context) iter.Seq2[eventstore.Recorded, error] {
		return func(yield func(eventstore.Recorded, error) bool) {
			for message, err := range store.Subscribe(ctx, eventstore.Start, eventstore.Filter{}) {
				if message.CaughtUp || message.Event != nil && !yield(*message.Event, err) || err != nil {
					return
				}
			}
		}
	}
}

// verifyStore verifies a store, with heads that were kept elsewhere.
func verifyStore(t testing.TB, store eventstore.Store, elsewhere []seal.Head) *treeheads.Report {
	t.Helper()
	v := treeheads.Verification{
		Store:     store,
		All:       all(store),
		Trusted:   []ed25519.PublicKey{own.Public().(ed25519.PublicKey)},
		Elsewhere: elsewhere,
	}
	report, err := v.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// appendOne appends an event to a stream of its own.
func appendOne(t testing.TB, store eventstore.Store) {
	t.Helper()
	_, err := store.Append(t.Context(), eventstore.StreamName("feed", uuid.New()), eventstore.NoStream,
		[]eventstore.Proposed{{
			ID:       uuid.New(),
			Type:     "feed.revised.v1",
			Data:     fmt.Appendf(nil, `{"name":"Feed"}`),
			Metadata: []byte(`{"actor":"operator","schemaVersion":1}`),
		}})
	if err != nil {
		t.Error(err)
	}
}

// Processes that seal at once, while others append, record one sequence of heads. Each head that any of them returned
// fits the log.
func TestSealAtOnce(t *testing.T) {
	t.Parallel()
	store := nodetest.Start(t)
	var (
		mu    sync.Mutex
		heads []seal.Head
		busy  sync.WaitGroup
	)
	for i := range 4 {
		s, ticks := sealer(store), noon
		s.Now = func() time.Time { ticks = ticks.Add(time.Duration(i+1) * time.Second); return ticks }
		busy.Go(func() {
			for range 15 {
				appendOne(t, store)
				more, err := s.Seal(t.Context(), by)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				heads = append(heads, more...)
				mu.Unlock()
			}
		})
	}
	busy.Wait()
	report := verifyStore(t, store, heads)
	if !report.OK() || report.Elsewhere != uint64(len(heads)) || report.Heads == 0 || report.Heads > uint64(len(heads)) {
		t.Errorf("%d heads were returned: %+v", len(heads), report)
	}
	if more, err := sealer(store).Seal(t.Context(), by); err != nil || len(more) > 0 {
		t.Errorf("left unsealed: %+v, %v", more, err)
	}
}
