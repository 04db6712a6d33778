package copying_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node/stricttest"
)

// spread stores one event after the other in streams that take turns.
func (w *world) spread(events, streams int) {
	w.Helper()
	if err := w.source.Patient(time.Minute).AppendInOrder(w.ctx, 0, func(yield func(*esdb.Ordered) bool) {
		for i := range events {
			stream, expected := fmt.Sprintf("thing-%d", i%streams), eventstore.Revision(i/streams-1)
			if !yield(&esdb.Ordered{Stream: stream, Expected: expected, Entries: entries(1)}) {
				return
			}
		}
	}); err != nil {
		w.Fatal(err)
	}
}

func (w *world) order(store *esdb.Store) (ids []uuid.UUID) {
	w.Helper()
	for entry, err := range store.All(w.ctx, eventstore.Start) {
		if err != nil {
			w.Fatal(err)
		}
		if entry.Stream[0] != '$' && entry.Type != eventstore.Filler {
			ids = append(ids, entry.ID)
		}
	}
	return ids
}

// A cluster that elects a leader in the middle of a copy, on either side and in any phase, is waited for.
func TestAnElectionIsOutlasted(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{copying.PhaseCopy, copying.PhaseCompare, copying.PhaseDescribe} {
		for _, side := range []string{"source", "target", "target loses answers"} {
			t.Run(phase+" "+side, func(t *testing.T) {
				source, target := &stricttest.Strict{}, &stricttest.Strict{}
				w := newWorldOf(t, source, target)
				w.spread(3000, 100)
				for i := range 20 {
					w.describe(fmt.Sprintf("thing-%d", i), eventstore.NoStream, softDeleted)
				}
				w.scavenge(w.node)
				var trouble sync.Once
				w.copy(copying.Options{Report: func(p copying.Progress) {
					if p.Phase != phase || p.Events == 0 {
						return
					}
					trouble.Do(func() {
						switch side {
						case "source":
							source.LoseLeader(3 * time.Second)
						case "target":
							target.LoseLeader(3 * time.Second)
						default:
							target.LoseAnswers(5)
						}
					})
				}})
				if !slices.Equal(w.order(w.source), w.order(w.target)) {
					w.Error("the order differs")
				}
			})
		}
	}
}

// A store that stays away is an error, after which the same copy goes on.
func TestAnOutageThatLastsIsAnError(t *testing.T) {
	target := &stricttest.Strict{}
	w := newWorldOf(t, nil, target)
	w.spread(3000, 100)
	result, err := copying.Copy(w.ctx, w.source, w.target, copying.Options{
		Patience: time.Second,
		Report: func(p copying.Progress) {
			if p.Events > 0 {
				target.LoseLeader(time.Hour)
			}
		},
	})
	if !errors.Is(err, eventstore.ErrUnavailable) || result.Copied == 0 || result.Copied == 3000 {
		t.Fatalf("%v after %+v", err, result)
	}
	target.LoseLeader(0)
	if again := w.copy(copying.Options{}); !again.Resumed || again.Copied == 0 || again.Compared != 3000 {
		t.Errorf("%+v after %+v", again, result)
	}
}

// Wherever a copy of a scavenged store is cut off, the next run goes on from there.
func TestCopy_resumesAnywhere(t *testing.T) {
	t.Parallel()
	between(t, func(w *world, _ string) {
		w.spread(800, 50)
		for i := range 50 {
			metadata := []string{softDeleted, `{"$maxCount":2}`, `{"$tb":7}`}[i%3]
			if i%7 > 0 {
				w.describe(fmt.Sprintf("thing-%d", i), eventstore.NoStream, metadata)
			}
		}
		w.scavenge(w.node)
		var result copying.Result
		err := context.DeadlineExceeded
		for within := 4 * time.Millisecond; err != nil; within += within / 4 {
			ctx, cancel := context.WithTimeout(w.ctx, within)
			result, err = copying.Copy(ctx, w.source, w.target, copying.Options{Window: 16})
			cancel()
			if err != nil && !errors.Is(err, eventstore.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
				w.Fatal(err)
			}
		}
		if result.Compared == 0 || !slices.Equal(w.order(w.source), w.order(w.target)) {
			w.Errorf("%+v, or the order differs", result)
		}
		for i := range 50 {
			w.sameStream(fmt.Sprintf("thing-%d", i))
		}
		if again := w.copy(copying.Options{}); again.Copied+again.Filled+again.Metadata != 0 {
			w.Errorf("a second run: %+v", again)
		}
	})
}

// TestRevivedStreamIsCopiedOnce: answers are lost while a stream that was deleted, in the copy too, is written to
// again. A real server would not recognize what is sent again without a revision, nor write an event that was deleted.
func TestRevivedStreamIsCopiedOnce(t *testing.T) {
	target := &stricttest.Strict{}
	w := newWorldOf(t, &stricttest.Strict{}, target)
	w.put(w.source, "thing-1", eventstore.NoStream, entries(5))
	w.describe("thing-1", eventstore.NoStream, softDeleted)
	w.copy(copying.Options{})
	w.put(w.source, "thing-1", eventstore.NoStream, entries(2))
	target.LoseAnswers(3)
	w.copy(copying.Options{})
	if got := w.sameStream("thing-1"); got != 2 {
		t.Errorf("%d events can be read, want 2", got)
	}
	if last, err := w.target.LastRevision(w.ctx, "thing-1"); err != nil || last != 6 {
		t.Errorf("the last revision is %d, %v, want 6", last, err)
	}
	if again := w.copy(copying.Options{}); again.Copied+again.Filled+again.Metadata != 0 {
		t.Errorf("a second run: %+v", again)
	}
}
