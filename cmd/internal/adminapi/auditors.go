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
	r.operators.Post("/admin/auditors", wire.Events.Handle(a.issueAuditorToken))
	r.operators.Get("/admin/auditors", wire.Events.Handle(a.listAuditorTokens))
	r.operators.Delete("/admin/auditors/{id}", wire.Events.Handle(a.revokeAuditorToken))
}

// Auditor is an auditor's token of a list.
type Auditor struct {
	Credential

	Organization *uuid.UUID `json:"organization"` // the only one whose audit trail it reads; null: all
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
func (a *API) issueAuditorToken(r *http.Request) (wire.Reply, error) {
	body, err := wire.Decode[auditorBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	issued, err := a.Commands.IssueAuditorToken(r.Context(), operator(r), command.IssueAuditorToken{
		Name: body.Name.Value, Organization: body.organization, ExpiresAt: body.expires,
	})
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), issued.Position, auditors.ReadModel.Name)
	return wire.Created(IssuedToken{ID: issued.Value.ID, Token: issued.Value.Reveal()}), nil
}

// listAuditorTokens answers GET /admin/auditors.
func (a *API) listAuditorTokens(r *http.Request) (wire.Reply, error) {
	tokens, err := a.Queries.AuditorTokens(r.Context())
	if err != nil {
		return wire.Reply{}, err
	}
	list := List[Auditor]{Items: make([]Auditor, len(tokens))}
	for i, t := range tokens {
		list.Items[i] = Auditor{Credential: credentialOf(t.Credential), Organization: t.Organization}
	}
	return wire.OK(list), nil
}

// revokeAuditorToken answers DELETE /admin/auditors/{id}.
func (a *API) revokeAuditorToken(r *http.Request) (wire.Reply, error) {
	id, err := wire.PathText(r, "id")
	if err != nil {
		return wire.Reply{}, err
	}
	changed, err := a.Commands.RevokeAuditorToken(r.Context(), operator(r), command.RevokeAuditorToken{TokenID: id})
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), changed.Position, auditors.ReadModel.Name)
	return wire.Done(), nil
}
