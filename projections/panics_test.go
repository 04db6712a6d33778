package projections_test

import (
	"context"
	"iter"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
	"carillon/projections"
)

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

func (*shaky) Traits() eventstore.Traits { return (&remembering{name: shakyName}).Traits() }

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
			w.within("the checkpoint", func() bool { return w.checkpoint(shakyName) == at })
			if got, want := w.count(stream), int(revision)+2; got != want || !p.done.Load() {
				t.Errorf("count = %d, want %d; panicked: %t", got, want, p.done.Load())
			}
		})
	}
}
