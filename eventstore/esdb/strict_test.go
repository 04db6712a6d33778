package esdb_test

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest"
)

// Both contracts hold on a node that is as unkind as real servers are, and on a node that takes no batches.
func TestContractOnStrictNodes(t *testing.T) {
	t.Parallel()
	for name, strict := range map[string]*stricttest.Strict{
		"23.10":                    {},
		"25.0":                     {Later: true},
		"a server without batches": {NoBatches: true},
		"one that refuses them":    {NoBatches: true, SaysBatches: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, nodetest.StartStrict(t, strict, slog.New(slog.DiscardHandler)))
		})
	}
}

// A position between two events is not one that a server knows, and no checkpoint that it sends is one of these.
func TestEveryCheckpointCanBeResumedFrom(t *testing.T) {
	t.Parallel()
	for name, strict := range map[string]*stricttest.Strict{"23.10": {}, "25.0": {Later: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resumed(t, nodetest.StartStrict(t, strict, slog.New(slog.DiscardHandler)))
		})
	}
}

func resumed(t *testing.T, store *esdb.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 40 {
		for _, category := range []string{"mine-", "other-", "other-"} {
			event := eventstore.Proposed{ID: uuid.New(), Type: "thing.happened.v1", Data: bytes.Repeat([]byte(" "), 4<<10)}
			stream := category + uuid.NewString()
			if _, err := store.Append(ctx, stream, eventstore.NoStream, []eventstore.Proposed{event}); err != nil {
				t.Fatal(err)
			}
		}
	}
	rest := func(after eventstore.Position) (positions []eventstore.Position, events int) {
		for message, err := range store.Subscribe(ctx, after, eventstore.Categories("mine")) {
			switch {
			case err != nil:
				t.Fatalf("after %s: %v", after, err)
			case message.CaughtUp:
				return positions, events
			case message.Event != nil:
				events++
			case !after.Before(message.Position):
				t.Errorf("a checkpoint at %s came after %s", message.Position, after)
			}
			after = message.Position
			positions = append(positions, after)
		}
		t.Fatal("the subscription ended")
		return nil, 0
	}
	all, total := rest(eventstore.Start)
	if total != 40 {
		t.Fatalf("%d events, want 40", total)
	}
	for _, position := range all {
		_, before := 0, 0
		for message, err := range store.All(ctx, eventstore.Start) {
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(message.Stream, "mine-") && !position.Before(message.Position) {
				before++
			}
		}
		if _, more := rest(position); before+more != 40 {
			t.Errorf("%d events up to %s and %d after it, want 40 together", before, position, more)
		}
	}
	var between eventstore.Position
	for first := range store.All(ctx, eventstore.Start) {
		between = eventstore.Position{Commit: first.Position.Commit + 1, Prepare: first.Position.Commit + 1}
		break
	}
	for _, err := range store.Subscribe(ctx, between, eventstore.Filter{}) {
		if !errors.Is(err, eventstore.ErrInvalidPosition) {
			t.Errorf("a subscription from between two events: %v", err)
		}
		break
	}
	for name, read := range map[string]iter.Seq2[esdb.Entry, error]{
		"forwards": store.All(ctx, between), "backwards": store.Backwards(ctx, between),
	} {
		for _, err := range read {
			if !errors.Is(err, eventstore.ErrInvalidPosition) {
				t.Errorf("a read %s from between two events: %v", name, err)
			}
			break
		}
	}
}

// TestSubscribingBeyondTheEnd: nothing comes until the log has grown past the position. Later servers send nothing, and
// what earlier ones send is not after it.
func TestSubscribingBeyondTheEnd(t *testing.T) {
	t.Parallel()
	for name, strict := range map[string]*stricttest.Strict{"plain": nil, "23.10": {}, "25.0": {Later: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			store, stream := nodetest.StartStrict(t, strict, slog.New(slog.DiscardHandler)), "thing-"+uuid.NewString()
			add := func(revision eventstore.Revision) eventstore.Position {
				event := eventstore.Proposed{ID: uuid.New(), Type: "thing.happened.v1", Data: []byte(`{}`)}
				appended, err := store.Append(ctx, stream, revision-1, []eventstore.Proposed{event})
				if err != nil {
					t.Fatal(err)
				}
				return appended.Position
			}
			beyond := add(0)
			beyond.Commit, beyond.Prepare = beyond.Commit+1000, beyond.Prepare+1000
			first := eventstore.Revision(1)
			for message, err := range store.Subscribe(ctx, beyond, eventstore.Categories("thing")) {
				switch {
				case err != nil:
					t.Fatal(err)
				case message.CaughtUp && first == 1:
					for revision, more := eventstore.Revision(1), true; more; revision++ {
						if more = !beyond.Before(add(revision)); more {
							first = revision + 1
						}
					}
				case message.Event != nil:
					if message.Event.Revision != first {
						t.Errorf("revision %d came first, want %d", message.Event.Revision, first)
					}
					return
				}
			}
		})
	}
}
