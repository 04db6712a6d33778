package app

import (
	"context"
	"time"

	"carillon/command/retire"
	"carillon/eventstore"
)

// RetireAt retires, at another time than now, what is over for longer than the process keeps it. All is dispatched:
// tests don't wait until the dispatcher saves its checkpoint.
func (a *App) RetireAt(ctx context.Context, at time.Time, change func(*retire.Retirer)) (events int, err error) {
	r := a.retirer()
	r.Now = func() time.Time { return at }
	r.Dispatched = func(ctx context.Context) eventstore.Position {
		head, _ := r.Store.Head(ctx)
		return head
	}
	if change != nil {
		change(r)
	}
	return r.Retire(ctx)
}
