package adminapi

import (
	"net/http"

	"github.com/go-chi/chi/v5"

	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/wire"
)

// onBehalfPath is the prefix of the routes of an organization. Their own parameters have other names.
const onBehalfPath = "/admin/organizations/{organization}"

// onBehalfRoutes answers what an organization may ask of its destinations, deliveries and events, and the replay.
func (a *API) onBehalfRoutes(r routes) {
	for _, route := range httpapi.OperatorRoutes() {
		r.operators.Method(route.Method, onBehalfPath+route.Path, http.HandlerFunc(a.serveOnBehalf))
	}
}

// serveOnBehalf answers as the API does, for an organization that the path names.
func (a *API) serveOnBehalf(w http.ResponseWriter, r *http.Request) {
	id, err := wire.PathUUID(r, "organization", wire.BadParam)
	if err == nil {
		_, err = a.Queries.Organization(r.Context(), id)
		err = wire.NotFoundError(err, "organization")
	}
	if err != nil {
		wire.Events.WriteError(w, r, err)
		return
	}
	by := operator(r)
	by.Organization = id
	http.StripPrefix("/admin/organizations/"+chi.URLParam(r, "organization"), http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { a.OnBehalf(w, r, by) })).ServeHTTP(w, r)
}
