package adminapi

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"carillon/cmd/internal/wire"
	"carillon/projections/analytics"
)

// Analysts keeps the Postgres logins of analysts; analytics.Logins is one.
type Analysts interface {
	Create(ctx context.Context, name string) (connection string, err error)
	List(ctx context.Context) ([]string, error)
	Delete(ctx context.Context, name string) error
}

func (a *API) analystRoutes(r routes) {
	r.operators.Post("/admin/analytics/logins", handle(wire.With(wire.Decode[analystBody], a.createAnalystLogin)))
	r.operators.Get("/admin/analytics/logins", handle(a.listAnalystLogins))
	r.operators.Delete("/admin/analytics/logins/{name}", handle(wire.With(pathName, a.deleteAnalystLogin)))
}

// AnalystLogin is a login of a list.
type AnalystLogin struct {
	Name string `json:"name"`
}

// NewAnalystLogin is a new login. Its connection string holds the password, which can't be shown again.
type NewAnalystLogin struct {
	Name       string `json:"name"`
	Connection string `json:"connection"`
}

type analystBody struct {
	Name wire.Optional[string] `json:"name"`
}

// Check implements wire.Body.
func (b *analystBody) Check(c *wire.Checks) {
	c.Require("name", b.Name.Set)
	if err := analytics.CheckLoginName(b.Name.Value); b.Name.Set && err != nil {
		c.Fail("name", "%s", err)
	}
}

// createAnalystLogin answers POST /admin/analytics/logins.
func (a *API) createAnalystLogin(r *http.Request, body analystBody) (wire.Reply, error) {
	if err := a.record(r, "create-analyst-login", body.Name.Value); err != nil {
		return wire.Reply{}, err
	}
	connection, err := a.Analysts.Create(r.Context(), body.Name.Value)
	return wire.Created(NewAnalystLogin{Name: body.Name.Value, Connection: connection}), analystFailure(err)
}

// listAnalystLogins answers GET /admin/analytics/logins.
func (a *API) listAnalystLogins(r *http.Request) (wire.Reply, error) {
	names, err := a.Analysts.List(r.Context())
	return listed(wire.ListOf(names, func(name string) AnalystLogin { return AnalystLogin{Name: name} })), err
}

// deleteAnalystLogin answers DELETE /admin/analytics/logins/{name}.
func (a *API) deleteAnalystLogin(r *http.Request, name string) (wire.Reply, error) {
	names, err := a.Analysts.List(r.Context())
	if err == nil && !slices.Contains(names, name) {
		err = analystFailure(analytics.ErrNoLogin) // the audit trail would say that it was deleted
	}
	if err == nil {
		err = a.record(r, "delete-analyst-login", name)
	}
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.Done(), analystFailure(a.Analysts.Delete(r.Context(), name))
}

func analystFailure(err error) error {
	switch {
	case errors.Is(err, analytics.ErrNoLogin):
		issue := err.Error() + ": GET /admin/analytics/logins lists them"
		return &wire.Failure{Kind: wire.NotFound, Issue: issue, Cause: err}
	case errors.Is(err, analytics.ErrLoginTaken), errors.Is(err, analytics.ErrNotAllowed):
		return &wire.Failure{Kind: wire.Conflict, Issue: err.Error(), Cause: err}
	}
	return err
}
