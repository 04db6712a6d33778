package httpapi

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"carillon/aggregates/organization"
	"carillon/command"
	"carillon/query"
)

// Route is a method and a pattern of paths.
type Route struct{ Method, Path string }

// OperatorRoutes lists the routes of [API.OnBehalf].
func OperatorRoutes() []Route {
	return []Route{
		{http.MethodGet, "/events/destinations"},
		{http.MethodGet, "/events/destinations/{ref}"},
		{http.MethodGet, "/events/deliveries"},
		{http.MethodGet, "/events/deliveries/{id}"},
		{http.MethodPost, "/events/deliveries/{id}/replay"},
		{http.MethodPost, "/events/deliveries/{id}/retry"},
		{http.MethodPost, "/events/destinations/{ref}/recover"},
		{http.MethodGet, "/events/events"},
		{http.MethodGet, "/events/events/{id}"},
	}
}

// OnBehalf answers a request for an organization that an operator names: those of its routes that [OperatorRoutes]
// lists, without secrets and without its limits.
func (a *API) OnBehalf(w http.ResponseWriter, r *http.Request, by command.Caller) {
	key := query.Key{Scopes: []string{string(organization.ScopeRead), string(organization.ScopeWrite)}}
	ctx := context.WithValue(r.Context(), identityKey{}, identity{by, key})
	a.onBehalf.ServeHTTP(w, r.WithContext(context.WithValue(ctx, chi.RouteCtxKey, nil)))
}
