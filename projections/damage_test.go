package projections_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
)

// carrying is a tally with a mark on each row that no event says.
var carrying = projections.ReadModel{
	Name:    tally.Name,
	Version: 1,
	Filter:  tally.Filter,
	Project: count,
	Schema: "CREATE TABLE counts (stream text PRIMARY KEY, n integer NOT NULL, mark text);\nCREATE TABLE others (id " +
		"uuid);",
	CarryOver: func(ctx context.Context, tx pgx.Tx, from string) error {
		_, err := tx.Exec(ctx, "UPDATE counts SET mark = o.mark FROM "+from+".counts o WHERE o.stream = counts.stream")
		return err
	},
}

// damages are what may happen to tables. Each loses the marks, or not.
var damages = map[string]struct {
	sql   string
	marks bool
}{
	"table":       {sql: "DROP TABLE tally.counts"},
	"other table": {sql: "DROP TABLE tally.others", marks: true},
	"schema":      {sql: "DROP SCHEMA tally CASCADE"},
	"column":      {sql: "ALTER TABLE tally.counts DROP mark"},
}

func (w *world) exec(sql string) {
	w.Helper()
	must.Get(w.pool.Exec(w.ctx, sql))(w)
}

// marked counts the rows that have their mark; -1: the table is away.
func (w *world) marked() (n int) {
	if err := w.pool.QueryRow(w.ctx, "SELECT count(mark) FROM tally.counts").Scan(&n); err != nil {
		return -1
	}
	return n
}

// A read model that is damaged can be rebuilt. Data that can't be carried over is left out, and named.
func TestRebuildOfDamagedReadModel(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			progress, stream, stop := w.begun(carrying)
			must.OK(t, stop())
			w.exec("UPDATE tally.counts SET mark = 'x'")
			w.exec(damage.sql)
			runner := w.runner(w.store, progress)
			err := runner.Rebuild(w.ctx, carrying, nil)
			if leftOut, ok := errors.AsType[*projections.LeftOutError](err); ok == damage.marks || err != nil && !ok {
				t.Fatalf("rebuild: %v (left out: %v)", err, leftOut)
			}
			got, marked := w.count(stream), w.marked()
			assert.True(t, got == 1 && (marked == 1) == damage.marks, "count = %d, %d marked", got, marked)
			must.OK(t, runner.Rebuild(w.ctx, carrying, nil))
		})
	}
}

// A read model that is damaged comes back by itself: at the start, and while it runs as soon as it is written.
func TestDamagedReadModelComesBack(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		if name == "column" {
			continue // nothing writes it
		}
		for when, running := range map[string]bool{"at the start": false, "while it runs": true} {
			if running && damage.marks {
				continue // nothing writes it
			}
			t.Run(name+" "+when, func(t *testing.T) {
				w := newWorld(t)
				progress, stream, stop := w.begun(carrying)
				want := 1
				if running {
					w.exec(damage.sql)
					w.await(progress, w.append(stream, 0, "thing.happened.v1"), tally.Name)
					want = 2
				} else {
					must.OK(t, stop())
					w.exec(damage.sql)
					w.project(carrying)
				}
				must.Eventually(t, "it is back", func() bool { return w.marked() >= 0 && w.count(stream) == want })
			})
		}
	}
}

// A process manager whose state was dropped begins from nothing.
func TestProcessManagerWithoutItsTable(t *testing.T) {
	w := newWorld(t)
	seen := make(chan eventstore.Recorded, 1000)
	progress, stop := w.remembers(seen)
	at := w.happens()
	w.await(progress, at, rememberingName)
	must.OK(t, stop())
	w.exec("DROP TABLE " + rememberingName + ".state")
	for len(seen) > 0 {
		<-seen
	}
	w.remembers(seen)
	select {
	case again := <-seen:
		assert.Equal(t, again.Position, at, "it saw … first")
	case <-w.ctx.Done():
		t.Fatal("it stays away")
	}
}

// verifier is a runner beside the one that projects, as in another process.
func (w *world) verifier() *projections.Runner {
	return w.runner(w.store, projections.NewProgress(w.pool))
}

func (w *world) verify(r *projections.Runner, sample float64) projections.Verification {
	w.Helper()
	v := must.Get(r.Verify(w.ctx, tally, sample, nil))(w)
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
	verified, grown := make(chan struct{}), sync.WaitGroup{}
	grown.Go(func() {
		for revision := range 50 { // or fewer on a slow disk
			for _, stream := range streams {
				w.append(stream, eventstore.Revision(revision), "thing.happened.v1")
			}
			select {
			case <-verified:
				return
			default:
			}
		}
	})
	runner := w.verifier()
	for range 5 {
		v := w.verify(runner, 100)
		assert.True(t, v.Rows == 20 && v.Differing == 0 && v.Differences == nil, "verification: %+v", v)
	}
	close(verified)
	grown.Wait()
}

func TestVerifyNamesRowsThatDiffer(t *testing.T) {
	w := newWorld(t)
	progress, _ := w.project(tally)
	for i := range 5 {
		at := w.append("thing-00000000-0000-0000-0000-00000000000"+strconv.Itoa(i), eventstore.NoStream, "thing.happened.v1")
		w.await(progress, at, tally.Name)
	}
	must.Get(w.pool.Exec(w.ctx, `UPDATE tally.counts SET n = 7 WHERE stream LIKE '%1';
		DELETE FROM tally.counts WHERE stream LIKE '%2';
		INSERT INTO tally.counts VALUES ('thing-x', 1)`))(t)
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
		must.True(t, err == nil && len(statuses) == 1, "%v %v", statuses, err)
		return statuses[0].Verified
	}
	if stored := status(); stored == nil || stored.Differing != 3 || stored.At.IsZero() ||
		!cmp.Equal(want, stored.Differences) {
		t.Errorf("stored: %+v", stored)
	}
	if sampled := w.verify(runner, 0); sampled.Rows+sampled.Differing != 0 {
		t.Errorf("a sample of nothing: %+v", sampled)
	}
	assert.Equal(t, status().Differing, 3, "a sample that found nothing replaced what was found")
	must.OK(t, runner.Rebuild(w.ctx, tally, nil))
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
