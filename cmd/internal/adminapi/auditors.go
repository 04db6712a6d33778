package adminapi

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/projections/auditors"
)

func (a *API) auditorRoutes(r routes) {
	r.operators.Post("/admin/auditors", handle(wire.With(wire.Decode[auditorBody], a.issueAuditorToken)))
	r.operators.Get("/admin/auditors", handle(a.listAuditorTokens))
	r.operators.Delete("/admin/auditors/{id}", handle(wire.With(pathToken, a.revokeAuditorToken)))
}

type auditorBody struct {
	Name         wire.Optional[string] `json:"name"`
	Organization wire.Optional[string] `json:"organization"`
	ExpiresAt    *string               `json:"expiresAt"`
	organization uuid.UUID
	expires      *time.Time
}

// Check implements wire.Body.
func (b *auditorBody) Check(c *wire.Checks) {
	c.Require("name", b.Name.Set)
	if b.Organization.Set {
		b.organization = c.UUID("organization", b.Organization.Value)
	}
	b.expires = expiry(c, b.ExpiresAt)
}

// issueAuditorToken answers POST /admin/auditors.
func (a *API) issueAuditorToken(r *http.Request, body auditorBody) (wire.Reply, error) {
	issued, err := a.Commands.IssueAuditorToken(r.Context(), operator(r), command.IssueAuditorToken{
		Name: body.Name.Value, Organization: body.organization, ExpiresAt: body.expires,
	})
	return a.tokenIssued(r, issued, err, auditors.ReadModel.Name)
}

// listAuditorTokens answers GET /admin/auditors.
func (a *API) listAuditorTokens(r *http.Request) (wire.Reply, error) {
	tokens, err := a.Queries.AuditorTokens(r.Context())
	if err != nil {
		return wire.Reply{}, err
	}
	return listed(tokens), nil
}

// revokeAuditorToken answers DELETE /admin/auditors/{id}.
func (a *API) revokeAuditorToken(r *http.Request, id string) (wire.Reply, error) {
	changed, err := a.Commands.RevokeAuditorToken(r.Context(), operator(r), command.RevokeAuditorToken{TokenID: id})
	return a.Changed(r, changed.Position, err, wire.Done(), auditors.ReadModel.Name)
}
