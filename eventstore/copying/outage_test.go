package copying_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// spread stores one event after the other in streams that take turns.
func (w *world) spread(events, streams int) {
	w.Helper()
	must.OK(w, w.source.Patient(time.Minute).AppendInOrder(w.ctx, 0, func(yield func(*esdb.Ordered) bool) {
		for i := range events {
			stream, expected := fmt.Sprintf("thing-%d", i%streams), eventstore.Revision(i/streams-1)
			if !yield(&esdb.Ordered{Stream: stream, Expected: expected, Entries: entries(1)}) {
				return
			}
		}
	}))
}

func (w *world) order(store *esdb.Store) (ids []uuid.UUID) {
	w.Helper()
	for entry, err := range store.All(w.ctx, eventstore.Start) {
		must.OK(w, err)
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
	must.True(t, errors.Is(err, eventstore.ErrUnavailable) && result.Copied != 0 && result.Copied != 3000,
		"%v after %+v", err, result)
	target.LoseLeader(0)
	again := w.copy(copying.Options{})
	assert.True(t, again.Resumed && again.Copied != 0 && again.Compared == 3000, "%+v after %+v", again, result)
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
	assert.Equal(t, w.sameStream("thing-1"), 2, "events can be read")
	assert.Equal(t, must.Get(w.target.LastRevision(w.ctx, "thing-1"))(t), 6, "the last revision")
	if again := w.copy(copying.Options{}); again.Copied+again.Filled+again.Metadata != 0 {
		t.Errorf("a second run: %+v", again)
	}
}

// traveller writes to a store and subscribes to it, and goes on in its copy: to the whole log after the last event that
// it took, to each stream after the last revision.
type traveller struct {
	*world

	names   []string
	written map[string]eventstore.Revision // the last revision of each stream
	taken   map[string]eventstore.Revision // the last one that its subscriber took
	due     map[string][]uuid.UUID         // events it has not taken
	news    []uuid.UUID                    // events that the subscriber to the log has not taken
	last    eventstore.Recorded            // the last event it took
}

// write appends events to the source, unseen so far, in the order of the streams.
func (v *traveller) write(streams []string) {
	v.Helper()
	if err := v.source.Patient(time.Minute).AppendInOrder(v.ctx, 0, func(yield func(*esdb.Ordered) bool) {
		for _, stream := range streams {
			list := entries(1)
			expected, known := v.written[stream]
			if !known {
				expected, v.taken[stream] = eventstore.NoStream, eventstore.NoStream
				v.names = append(v.names, stream)
			}
			if !yield(&esdb.Ordered{Stream: stream, Expected: expected, Entries: list}) {
				return
			}
			v.written[stream] = expected + 1
			v.due[stream], v.news = append(v.due[stream], list[0].ID), append(v.news, list[0].ID)
		}
	}); err != nil {
		v.Fatal(err)
	}
}

// take lets all subscribers take what they have not taken: everything of it, once, in order, and nothing else.
func (v *traveller) take() {
	v.Helper()
	after := eventstore.Start
	if v.last.Stream != "" { // place of the last event in this store
		for recorded, err := range v.source.Read(v.ctx, v.last.Stream, v.last.Revision) {
			must.True(v, err == nil && recorded.ID == v.last.ID,
				"event %d of %s is not to be found: %v", v.last.Revision, v.last.Stream, err)
			after = recorded.Position
			break
		}
	}
	var came []uuid.UUID
	for message, err := range v.source.Subscribe(v.ctx, after, eventstore.Categories("thing")) {
		must.OK(v, err)
		if message.CaughtUp {
			break
		}
		if message.Event != nil {
			came, v.last = append(came, message.Event.ID), *message.Event
		}
	}
	assert.True(v, slices.Equal(came, v.news),
		"the subscriber to the log got %d events, want %d others, or another order", len(came), len(v.news))
	v.news = nil
	for _, stream := range v.names {
		var got []uuid.UUID
		for recorded, err := range v.source.Read(v.ctx, stream, v.taken[stream]+1) {
			must.OK(v, err)
			got, v.taken[stream] = append(got, recorded.ID), recorded.Revision
		}
		if !slices.Equal(got, v.due[stream]) || v.taken[stream] != v.written[stream] {
			v.Errorf("the subscriber to %s got %d events up to revision %d, want %d up to %d", stream, len(got), v.taken[stream],
				len(v.due[stream]), v.written[stream])
		}
		delete(v.due, stream)
	}
}

// A subscriber goes on across a move of a scavenged store to its copy, and across the way back: it misses nothing and
// gets nothing twice. CARILLON_TEST_COPIED is the number of events, 1,000 if it isn't set.
func TestSubscriberContinuesAcrossMove(t *testing.T) {
	t.Parallel()
	events := 1000
	if text := os.Getenv("CARILLON_TEST_COPIED"); text != "" {
		events = must.Get(strconv.Atoi(text))(t)
	}
	between(t, func(w *world, from string) {
		v := traveller{
			world:   w,
			written: map[string]eventstore.Revision{},
			taken:   map[string]eventstore.Revision{},
			due:     map[string][]uuid.UUID{},
		}
		const perStream = 20
		streams := make([]string, events/perStream)
		for i := range streams {
			streams[i] = fmt.Sprintf("thing-%d", i)
		}
		for range perStream {
			v.write(streams)
		}
		v.write([]string{"thing-marker"})
		v.take()
		w.forget(streams)
		// Half of it is news when the store is moved. Streams that were deleted are begun again by it.
		v.write(streams[:len(streams)/2])
		w.scavenge(w.node)
		for _, way := range []string{"there", "back"} {
			before := w.copy(copying.Options{CopyOnly: true})
			v.write([]string{"thing-late"})
			result := w.copy(copying.Options{})
			w.Logf("%s: %d and %d copied, %d filled, %d compared in %d streams", way, before.Copied, result.Copied,
				before.Filled+result.Filled, result.Compared, result.Streams)
			w.onwards(kinds[from]())
			v.write(streams)
			v.take()
			w.forget(streams[:len(streams)/4])
			w.scavenge(w.node)
		}
		w.copy(copying.Options{}) // so that the last store is of use
	})
}

// forget deletes every fourth stream, and hides the old events of every second one.
func (w *world) forget(streams []string) {
	w.Helper()
	for i, stream := range streams {
		metadata := map[int]string{0: softDeleted, 1: `{"$maxCount":2}`, 3: `{"$tb":15}`}[i%4]
		if metadata == "" {
			continue
		}
		last := must.Get(w.source.LastRevision(w.ctx, "$$"+stream))(w)
		w.describe(stream, last, metadata)
	}
}
