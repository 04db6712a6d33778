package reservation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/destination"
	"carillon/command/reservation"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestConcurrentCreates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var created atomic.Int32
	var group sync.WaitGroup
	for range 40 {
		group.Go(func() {
			switch _, err := w.create(t.Context(), "crm", never); {
			case err == nil:
				created.Add(1)
			case !errors.Is(err, reservation.ErrTaken):
				t.Error(err)
			}
		})
	}
	group.Wait()
	assert.True(t, created.Load() == 1 && len(w.owners(t.Context(), t)) == 1, "%d were created, want 1", created.Load())
}

func TestConcurrentUpserts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var created atomic.Int32
	var group sync.WaitGroup
	for range 40 {
		group.Go(func() {
			_, first, err := w.upsert(t.Context(), "crm", never)
			assert.OK(t, err)
			if first {
				created.Add(1)
			}
		})
	}
	group.Wait()
	assert.Equal(t, created.Load(), 1, "were created")
}

// TestRequestIsRetried kills a request at each of its appends, before it was recorded and after, and tries it again at
// once, as a client does that got no answer.
func TestRequestIsRetried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	for i, death := range []mortal{before(1), at(1), before(2), at(2)} {
		name := fmt.Sprintf("create-%d", i)
		if _, err := w.create(ctx, name, death); !errors.Is(err, errKilled) {
			t.Fatalf("error = %v, want errKilled", err)
		}
		_, err := w.create(ctx, name, never)
		if recorded := i == 3; recorded != errors.Is(err, reservation.ErrTaken) || !recorded && err != nil {
			t.Errorf("create again after death %d: error = %v", i, err)
		}
		assert.True(t, w.owners(ctx, t)[name] != uuid.Nil, "after death %d: no owner has the name", i)

		name = fmt.Sprintf("upsert-%d", i)
		if _, _, err := w.upsert(ctx, name, death); !errors.Is(err, errKilled) {
			t.Fatalf("error = %v, want errKilled", err)
		}
		if _, created, err := w.upsert(ctx, name, never); err != nil || created != (i != 3) {
			t.Errorf("upsert again after death %d: created = %t, error = %v", i, created, err)
		}
	}
	for i, death := range []mortal{before(1), at(1), before(2), at(2), before(3), at(3)} {
		old, name := fmt.Sprintf("old-%d", i), fmt.Sprintf("new-%d", i)
		id := must.Get(w.create(ctx, old, never))(t)
		err := w.rename(ctx, id, name, death)
		must.True(t, errors.Is(err, errKilled), "error = %v, want errKilled", err)
		assert.Is(t, w.rename(ctx, id, name, never), nil, "rename again after death %d", i)
		assert.Is(t, assert.Err(w.create(ctx, old, never)), nil, "after death %d the old name is not free", i)
		assert.Equal(t, w.owners(ctx, t)[name], id, "after death %d … has the name", i)
	}
	for i, death := range []mortal{at(1), before(2), at(2)} {
		name := fmt.Sprintf("delete-%d", i)
		id := must.Get(w.create(ctx, name, never))(t)
		err := w.delete(ctx, id, death)
		must.True(t, errors.Is(err, errKilled), "error = %v, want errKilled", err)
		assert.Is(t, assert.Err(w.create(ctx, name, never)), nil, "after death %d the name of the deleted is not free", i)
	}
}

// TestHangingRequestCreatesNothingTwice: it has reserved the name and stands still, as in a process that was stopped,
// until another request was served in full.
func TestHangingRequestCreatesNothingTwice(t *testing.T) {
	t.Parallel()
	for name, deleted := range map[string]bool{"the other's is there": false, "the other's was deleted": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var first, hung uuid.UUID
			err := w.do(t.Context(), never, func(ctx context.Context, r *request) error {
				return r.names.Create(ctx, eventstore.Metadata{}, w.name("crm"), func(ctx context.Context, id uuid.UUID) error {
					if first == uuid.Nil {
						var err error
						if first, _, err = w.upsert(ctx, "crm", never); err != nil {
							return err
						}
						if deleted {
							if err := w.delete(ctx, first, never); err != nil {
								return err
							}
						}
					}
					return r.begin("crm", &hung)(ctx, id)
				})
			})
			owners := w.owners(t.Context(), t)
			if deleted && (err != nil || owners["crm"] != hung) {
				t.Errorf("error = %v, %s has the name, want %s", err, owners["crm"], hung)
			}
			if !deleted && (!errors.Is(err, reservation.ErrTaken) || owners["crm"] != first) {
				t.Errorf("error = %v, %s has the name, want ErrTaken and %s", err, owners["crm"], first)
			}
		})
	}
}

// TestInterruptedRename leaves a reservation of an owner that has another name.
func TestInterruptedRename(t *testing.T) {
	t.Parallel()
	died := func(t *testing.T) (*world, uuid.UUID) {
		t.Helper()
		w := newWorld(t)
		id := must.Get(w.create(t.Context(), "a", never))(t)
		err := w.rename(t.Context(), id, "b", at(1))
		must.True(t, errors.Is(err, errKilled), "error = %v, want errKilled", err)
		return w, id
	}
	t.Run("others wait, because it may only be slow", func(t *testing.T) {
		t.Parallel()
		w, _ := died(t)
		assert.Is(t, assert.Err(w.create(t.Context(), "b", never)), reservation.ErrContended, "error")
	})
	t.Run("after a minute it is given up", func(t *testing.T) {
		t.Parallel()
		w, _ := died(t)
		w.pass(time.Minute)
		must.Get(w.create(t.Context(), "b", never))(t)
	})
	t.Run("once its owner has changed it can't come any more", func(t *testing.T) {
		t.Parallel()
		w, id := died(t)
		must.OK(t, w.do(t.Context(), never, func(ctx context.Context, r *request) error {
			return r.execute(ctx, id, w.revise(destination.FieldName, destination.Settings{Name: "other"}), nil)
		}))
		must.Get(w.create(t.Context(), "b", never))(t)
	})
}

