//go:build nightly

package app_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"carillon/aggregates/retirement"
	"carillon/command/retire"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var errKilled = errors.New("killed")

// retiredDespite retires until a step at which the process is killed, and waits until the next process has retired the
// rest: no stream of some categories is left.
func (p *process) retiredDespite(i int, step func(*retire.Retirer), categories ...string) {
	p.Helper()
	if _, err := p.app.RetireAt(p.Context(), later(), step); err == nil && i > 0 {
		p.Fatalf("step %d was not the last", i)
	}
	p.restart()
	// Once the read model has applied the last retirement, and the streams are deleted, there is space to be given back.
	p.eventually("it is retired, and its streams are gone", func() bool {
		_, err := p.app.RetireAt(p.Context(), later(), nil)
		must.True(p, err == nil || errors.Is(err, eventstore.ErrWrongRevision), "%v", err)
		return err == nil && !slices.ContainsFunc(categories, func(name string) bool { return p.streams(name) > 0 })
	})
}

func TestRetirement_killed(t *testing.T) {
	t.Parallel()
	p := newProcess(t, retaining)
	ok, _ := p.endpoint(func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(http.StatusOK) })
	good := p.connect("good", ok, 0)
	event := p.publish()
	p.settled(deliveryOf(event, good), "succeeded")
	var before map[string]any
	steps := []func(*retire.Retirer){
		func(r *retire.Retirer) { // another one retires what this one has read: it is refused, or finds nothing left
			oldest := r.Oldest
			r.Oldest = func(ctx context.Context, before time.Time, after retirement.Old, limit int) (
				[]retirement.Old, eventstore.Revision, error,
			) {
				page, revision, err := oldest(ctx, before, after, limit)
				if after == (retirement.Old{}) {
					_, err := p.app.RetireAt(ctx, later(), func(r *retire.Retirer) { r.Oldest = oldest })
					assert.True(t, err == nil, "%v", err)
				}
				return page, revision, err
			}
		},
		func(r *retire.Retirer) {
			r.Await = func(context.Context, eventstore.Position) error { return errKilled }
		},
		func(r *retire.Retirer) {
			r.Removed = func(context.Context, eventstore.Position) error { return errKilled }
		},
		func(r *retire.Retirer) { r.Scavenge = func(context.Context) error { return errKilled } },
	}
	for i, step := range steps {
		event := p.publish()
		p.settled(deliveryOf(event, good), "succeeded")
		before = p.analysis()
		p.retiredDespite(i, step, "delivery")
		p.rebuilt()
		assert.Alike(t, p.analysis(), before, "killed at step %d, analysts see another past", i)
	}
}
