package adapters_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/source"
	"carillon/command"
	"carillon/command/collect"
	"carillon/command/visiting"
	"carillon/eventstore"
	"carillon/projections/sources"
)

// readCounter counts the reads of sources' streams.
type readCounter struct {
	eventstore.Store

	reads atomic.Int64
}

func (c *readCounter) Read(
	ctx context.Context, stream string, from eventstore.Revision,
) iter.Seq2[eventstore.Recorded, error] {
	if strings.HasPrefix(stream, "source-") {
		c.reads.Add(1)
	}
	return c.Store.Read(ctx, stream, from)
}

// However many walks lie behind a source, a visit reads none of them, be there news or not, and one without news adds
// nothing.
func TestVisitDoesNotReadEarlierOnes(t *testing.T) {
	t.Parallel()
	l := &leaflets{}
	l.set("a", concert("jazz"))
	w, id := l.open(t)
	w.stop()
	var old []eventstore.Proposed
	for number := 1; number <= 500; number++ {
		for _, event := range []source.Event{source.CollectionStarted{Number: number}, source.CollectionCompleted{
			Number:          number,
			IntervalSeconds: 900,
		}} {
			name, data, err := source.Events.Encode(event)
			if err != nil {
				t.Fatal(err)
			}
			old = append(old, eventstore.Proposed{ID: uuid.New(), Type: name, Data: data})
		}
	}
	appended, err := w.store.Append(t.Context(), source.Aggregate.Stream(id), 0, old)
	w.await(appended.Position, err, sources.ReadModel.Name)

	counter := &readCounter{Store: w.store}
	w.monitor(counter, map[string]collect.Collector{"facebook": l})
	revision := func() eventstore.Revision {
		loaded, err := source.Aggregate.Load(t.Context(), w.store, id)
		if err != nil {
			t.Fatal(err)
		}
		return loaded.Revision
	}
	w.attach(w.feed(), id, "facebook")
	w.eventually("the first walk has ended", func() bool {
		return len(w.recorded("source.collection-completed.v1")) == 501
	})
	w.await(w.recorded("source.collection-completed.v1")[500].Position, nil, sources.ReadModel.Name)
	asked := revision()
	for round := range 3 {
		w.routine(id)
		if got := revision(); got != asked {
			t.Errorf("walk %d without news takes the stream from %d to %d", round, asked, got)
		}
	}
	l.set("a", concert("quiz"))
	w.routine(id)
	if got := revision(); got != asked+1 {
		t.Errorf("a walk with news takes the stream from %d to %d, want one event", asked, got)
	}
	if reads := counter.reads.Load(); reads != 0 {
		t.Errorf("the visits read the source %d times", reads)
	}
}

// routine has the next walk of an attached source due, and waits until it has ended.
func (w *world) routine(id uuid.UUID) {
	w.t.Helper()
	var number int
	w.eventually("no visit is in progress", func() bool {
		err := w.pool.QueryRow(w.t.Context(), `UPDATE carillon.source_walks SET next_at = clock_timestamp()
			WHERE source_id = $1 AND NOT walking AND holder IS NULL RETURNING number`, id).Scan(&number)
		return err == nil
	})
	w.eventually("a walk has ended", func() bool {
		var ended bool
		err := w.pool.QueryRow(w.t.Context(),
			"SELECT number > $2 AND NOT walking AND holder IS NULL FROM carillon.source_walks WHERE source_id = $1", id, number).
			Scan(&ended)
		return err == nil && ended
	})
}

// A source of many pages gives way to others of its host, and goes on at its next turn.
func TestLongWalkGivesWay(t *testing.T) {
	t.Parallel()
	long, short := &leaflets{}, &leaflets{}
	for i := range 20 {
		long.set(fmt.Sprint(i), concert(fmt.Sprint(i)))
	}
	short.set("a", concert("jazz"))
	w := open(t, nil)
	w.stop()
	large := w.source(command.RegisterSource{Type: "site", URL: "https://example.org/large"})
	small := w.source(command.RegisterSource{Type: "sitemap", URL: "https://example.org/small"})
	w.collect(large)
	w.collect(small)
	w.monitor(w.store, map[string]collect.Collector{"site": long, "sitemap": short}, func(m *visiting.Monitor) {
		m.Pages = 3
	})
	w.eventually("both walks have ended", func() bool { return len(w.recorded("source.collection-completed.v1")) == 2 })
	ended := w.recorded("source.collection-completed.v1")
	if ended[0].Stream != source.Aggregate.Stream(small) || ended[1].Stream != source.Aggregate.Stream(large) {
		t.Errorf("the walks ended in the order %s, %s; want the small one first", ended[0].Stream, ended[1].Stream)
	}
	long.mu.Lock()
	defer long.mu.Unlock()
	if len(long.asked) != 21 {
		t.Errorf("asked for %v, want each page once", long.asked)
	}
}