// TestRenameToNameWithoutOwner: the create that reserved it died.
func TestRenameToNameWithoutOwner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := must.Get(w.create(t.Context(), "a", never))(t)
	_, err := w.create(t.Context(), "b", at(1))
	must.True(t, errors.Is(err, errKilled), "error = %v, want errKilled", err)
	w.pass(time.Minute)
	must.OK(t, w.rename(t.Context(), id, "b", never))
	assert.Equal(t, w.owners(t.Context(), t)["b"], id, "has the name")
}

// TestRenameWaitsForCreate that has reserved the name and is about to create its owner.
func TestRenameWaitsForCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other, err := w.create(t.Context(), "a", never)
	must.OK(t, err)
	var made uuid.UUID
	err = w.do(t.Context(), never, func(ctx context.Context, r *request) error {
		return r.names.Create(ctx, eventstore.Metadata{}, w.name("b"), func(ctx context.Context, id uuid.UUID) error {
			hurried, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			defer cancel()
			assert.Is(t, w.rename(hurried, other, "b", never), context.DeadlineExceeded, "rename: error")
			return r.begin("b", &made)(ctx, id)
		})
	})
	owner := w.owners(t.Context(), t)["b"]
	assert.True(t, err == nil && owner == made, "create: error = %v; %s has the name, want %s", err, owner, made)
}

// TestManyRequestsThatDie is a storm of clients that fight over few names. Each tries again what was killed. At no time
// two have one name, and afterwards every name can be had.
func TestManyRequestsThatDie(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	names := []string{"a", "b", "c", "d", "e"}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			var mine uuid.UUID
			for range 25 {
				name, kind := names[rand.IntN(len(names))], rand.IntN(4)
				for err := errKilled; errors.Is(err, errKilled); {
					death := mortal{append: rand.IntN(6), after: rand.IntN(2) == 0}
					var id uuid.UUID
					switch {
					case kind == 0 || mine == uuid.Nil:
						id, err = w.create(ctx, name, death)
					case kind == 1:
						id, _, err = w.upsert(ctx, name, death)
					case kind == 2:
						err = w.rename(ctx, mine, name, death)
					default:
						err = w.delete(ctx, mine, death)
					}
					if id != uuid.Nil {
						mine = id
					}
					assert.True(t, err == nil || errors.Is(err, errKilled) || errors.Is(err, reservation.ErrTaken) ||
						errors.Is(err, destination.ErrUnknown), "%v", err)
				}
			}
		})
	}
	group.Wait()
	w.owners(ctx, t)
	for _, name := range names {
		_, _, err := w.upsert(ctx, name, never)
		assert.True(t, err == nil, "%s can't be had: %v", name, err)
	}
	assert.Equal(t, len(w.owners(ctx, t)), len(names), "want an owner for each of %v", names)
}

// TestNoDeathBlocksAName tries histories of requests, one after the other, that die and are not tried again.
func TestNoDeathBlocksAName(t *testing.T) {
	t.Parallel()
	node := newWorld(t)
	rapid.Check(t, func(r *rapid.T) {
		w := &world{store: node.store, org: uuid.New()}
		ctx := t.Context()
		var all []uuid.UUID
		for range rapid.IntRange(1, 8).Draw(r, "requests") {
			name := rapid.SampledFrom([]string{"a", "b"}).Draw(r, "name")
			death := mortal{append: rapid.IntRange(0, 3).Draw(r, "append"), after: rapid.Bool().Draw(r, "after")}
			kind := rapid.SampledFrom([]string{"create", "upsert", "rename", "delete"}).Draw(r, "kind")
			var (
				id  uuid.UUID
				err error
			)
			switch {
			case kind == "create" || len(all) == 0:
				id, err = w.create(ctx, name, death)
			case kind == "upsert":
				id, _, err = w.upsert(ctx, name, death)
			case kind == "rename":
				err = w.rename(ctx, rapid.SampledFrom(all).Draw(r, "owner"), name, death)
			default:
				err = w.delete(ctx, rapid.SampledFrom(all).Draw(r, "owner"), death)
			}
			if id != uuid.Nil {
				all = append(all, id)
			}
			if err != nil && !errors.Is(err, errKilled) && !errors.Is(err, reservation.ErrTaken) &&
				!errors.Is(err, destination.ErrUnknown) {
				r.Errorf("%s %s: %v", kind, name, err)
			}
			w.pass(time.Minute)
		}
		owners := w.owners(ctx, r)
		for _, name := range []string{"a", "b"} {
			id, created, err := w.upsert(ctx, name, never)
			if err != nil || created != (owners[name] == uuid.Nil) || !created && id != owners[name] {
				r.Errorf("upsert of %s: created %t %s, error = %v; it was %s's", name, created, id, err, owners[name])
			}
		}
		w.owners(ctx, r)
	})
}
