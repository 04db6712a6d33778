package projections_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
)

// A read model's writes and reads, in any order and by any method, are one transaction: it reads its earlier writes,
// and a late failure rolls back all of them, the checkpoint too.
func TestPipeline_isOneTransaction(t *testing.T) {
	w := newWorld(t)
	var fails atomic.Bool
	fails.Store(true)
	model := tally
	model.Project = func(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
		stream := batch[0].Stream
		var written pgx.Batch
		written.Queue("INSERT INTO counts VALUES ($1, 0) ON CONFLICT DO NOTHING", stream)
		written.Queue("UPDATE counts SET n = n + $2 WHERE stream = $1", stream, len(batch))
		if err := tx.SendBatch(ctx, &written).Close(); err != nil {
			return err
		}
		var n, again, third int
		var read pgx.Batch
		read.Queue("SELECT n FROM counts WHERE stream = $1", stream).QueryRow(func(row pgx.Row) error { return row.Scan(&n) })
		if err := tx.SendBatch(ctx, &read).Close(); err != nil {
			return err
		}
		var more pgx.Batch
		more.Queue("UPDATE counts SET n = n + 100 WHERE stream = $1", stream)
		if err := tx.SendBatch(ctx, &more).Close(); err != nil {
			return err
		}
		if err := tx.QueryRow(ctx, "SELECT n FROM counts WHERE stream = $1", stream).Scan(&again); err != nil {
			return err
		}
		var results pgx.Batch
		results.Queue("SELECT n FROM counts WHERE stream = $1", stream)
		opened := tx.SendBatch(ctx, &results)
		if err := errors.Join(opened.QueryRow().Scan(&third), opened.Close()); err != nil {
			return err
		}
		if again != n+100 || third != again {
			return fmt.Errorf("read %d, then %d, then %d", n, again, third)
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{"counts"}, []string{"stream", "n"},
			pgx.CopyFromRows([][]any{{stream + "/" + uuid.NewString(), n}})); err != nil {
			return err
		}
		var late pgx.Batch
		late.Queue("UPDATE counts SET n = n - 100 WHERE stream = $1", stream)
		if fails.Swap(false) {
			late.Queue("SELECT 1 / (n - n) FROM counts WHERE stream = $1", stream)
		}
		return tx.SendBatch(ctx, &late).Close()
	}
	progress, _ := w.project(model)
	stream := eventstore.StreamName("thing", uuid.New())
	at := w.append(stream, eventstore.NoStream, "thing.happened.v1")
	w.await(progress, at, tally.Name)
	if n := w.count(stream); n != 1 || fails.Load() {
		t.Errorf("count = %d after one event, of which the first try failed", n)
	}
	var copied, events int
	err := w.pool.QueryRow(w.ctx, "SELECT (SELECT count(*) FROM tally.counts WHERE stream LIKE $1 || '/%'), events "+
		"FROM carillon.checkpoints WHERE name = 'tally'", stream).Scan(&copied, &events)
	assert.True(t, err == nil && copied == 1 && events == 1,
		"%d rows copied, %d events counted, %v; want one each", copied, events, err)
}

// A fenced runner processes no event, and stops no other.
func TestFencedRunner_projectsNothing(t *testing.T) {
	w := newWorld(t)
	var exploded atomic.Int32
	model := tally
	model.Project = func(_ context.Context, _ pgx.Tx, batch []eventstore.Recorded) error {
		if batch[len(batch)-1].Type == "thing.exploded.v1" && exploded.Add(1) > 1 {
			return fmt.Errorf("%w: %s", eventstore.ErrUndecodable, "thing.exploded.v1")
		}
		return nil
	}
	progress, stream, stop := w.begun(model)
	must.Get(w.pool.Exec(w.ctx, "UPDATE carillon.checkpoints SET epoch = epoch + 1 WHERE name = 'tally'"))(t)
	w.await(progress, w.append(stream, 0, "thing.exploded.v1"), tally.Name)
	must.OK(t, stop())
	statuses, err := projections.Statuses(w.ctx, w.pool)
	assert.True(t, err == nil && len(statuses) == 1 && statuses[0].Stopped == "" && exploded.Load() == 1,
		"statuses = %+v, %v; projected %d times", statuses, err, exploded.Load())
}

// A database that has all steps from before the first schema keeps its tables; one that lacks some is refused.
func TestMigrate_earlierSteps(t *testing.T) {
	w := newWorld(t)
	must.Get(w.pool.Exec(w.ctx, "INSERT INTO carillon.rate_limits VALUES (gen_random_uuid(), 'checks', now(), 7)"))(t)
	for range 2 { // a second process comes along
		must.OK(t, projections.Migrate(w.ctx, w.pool))
	}
	var kept int
	if err := w.pool.QueryRow(w.ctx, "SELECT count(*) FROM carillon.rate_limits WHERE count = 7").
		Scan(&kept); err != nil || kept != 1 {
		t.Errorf("%d rows are left, %v", kept, err)
	}
	must.Get(w.pool.Exec(w.ctx, "UPDATE carillon.migrations SET version_id = 29 WHERE version_id >= 30"))(t)
	if err := projections.Migrate(w.ctx, w.pool); err == nil || !strings.Contains(err.Error(), "step 29 of 30") {
		t.Errorf("error = %v, want it to name the step", err)
	}
}

