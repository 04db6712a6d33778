package adminapi

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/credential"
	"carillon/command/delivery/facts"
	"carillon/projections/organizations"
)

func (a *API) organizationRoutes(r routes) {
	r.operators.Post("/admin/organizations", handle(wire.With(wire.Decode[organizationBody], a.registerOrganization)))
	r.operators.Get("/admin/organizations", handle(a.listOrganizations))
	r.operators.Post("/admin/organizations/{id}/keys", handle(wire.With2(pathID, wire.Decode[keyBody], a.issueKey)))
	r.operators.Get("/admin/organizations/{id}/keys", handle(wire.With(pathID, a.listKeys)))
	r.operators.Delete("/admin/organizations/{id}/keys/{keyId}", handle(wire.With(pathKey, a.revokeKey)))
	r.operators.Post("/admin/organizations/{id}/keys/{keyId}/rotate",
		handle(wire.With2(pathKey, wire.DecodeOptional[overlapBody], a.rotateKey)))
}

// Created answers every create.
type Created struct {
	ID uuid.UUID `json:"id"`
}

// List is a whole list.
type List[T any] struct {
	Items []T `json:"items"`
}

// listed answers with a whole list.
func listed[T any](all []T) wire.Reply { return wire.OK(List[T]{Items: all}) }

// IssuedKey is a new API key. It can't be shown again.
type IssuedKey struct {
	ID  string `json:"id"`
	Key string `json:"key"`
}

type organizationBody struct {
	Name wire.Optional[string] `json:"name"`
}

// Check implements wire.Body.
func (b *organizationBody) Check(c *wire.Checks) { c.Require("name", b.Name.Set) }

// registerOrganization answers POST /admin/organizations.
func (a *API) registerOrganization(r *http.Request, body organizationBody) (wire.Reply, error) {
	made, err := a.Commands.RegisterOrganization(r.Context(), operator(r),
		command.RegisterOrganization{Name: body.Name.Value})
	return a.Changed(r, made.Position, err, wire.Created(Created{ID: made.ID}), organizations.ReadModel.Name)
}

// listOrganizations answers GET /admin/organizations.
func (a *API) listOrganizations(r *http.Request) (wire.Reply, error) {
	organizations, err := a.Queries.Organizations(r.Context())
	return listed(organizations), err
}

type keyBody struct {
	Name      wire.Optional[string]               `json:"name"`
	Scopes    wire.Optional[[]organization.Scope] `json:"scopes"`
	ExpiresAt *string                             `json:"expiresAt"`
	expires   *time.Time
}

// Check implements wire.Body.
func (b *keyBody) Check(c *wire.Checks) {
	if b.Scopes.Set && len(b.Scopes.Value) == 0 {
		c.Fail("scopes", "must name one of read, write and secrets at least, or be left out for all")
	}
	b.expires = expiry(c, b.ExpiresAt)
}

// issueKey answers POST /admin/organizations/{id}/keys.
func (a *API) issueKey(r *http.Request, id uuid.UUID, body keyBody) (wire.Reply, error) {
	issued, err := a.Commands.IssueKey(r.Context(), operator(r), command.IssueKey{
		Organization: id,
		Name:         body.Name.Value,
		Scopes:       body.Scopes.Value,
		ExpiresAt:    body.expires,
	})
	return a.keyIssued(r, issued, err)
}

// keyIssued answers with a new key.
func (a *API) keyIssued(
	r *http.Request, issued command.Result[credential.Credential], refused error,
) (wire.Reply, error) {
	reply := wire.Created(IssuedKey{ID: issued.Value.ID, Key: issued.Value.Reveal()})
	return a.Changed(r, issued.Position, refused, reply, organizations.ReadModel.Name)
}

// listKeys answers GET /admin/organizations/{id}/keys.
func (a *API) listKeys(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	keys, err := a.Queries.Keys(r.Context(), id)
	return listed(keys), wire.NotFoundError(err, "organization")
}

// namedKey is a key that a path names.
type namedKey struct {
	organization uuid.UUID
	id           string
}

func pathKey(r *http.Request) (named namedKey, err error) {
	if named.organization, err = pathID(r); err == nil {
		named.id, err = wire.PathText(r, "keyId")
	}
	return named, err
}

// revokeKey answers DELETE /admin/organizations/{id}/keys/{keyId}.
func (a *API) revokeKey(r *http.Request, named namedKey) (wire.Reply, error) {
	changed, err := a.Commands.RevokeKey(r.Context(), operator(r), command.RevokeKey{
		Organization: named.organization,
		KeyID:        named.id,
	})
	return a.Changed(r, changed.Position, err, wire.Done(), organizations.ReadModel.Name)
}

// rotateKey answers POST /admin/organizations/{id}/keys/{keyId}/rotate.
func (a *API) rotateKey(r *http.Request, named namedKey, body overlapBody) (wire.Reply, error) {
	issued, err := a.Commands.RotateKey(r.Context(), operator(r), command.RotateKey{
		Organization: named.organization,
		KeyID:        named.id,
		Overlap:      body.overlap(),
	})
	return a.keyIssued(r, issued, err)
}

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
	return wire.OK(limitsOf(found.Limits)), wire.NotFoundError(err, "organization")
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
