package adminapi

import (
	"context"
	"net/http"

	"carillon/cmd/internal/wire"
)

// Keys are the keys that wrap data keys.
type Keys interface {
	// RotateMaster lets the next master key take the place of the one in use.
	RotateMaster(ctx context.Context) error
	// RenewKeys makes what was shredded unreadable in Postgres' pages, log and backups.
	RenewKeys(ctx context.Context) error
}

func (a *API) keyRoutes(r routes) {
	r.operators.Post("/admin/keys/rotate-master", handle(wire.EmptyBody(a.rotateMaster)))
	r.operators.Post("/admin/keys/renew", handle(wire.EmptyBody(a.renewKeys)))
}

// rotateMaster answers POST /admin/keys/rotate-master when everything is wrapped by the next master key. It continues
// if the caller leaves.
func (a *API) rotateMaster(r *http.Request) (wire.Reply, error) {
	return a.changeKeys(r, "rotate-master-key", a.Keys.RotateMaster)
}

// renewKeys answers POST /admin/keys/renew when shredded data can't be opened any more, even with a kept copy.
func (a *API) renewKeys(r *http.Request) (wire.Reply, error) {
	return a.changeKeys(r, "renew-keys", a.Keys.RenewKeys)
}

func (a *API) changeKeys(r *http.Request, action string, change func(context.Context) error) (wire.Reply, error) {
	if err := a.record(r, action, ""); err != nil {
		return wire.Reply{}, err
	}
	if err := change(context.WithoutCancel(r.Context())); err != nil {
		return wire.Reply{}, &wire.Failure{Kind: wire.Conflict, Issue: err.Error(), Cause: err}
	}
	return wire.Done(), nil
}
