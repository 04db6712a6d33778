package reservation_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command/reservation"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
)

// errKilled ends a request in the middle, as a process that is killed does.
var errKilled = errors.New("killed")

// mortal is the store as one request sees it, which dies at one of its appends.
type mortal struct {
	eventstore.Store

	kill   context.CancelCauseFunc
	append int  // the append at which it dies, counted from 1; 0: none
	after  bool // the append is recorded, and its answer lost
}

func (m *mortal) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	m.append--
	if m.append != 0 {
		return m.Store.Append(ctx, stream, expected, events)
	}
	if m.after {
		if appended, err := m.Store.Append(ctx, stream, expected, events); err != nil {
			m.append = 1 // another request was faster: the next one, then
			return appended, err
		}
	}
	m.kill(errKilled)
	return eventstore.Appended{}, eventstore.ErrUnavailable
}

// world is names of destinations, on the real event store.
type world struct {
	store eventstore.Store
	org   uuid.UUID
	ahead atomic.Int64 // nanoseconds by which the clock was moved on
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{store: nodetest.Start(t), org: uuid.New()}
}

func (w *world) now() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) }

func (w *world) pass(d time.Duration) { w.ahead.Add(int64(d)) }

func (w *world) name(externalID string) reservation.Name {
	return reservation.Name{Scope: w.org, ExternalID: externalID}
}

// request is one request of a client: it may be killed at one of its appends.
type request struct {
	w     *world
	names reservation.Names
	store eventstore.Store
}

// never is a request that lives.
var never = mortal{}

// at is a request that is killed when its n-th append was recorded, and before it hears of it.
func at(n int) mortal { return mortal{append: n, after: true} }

// before is a request that is killed when it is about to append for the n-th time.
func before(n int) mortal { return mortal{append: n} }

// do runs a request. It fails with errKilled if it was killed.
func (w *world) do(ctx context.Context, death mortal, run func(context.Context, *request) error) error {
	ctx, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	death.Store, death.kill = w.store, kill
	r := &request{w: w, store: &death}
	r.names = reservation.Names{
		Store: r.store,
		Now:   w.now,
		Owner: func(ctx context.Context, id uuid.UUID) (reservation.Owner, error) {
			loaded, err := r.load(ctx, id)
			return reservation.Owner{
				ExternalID: loaded.State.Settings.ExternalID,
				Deleted:    loaded.State.Status == destination.StatusDeleted,
				Revision:   loaded.Revision,
				Position:   loaded.Position,
			}, err
		},
	}
	err := run(ctx, r)
	if errors.Is(context.Cause(ctx), errKilled) {
		return errKilled
	}
	return err
}

func (r *request) load(ctx context.Context, id uuid.UUID) (eventstore.Loaded[destination.State], error) {
	return destination.Aggregate.Load(ctx, r.store, id)
}

func (r *request) execute(
	ctx context.Context, id uuid.UUID, c destination.Command, known *eventstore.Loaded[destination.State],
) error {
	_, err := destination.Aggregate.Execute(ctx, r.store, id, c, destination.Options{
		Known:     known,
		OnlyKnown: known != nil,
	})
	return err
}

// begin is the create function of an owner.
func (r *request) begin(name string, made *uuid.UUID) func(context.Context, uuid.UUID) error {
	return func(ctx context.Context, id uuid.UUID) error {
		err := r.execute(ctx, id, destination.Create{
			Organization: r.w.org,
			Settings:     destination.Settings{ExternalID: name},
			SecretID:     uuid.New(),
			At:           r.w.now(),
		}, &eventstore.Loaded[destination.State]{Revision: eventstore.NoStream})
		if err == nil {
			*made = id
		}
		return err
	}
}

func (w *world) create(ctx context.Context, name string, death mortal) (made uuid.UUID, err error) {
	err = w.do(ctx, death, func(ctx context.Context, r *request) error {
		return r.names.Create(ctx, eventstore.Metadata{}, w.name(name), r.begin(name, &made))
	})
	return made, err
}

func (w *world) upsert(ctx context.Context, name string, death mortal) (id uuid.UUID, created bool, err error) {
	err = w.do(ctx, death, func(ctx context.Context, r *request) error {
		created = true
		return r.names.Upsert(ctx, eventstore.Metadata{}, w.name(name), r.begin(name, &id),
			func(ctx context.Context, owner uuid.UUID) error {
				known, err := r.load(ctx, owner)
				if err != nil {
					return err
				}
				if known.State.Status == destination.StatusDeleted || known.State.Settings.ExternalID != name {
					return eventstore.ErrWrongRevision
				}
				id, created = owner, false
				// Like the use cases it goes through the loop, in which many change one owner in turn.
				return r.execute(ctx, owner, w.revise(destination.FieldName, destination.Settings{Name: uuid.NewString()}), nil)
			})
	})
	return id, created, err
}

func (w *world) rename(ctx context.Context, id uuid.UUID, name string, death mortal) error {
	return w.do(ctx, death, func(ctx context.Context, r *request) error {
		return r.names.Rename(ctx, eventstore.Metadata{}, id, w.name(name),
			func(ctx context.Context) (reservation.Renaming, error) {
				known, err := r.load(ctx, id)
				if err == nil && known.State.Status == destination.StatusDeleted {
					err = destination.ErrUnknown
				}
				return reservation.Renaming{Old: known.State.Settings.ExternalID, Rename: func(ctx context.Context) error {
					return r.execute(ctx, id, w.revise(destination.FieldExternalID, destination.Settings{ExternalID: name}), &known)
				}}, err
			})
	})
}

func (w *world) revise(sets destination.Field, to destination.Settings) destination.Revise {
	return destination.Revise{
		Organization: w.org,
		Sets:         sets,
		Settings:     to,
		At:           w.now(),
	}
}

func (w *world) delete(ctx context.Context, id uuid.UUID, death mortal) error {
	return w.do(ctx, death, func(ctx context.Context, r *request) error {
		out, err := destination.Aggregate.Execute(ctx, r.store, id, destination.Delete{Organization: w.org, At: w.now()},
			destination.Options{})
		if err != nil {
			return err
		}
		r.names.Release(ctx, eventstore.Metadata{}, w.name(out.State.Settings.ExternalID), id)
		return nil
	})
}

// failer is a test, or one run of a property.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatal(args ...any)
}

// owners goes through all that happened to owners, in its order, and expects that no two of them ever had one name. It
// returns who has each name now.
func (w *world) owners(ctx context.Context, t failer) map[string]uuid.UUID {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	states, owners := map[uuid.UUID]destination.State{}, map[string]uuid.UUID{}
	for message, err := range w.store.Subscribe(ctx, eventstore.Start,
		eventstore.Categories(destination.Aggregate.Category)) {
		if err != nil {
			t.Fatal(err)
		}
		if message.CaughtUp {
			break
		}
		if message.Event == nil {
			continue
		}
		event, err := destination.Events.Decode(message.Event)
		if err != nil {
			t.Fatal(err)
		}
		id := message.Event.StreamID()
		state := destination.Aggregate.Evolve(states[id], event)
		if state.Organization != w.org {
			continue
		}
		if old := states[id].Settings.ExternalID; owners[old] == id {
			delete(owners, old)
		}
		states[id] = state
		name := state.Settings.ExternalID
		if state.Status == destination.StatusDeleted || name == "" {
			continue
		}
		if other, taken := owners[name]; taken {
			t.Errorf("%s got the name %q while %s had it", id, name, other)
		}
		owners[name] = id
	}
	return owners
}
