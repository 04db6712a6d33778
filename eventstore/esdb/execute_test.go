package esdb_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
)

// counter is the smallest aggregate: it counts up, to a limit.
type (
	counted struct {
		By int `json:"by"`
	}
	count struct{ By, Limit int }
)

var errLimit = errors.New("limit reached")

var counter = eventstore.Aggregate[int, counted, count]{
	Category: "counter",
	Codec:    eventstore.NewCodec(eventstore.Case[counted, counted]("counter.counted.v1")),
	Evolve:   func(sum int, e counted) int { return sum + e.By },
	Decide: func(sum int, c count) ([]counted, error) {
		if sum+c.By > c.Limit {
			return nil, errLimit
		}
		return []counted{{By: c.By}}, nil
	},
}

func fresh() eventstore.Context {
	return eventstore.NewContext(eventstore.Metadata{Actor: "test", Organization: uuid.New()})
}

func TestConflictsAreDecidedAgain(t *testing.T) {
	t.Parallel()
	store, id := nodetest.Start(t), uuid.New()
	var group sync.WaitGroup
	var refused atomic.Int64
	for range 6 {
		group.Go(func() {
			for range 3 {
				_, err := eventstore.Execute(t.Context(), store, counter, id, count{By: 1, Limit: 10}, fresh())
				if errors.Is(err, errLimit) {
					refused.Add(1)
				} else if err != nil {
					t.Errorf("execute: %v", err)
				}
			}
		})
	}
	group.Wait()
	loaded, err := eventstore.Load(t.Context(), store, counter, id)
	if err != nil || loaded.State != 10 || loaded.Revision != 9 || refused.Load() != 8 {
		t.Errorf("state %+v, %d refused, %v; want 10 counted and 8 refused", loaded, refused.Load(), err)
	}
}

func TestAKnownStateThatIsOldCostsARead(t *testing.T) {
	t.Parallel()
	store, id := nodetest.Start(t), uuid.New()
	if _, err := eventstore.Execute(t.Context(), store, counter, id, count{By: 9, Limit: 10}, fresh()); err != nil {
		t.Fatal(err)
	}
	old := eventstore.Loaded[int]{Revision: eventstore.NoStream}
	if _, err := eventstore.ExecuteAt(t.Context(), store, counter, id, &old, count{By: 9, Limit: 10}, fresh()); !errors.Is(err, errLimit) {
		t.Errorf("error = %v: the decision was made on the old state", err)
	}
}

// deaf loses the answer of the first append that gets through.
type deaf struct {
	eventstore.Store
	lost atomic.Bool
}

func (d *deaf) Append(ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed) (eventstore.Appended, error) {
	appended, err := d.Store.Append(ctx, stream, expected, events)
	if err == nil && d.lost.CompareAndSwap(false, true) {
		return eventstore.Appended{}, fmt.Errorf("%w: the answer was lost", eventstore.ErrUnavailable)
	}
	return appended, err
}

func TestALostAnswerIsNotDoneTwice(t *testing.T) {
	t.Parallel()
	store, id := &deaf{Store: nodetest.Start(t)}, uuid.New()
	out, err := eventstore.Execute(t.Context(), store, counter, id, count{By: 1, Limit: 10}, fresh())
	if err != nil || out.State != 1 {
		t.Errorf("outcome %+v, %v; want 1", out, err)
	}
}

func TestMetadataIsStored(t *testing.T) {
	t.Parallel()
	store, id := nodetest.Start(t), uuid.New()
	by := fresh()
	by.Metadata.Reason = "because"
	if _, err := eventstore.Execute(t.Context(), store, counter, id, count{By: 1, Limit: 1}, by); err != nil {
		t.Fatal(err)
	}
	for recorded, err := range store.Read(t.Context(), counter.Stream(id), 0) {
		if err != nil {
			t.Fatal(err)
		}
		got, err := eventstore.ParseMetadata(recorded.Metadata)
		want := by.Metadata
		want.SchemaVersion = eventstore.SchemaVersion
		if err != nil || got != want {
			t.Errorf("metadata = %+v, %v, want %+v", got, err, want)
		}
		if recorded.Category() != "counter" || recorded.StreamID() != id {
			t.Errorf("stream %s is not of counter %s", recorded.Stream, id)
		}
	}
}

func TestAnUnknownEventIsUndecodable(t *testing.T) {
	t.Parallel()
	store := nodetest.Start(t)
	for _, alien := range []eventstore.Proposed{
		{ID: uuid.New(), Type: "counter.exploded.v1", Data: []byte(`{}`)},
		{ID: uuid.New(), Type: "counter.counted.v1", Data: []byte(`{"by":"one"}`)},
	} {
		id := uuid.New()
		if _, err := store.Append(t.Context(), counter.Stream(id), eventstore.NoStream, []eventstore.Proposed{alien}); err != nil {
			t.Fatal(err)
		}
		if _, err := eventstore.Load(t.Context(), store, counter, id); !errors.Is(err, eventstore.ErrUndecodable) {
			t.Errorf("error = %v, want undecodable", err)
		}
	}
}

func TestFollowSurvivesARestartOfTheStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	socket := newRestartable(t, dir)
	store, err := esdb.OpenUnix(socket.path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	next, stop := iter.Pull(eventstore.Follow(ctx, store, eventstore.Start, eventstore.Categories("counter"), slog.New(slog.DiscardHandler)))
	defer stop()
	id := uuid.New()
	want := eventstore.Revision(0)
	for round := range 3 {
		if round > 0 {
			socket.restart()
		}
		for range 5 {
			if _, err := eventstore.Execute(ctx, store, counter, id, count{By: 1, Limit: 100}, fresh()); err != nil {
				t.Fatal(err)
			}
		}
		for seen := 0; seen < 5; {
			message, ok := next()
			if !ok {
				t.Fatal("the subscription ended")
			}
			if message.Event == nil {
				continue
			}
			if message.Event.Revision != want {
				t.Fatalf("revision %d, want %d", message.Event.Revision, want)
			}
			want++
			seen++
		}
	}
}

// restartable is a node that goes away and comes back on the same socket with the same data.
type restartable struct {
	t    *testing.T
	dir  string
	path string
	stop func()
}

func newRestartable(t *testing.T, dir string) *restartable {
	t.Helper()
	r := &restartable{t: t, dir: dir, path: filepath.Join(nodetest.SocketDir(t), "s")}
	r.stop = nodetest.Serve(t, dir, r.path)
	t.Cleanup(func() { r.stop() })
	return r
}

func (r *restartable) restart() {
	r.stop()
	r.stop = nodetest.Serve(r.t, r.dir, r.path)
}
