package app

import (
	"context"
	"time"

	"carillon/command/irreversible"
	"carillon/command/retire"
	"carillon/eventstore"
	"carillon/projections/deliveries"
	"carillon/projections/health"
	"carillon/projections/items"
	"carillon/projections/publications"
	"carillon/projections/sources"
)

// Settle waits until the read models that a retirement changes show all that is recorded by now.
func (a *App) Settle(ctx context.Context) error {
	return a.readModels.runner.Newest(ctx, deliveries.ReadModel, publications.ReadModel, health.ReadModel,
		items.ReadModel, sources.ReadModel)
}

// GateBy returns the gate of a process whose clock shows another time.
func (a *App) GateBy(own func() time.Time) *irreversible.Gate {
	gate := *a.stores.gate
	gate.Own = own
	return &gate
}

// RetireAt retires, at another time than now, what is over for longer than the process keeps it. All is dispatched and
// curated: tests don't wait until these save their checkpoints.
func (a *App) RetireAt(ctx context.Context, at time.Time, change func(*retire.Retirer)) (events int, err error) {
	r := a.managers.retirer()
	r.Lock = func(context.Context) (release func(), err error) { return func() {}, nil }
	r.Now = func() time.Time { return at }
	r.Pass = func(context.Context, irreversible.Act, irreversible.Due) (time.Time, error) { return at, nil }
	r.Dispatched = func(ctx context.Context) eventstore.Position {
		head, _ := r.Store.Head(ctx)
		return head
	}
	if r.Happenings != nil {
		r.Happenings.Now, r.Happenings.Curated = r.Now, r.Dispatched
	}
	if change != nil {
		change(r)
	}
	return r.Retire(ctx)
}
