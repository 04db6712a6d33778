package projections_test

import (
	"context"
	"os"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"carillon/eventstore"
	"carillon/projections"
)

// remembering is a process manager that keeps what it is given.
type remembering struct {
	eventstore.ProcessState

	rows *eventstore.SavedTable[rowName, string]
	name string
	seen chan eventstore.Position
}

type rowName string

func (n rowName) String() string { return string(n) }

func newRemembering(name string, seen chan eventstore.Position) *remembering {
	r := &remembering{name: name, seen: seen}
	r.rows = eventstore.NewSavedTable[rowName, string](&r.ProcessState, "thing", func(s string) (rowName, error) { return rowName(s), nil })
	return r
}

func (r *remembering) Name() string            { return r.name }
func (*remembering) Version() int              { return 1 }
func (*remembering) Filter() eventstore.Filter { return eventstore.Categories("thing") }

func (r *remembering) React(_ context.Context, batch []eventstore.Recorded) error {
	for i := range batch {
		value := batch[i].Type
		r.rows.Set(rowName(batch[i].Stream), &value)
		r.seen <- batch[i].Position
	}
	return nil
}

// The database is one of the version that knew three process managers by other names: they go on behind the last event
// that they took in, with what they had saved.
func TestRenamedProcessManagersGoOnWhereTheyWere(t *testing.T) {
	names := map[string]string{"steward": "deletion_cascade", "curator": "feed_curation", "health_watch": "destination_health"}
	w := newWorld(t)
	old := map[string]eventstore.Position{}
	for before := range names {
		seen := make(chan eventstore.Position, 10)
		old[before] = w.append("thing-"+before, eventstore.NoStream, "thing.happened.v1")
		progress, stop := w.run(func(ctx context.Context, r *projections.Runner) error {
			return r.React(ctx, func() eventstore.ProcessManager { return newRemembering(before, seen) })
		})
		w.await(progress, old[before], before)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	w.downTo(2)
	for range 2 { // a second process comes along
		if err := projections.Migrate(w.ctx, w.pool); err != nil {
			t.Fatal(err)
		}
	}
	for before, after := range names {
		seen := make(chan eventstore.Position, 10)
		var restored *remembering
		next := w.append("thing-after-"+before, eventstore.NoStream, "thing.happened.v1")
		progress, stop := w.run(func(ctx context.Context, r *projections.Runner) error {
			return r.React(ctx, func() eventstore.ProcessManager {
				restored = newRemembering(after, seen)
				return restored
			})
		})
		w.await(progress, next, after)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		if restored.rows.Get(rowName("thing-"+before)) == nil {
			t.Errorf("%s lost what %s had saved", after, before)
		}
		if first := <-seen; !old[before].Before(first) {
			t.Errorf("%s began at %s again, %s had come to %s", after, first, before, old[before])
		}
	}
	statuses, err := projections.Statuses(w.ctx, w.pool)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, s := range statuses {
		shown = append(shown, s.Name)
	}
	if want := []string{"deletion_cascade", "destination_health", "feed_curation"}; !slices.Equal(shown, want) {
		t.Errorf("status shows %v, want %v", shown, want)
	}
}

// downTo makes the database one of an older version.
func (w *world) downTo(version int64) {
	w.Helper()
	db := stdlib.OpenDBFromPool(w.pool)
	defer func() { _ = db.Close() }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations"), goose.WithTableName("carillon.migrations"))
	if err != nil {
		w.Fatal(err)
	}
	if _, err := provider.DownTo(w.ctx, version); err != nil {
		w.Fatal(err)
	}
}
