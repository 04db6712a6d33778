package projections_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
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
	if _, err := w.pool.Exec(w.ctx, sql); err != nil {
		w.Fatal(err)
	}
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
			progress, stop := w.project(carrying)
			stream := eventstore.StreamName("thing", uuid.New())
			w.await(progress, w.append(stream, eventstore.NoStream, "thing.happened.v1"), tally.Name)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			w.exec("UPDATE tally.counts SET mark = 'x'")
			w.exec(damage.sql)
			runner := w.runner(w.store, progress)
			err := runner.Rebuild(w.ctx, carrying, nil)
			if leftOut, ok := errors.AsType[*projections.LeftOutError](err); ok == damage.marks || err != nil && !ok {
				t.Fatalf("rebuild: %v (left out: %v)", err, leftOut)
			}
			if got, marked := w.count(stream), w.marked(); got != 1 || (marked == 1) != damage.marks {
				t.Errorf("count = %d, %d marked", got, marked)
			}
			if err := runner.Rebuild(w.ctx, carrying, nil); err != nil {
				t.Errorf("rebuilt again: %v", err)
			}
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
				progress, stop := w.project(carrying)
				stream := eventstore.StreamName("thing", uuid.New())
				w.await(progress, w.append(stream, eventstore.NoStream, "thing.happened.v1"), tally.Name)
				want := 1
				if running {
					w.exec(damage.sql)
					w.await(progress, w.append(stream, 0, "thing.happened.v1"), tally.Name)
					want = 2
				} else {
					if err := stop(); err != nil {
						t.Fatal(err)
					}
					w.exec(damage.sql)
					w.project(carrying)
				}
				for w.marked() < 0 || w.count(stream) != want {
					select {
					case <-w.ctx.Done():
						t.Fatal("it stays away")
					case <-time.After(10 * time.Millisecond):
					}
				}
			})
		}
	}
}

// A process manager whose state was dropped begins from nothing.
func TestProcessManagerWithoutItsTable(t *testing.T) {
	w := newWorld(t)
	seen := make(chan eventstore.Position, 1000)
	react := func() (*projections.Progress, func() error) {
		return w.run(func(ctx context.Context, r *projections.Runner) error {
			return r.React(ctx, func(*projections.Tables) eventstore.ProcessManager {
				return newRemembering(rememberingName, seen)
			})
		})
	}
	progress, stop := react()
	at := w.append(eventstore.StreamName("thing", uuid.New()), eventstore.NoStream, "thing.happened.v1")
	w.await(progress, at, rememberingName)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	w.exec("DROP TABLE " + rememberingName + ".state")
	for len(seen) > 0 {
		<-seen
	}
	react()
	select {
	case again := <-seen:
		if again != at {
			t.Errorf("it saw %s first, want %s", again, at)
		}
	case <-w.ctx.Done():
		t.Fatal("it stays away")
	}
}
