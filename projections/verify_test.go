package projections_test

import (
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
	"carillon/projections"
)

// verifier is a runner beside the one that projects, as in another process.
func (w *world) verifier() *projections.Runner {
	return w.runner(w.store, projections.NewProgress(w.pool))
}

func (w *world) verify(r *projections.Runner, sample float64) projections.Verification {
	w.Helper()
	v, err := r.Verify(w.ctx, tally, sample, nil)
	if err != nil {
		w.Fatal(err)
	}
	return v
}

// Streams grow while rows are compared: no moment of it looks like a difference.
func TestVerifyWhileEventsAreAppended(t *testing.T) {
	w := newWorld(t)
	progress, _ := w.project(tally)
	streams := make([]string, 20)
	for i := range streams {
		streams[i] = eventstore.StreamName("thing", uuid.New())
		w.await(progress, w.append(streams[i], eventstore.NoStream, "thing.happened.v1"), tally.Name)
	}
	growth, grown := make(chan struct{}, 500), sync.WaitGroup{}
	grown.Go(func() {
		revision := 0
		for range growth {
			for _, stream := range streams {
				w.append(stream, eventstore.Revision(revision), "thing.happened.v1")
			}
			revision++
		}
	})
	runner := w.verifier()
	for range 10 {
		for range 5 {
			growth <- struct{}{}
		}
		if v := w.verify(runner, 100); v.Rows != 20 || v.Differing != 0 || v.Differences != nil {
			t.Errorf("verification: %+v", v)
		}
	}
	close(growth)
	grown.Wait()
}

func TestVerifyNamesRowsThatDiffer(t *testing.T) {
	w := newWorld(t)
	progress, _ := w.project(tally)
	for i := range 5 {
		at := w.append("thing-00000000-0000-0000-0000-00000000000"+strconv.Itoa(i), eventstore.NoStream, "thing.happened.v1")
		w.await(progress, at, tally.Name)
	}
	if _, err := w.pool.Exec(w.ctx, `UPDATE tally.counts SET n = 7 WHERE stream LIKE '%1';
		DELETE FROM tally.counts WHERE stream LIKE '%2';
		INSERT INTO tally.counts VALUES ('thing-x', 1)`); err != nil {
		t.Fatal(err)
	}
	runner := w.verifier()
	want := []projections.Difference{
		{
			Table:   "counts",
			Key:     map[string]string{"stream": "thing-00000000-0000-0000-0000-000000000001"},
			Kind:    projections.RowChanged,
			Columns: []string{"n"},

			Expected: []*string{new("1")},
			Found:    []*string{new("7")},
		},
		{
			Table: "counts",
			Key:   map[string]string{"stream": "thing-00000000-0000-0000-0000-000000000002"},
			Kind:  projections.RowMissing,
		},
		{
			Table: "counts",
			Key:   map[string]string{"stream": "thing-x"},
			Kind:  projections.RowAdded,
		},
	}
	v := w.verify(runner, 100)
	if diff := cmp.Diff(want, v.Differences); diff != "" || v.Rows != 5 || v.Differing != 3 {
		t.Errorf("%+v\n%s", v, diff)
	}
	status := func() *projections.Verification {
		statuses, err := projections.Statuses(w.ctx, w.pool)
		if err != nil || len(statuses) != 1 {
			t.Fatal(statuses, err)
		}
		return statuses[0].Verified
	}
	if stored := status(); stored == nil || stored.Differing != 3 || stored.At.IsZero() ||
		!cmp.Equal(want, stored.Differences) {
		t.Errorf("stored: %+v", stored)
	}
	if sampled := w.verify(runner, 0); sampled.Rows+sampled.Differing != 0 {
		t.Errorf("a sample of nothing: %+v", sampled)
	}
	if stored := status(); stored.Differing != 3 {
		t.Errorf("a sample that found nothing replaced what was found: %+v", stored)
	}
	if err := runner.Rebuild(w.ctx, tally, nil); err != nil {
		t.Fatal(err)
	}
	if stored := status(); stored != nil {
		t.Errorf("after a rebuild: %+v", stored)
	}
	if v := w.verify(runner, 100); v.Rows != 5 || v.Differing != 0 {
		t.Errorf("after a rebuild: %+v", v)
	}
	rows, _ := w.pool.Query(w.ctx, "SELECT nspname::text FROM pg_namespace WHERE nspname LIKE 'tally\\_\\_%'")
	if left, err := pgx.CollectRows(rows, pgx.RowTo[string]); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
}
