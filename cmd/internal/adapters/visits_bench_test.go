package adapters_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/source"
	"carillon/command"
	"carillon/command/collect"
	"carillon/eventstore"
	"carillon/projections/sources"
)

// BenchmarkVisitOfAnOldSource visits a source that has 10,000 walks behind it: it takes the turn, records that a walk
// that was asked for begins, walks one page, and records the end. The page has not changed.
func BenchmarkVisitOfAnOldSource(b *testing.B) {
	p := &place{}
	p.show("jazz")
	w := open(b, nil)
	w.stop()
	id := w.source(command.RegisterSource{Type: "facebook", Handle: "old"})
	for first := 1; first <= 10_000; first += 500 {
		var old []eventstore.Proposed
		for number := first; number < first+500; number++ {
			for _, event := range []source.Event{source.CollectionStarted{Number: number}, source.CollectionCompleted{
				Number:          number,
				IntervalSeconds: 900,
			}} {
				name, data, err := source.Events.Encode(event)
				if err != nil {
					b.Fatal(err)
				}
				old = append(old, eventstore.Proposed{ID: uuid.New(), Type: name, Data: data})
			}
		}
		appended, err := w.store.Append(b.Context(), source.Aggregate.Stream(id), eventstore.Revision(2*(first-1)),
			old) //nolint:gosec // small
		w.await(appended.Position, err, sources.ReadModel.Name)
	}
	w.monitor(w.store, map[string]collect.Collector{"facebook": p})
	var took []time.Duration
	for b.Loop() {
		w.collect(id)
		var visit time.Duration
		w.eventually("the walk is over", func() bool {
			return w.pool.QueryRow(b.Context(), `SELECT w.completed_at - w.attempted_at FROM carillon.source_walks w
				JOIN sources.sources s ON s.id = w.source_id
				WHERE s.id = $1 AND w.holder IS NULL AND NOT w.walking AND s.wanted_at IS NULL
				AND s.state = 'ok'`, id).Scan(&visit) == nil
		})
		took = append(took, visit)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/visit")
}