// A version that a newer one has ruled out is refused by name.
func TestCheckVersion(t *testing.T) {
	w := newWorld(t)
	must.Get(w.pool.Exec(w.ctx, "INSERT INTO carillon.required_versions VALUES ('1.2.0', 'x'), ('1.10.0', 'y')"))(t)
	for version, refused := range map[string]bool{
		"1.1.0": true, "1.9.9-dev": true, "1.10.0-dev": false, "1.10.0": false, "2.0.0": false,
	} {
		err := projections.CheckVersion(w.ctx, w.pool, version)
		if (err != nil) != refused ||
			refused && !strings.Contains(err.Error(), version+", and the database was used by 1.10.0") {
			t.Errorf("%s: %v", version, err)
		}
	}
	must.Get(w.pool.Exec(w.ctx, "DROP TABLE carillon.required_versions"))(t) // of a version that had none
	must.OK(t, projections.CheckVersion(w.ctx, w.pool, "1.0.0"))
}

// remembering is a process manager that keeps what it is given.
type remembering struct {
	eventstore.ProcessState

	rows   *eventstore.SavedTable[rowName, string]
	traits eventstore.Traits
	seen   chan<- eventstore.Recorded
}

type rowName string

func (n rowName) String() string { return string(n) }

func newRemembering(traits eventstore.Traits, seen chan<- eventstore.Recorded) *remembering {
	r := &remembering{traits: traits, seen: seen}
	r.rows = eventstore.NewSavedTable[rowName, string](&r.ProcessState, "thing", func(s string) (rowName, error) {
		return rowName(s), nil
	})
	return r
}

// named returns the traits of a process manager that sees all things.
func named(name string) eventstore.Traits {
	return eventstore.Traits{Name: name, Version: 1, Filter: eventstore.Categories("thing")}
}

func (r *remembering) Traits() eventstore.Traits { return r.traits }

func (r *remembering) React(_ context.Context, batch []eventstore.Recorded) error {
	for i := range batch {
		value := batch[i].Type
		r.rows.Set(rowName(batch[i].Stream), &value)
		r.seen <- batch[i]
	}
	return nil
}

// planted panics at one place, the first time.
type planted struct {
	place string
	done  atomic.Bool
}

func (p *planted) at(place string) {
	if place == p.place && p.done.CompareAndSwap(false, true) {
		panic("planted")
	}
}

// shaky is a process manager with planted panics.
type shaky struct {
	eventstore.ProcessState
	*planted
}

const shakyName = "shaky"

func (*shaky) Traits() eventstore.Traits { return named(shakyName) }

func (s *shaky) React(context.Context, []eventstore.Recorded) error {
	s.at("reaction")
	return nil
}

func (s *shaky) Changed() ([]eventstore.SavedRow, error) {
	s.at("save")
	return s.ProcessState.Changed()
}

func (s *shaky) Begin(at eventstore.Position) {
	s.at("begin")
	s.ProcessState.Begin(at)
}

// shakyStore is a store whose subscription panics.
type shakyStore struct {
	eventstore.Store
	*planted
}

func (s shakyStore) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	s.at("subscription")
	return s.Store.Subscribe(ctx, after, filter)
}

// A consumer that panics somewhere starts again from its checkpoint, and nothing is projected twice.
func TestConsumers_surviveAPanic(t *testing.T) {
	for _, place := range []string{"projection", "build", "reaction", "save", "begin", "subscription"} {
		t.Run(place, func(t *testing.T) {
			w, p := newWorld(t), &planted{place: place}
			stream := eventstore.StreamName("thing", uuid.New())
			if place == "build" {
				p.place = "projection"
				w.append(stream, eventstore.NoStream, "thing.happened.v1")
			}
			w.store = shakyStore{w.store, p}
			model := tally
			model.Project = func(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
				p.at("projection")
				return tally.Project(ctx, tx, batch)
			}
			projected, _ := w.project(model)
			reacted, _ := w.run(func(ctx context.Context, r *projections.Runner) error {
				return r.React(ctx, func(*projections.Tables) eventstore.ProcessManager { return &shaky{planted: p} })
			})
			revision := eventstore.NoStream
			if place == "build" {
				revision = 0
			}
			at := w.append(stream, revision, "thing.happened.v1")
			w.await(projected, at, tally.Name)
			w.await(reacted, at, shakyName)
			must.Eventually(t, "the checkpoint is saved", func() bool { return w.checkpoint(shakyName) == at })
			if got, want := w.count(stream), int(revision)+2; got != want || !p.done.Load() {
				t.Errorf("count = %d, want %d; panicked: %t", got, want, p.done.Load())
			}
		})
	}
}
