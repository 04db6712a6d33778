package adminapi

import (
	"maps"
	"net/http"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/delivery/facts"
	"carillon/projections/organizations"
)

func (a *API) limitRoutes(r routes) {
	r.operators.Get("/admin/organizations/{id}/limits", handle(wire.With(pathID, a.getLimits)))
	r.operators.Put("/admin/organizations/{id}/limits",
		handle(wire.With2(pathID, wire.Decode[limitsBody], a.putLimits)))
	r.operators.Post("/admin/organizations/{id}/suspend",
		handle(wire.With2(pathID, wire.Decode[suspendBody], a.suspendOrganization)))
	r.operators.Post("/admin/organizations/{id}/resume", handle(wire.With(pathID, wire.Empty(a.resumeOrganization))))
	r.operators.Delete("/admin/organizations/{id}", handle(wire.With(pathID, a.deleteOrganization)))
}

// Limits are those of an organization as they hold, and which of them were set.
type Limits struct {
	Limits map[string]int64 `json:"limits"`
	Set    map[string]int64 `json:"set"`
}

// getLimits answers GET /admin/organizations/{id}/limits.
func (a *API) getLimits(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	found, err := a.Queries.Organization(r.Context(), id)
	if err != nil {
		return wire.Reply{}, wire.NotFoundError(err, "organization")
	}
	return wire.OK(limitsOf(found.Limits)), nil
}

func limitsOf(set map[string]int64) Limits {
	shown := Limits{Limits: map[string]int64{}, Set: map[string]int64{}}
	for limit, most := range organization.Defaults() {
		shown.Limits[string(limit)] = int64(most)
	}
	for limit, most := range set {
		shown.Limits[limit], shown.Set[limit] = most, most
	}
	return shown
}

// limitsBody are the limits that differ from the defaults.
type limitsBody map[organization.Limit]wire.Optional[int]

// Check implements wire.Body.
func (b limitsBody) Check(c *wire.Checks) {
	known := organization.Defaults()
	for _, limit := range slices.Sorted(maps.Keys(b)) {
		if _, is := known[limit]; !is {
			c.Fail(wire.FieldPath(jsontext.Pointer("").AppendToken(string(limit))), wire.UnknownField)
		}
		if most := b[limit].Value; most < 0 || most > organization.MaxLimit {
			c.Fail(string(limit), "must be from 0 to %d", organization.MaxLimit)
		}
	}
}

// putLimits answers PUT /admin/organizations/{id}/limits: omitted limits are the defaults.
func (a *API) putLimits(r *http.Request, id uuid.UUID, body limitsBody) (wire.Reply, error) {
	limits, set := organization.Limits{}, map[string]int64{}
	for limit, most := range body {
		limits[limit], set[string(limit)] = most.Value, int64(most.Value)
	}
	changed, err := a.Commands.SetLimits(r.Context(), operator(r), command.SetLimits{Organization: id, Limits: limits})
	return a.Changed(r, changed.Position, err, wire.OK(limitsOf(set)), organizations.ReadModel.Name)
}

type suspendBody struct {
	Reason wire.Optional[string] `json:"reason"`
}

// Check implements wire.Body.
func (*suspendBody) Check(*wire.Checks) {}

// suspendOrganization answers POST /admin/organizations/{id}/suspend.
func (a *API) suspendOrganization(r *http.Request, id uuid.UUID, body suspendBody) (wire.Reply, error) {
	changed, err := a.Commands.SuspendOrganization(r.Context(), operator(r), command.SuspendOrganization{
		Organization: id,
		Reason:       body.Reason.Value,
	})
	return a.Changed(r, changed.Position, err, wire.Done(), organizations.ReadModel.Name, facts.Name)
}

// resumeOrganization answers POST /admin/organizations/{id}/resume.
func (a *API) resumeOrganization(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	changed, err := a.Commands.ResumeOrganization(r.Context(), operator(r), command.ResumeOrganization{Organization: id})
	return a.Changed(r, changed.Position, err, wire.Done(), organizations.ReadModel.Name, facts.Name)
}

// deleteOrganization answers DELETE /admin/organizations/{id}: its keys have ended; its destinations and feeds end soon
// after.
func (a *API) deleteOrganization(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	changed, err := a.Commands.DeleteOrganization(r.Context(), operator(r), command.DeleteOrganization{Organization: id})
	return a.Changed(r, changed.Position, err, wire.Done(), organizations.ReadModel.Name, facts.Name)
}
