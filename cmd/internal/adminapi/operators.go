package adminapi

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/credential"
	"carillon/projections/auditors"
	"carillon/projections/operators"
)

func (a *API) operatorRoutes(r routes) {
	r.operators.Post("/admin/operators", handle(wire.With(wire.Decode[operatorBody], a.issueOperatorToken)))
	r.operators.Get("/admin/operators", handle(a.listOperatorTokens))
	r.operators.Post("/admin/operators/{name}/rotate",
		handle(wire.With2(pathName, wire.DecodeOptional[overlapBody], a.rotateOperatorToken)))
	r.operators.Delete("/admin/operators/{name}", handle(wire.With(pathName, a.revokeOperator)))
}

// IssuedToken is a new token of an operator or auditor. It can't be shown again.
type IssuedToken struct {
	ID    string `json:"id"`
	Token string `json:"token"`
}

// tokenIssued answers with a new token.
func (a *API) tokenIssued(
	r *http.Request, issued command.Result[credential.Credential], refused error, projection string,
) (wire.Reply, error) {
	reply := wire.Created(IssuedToken{ID: issued.Value.ID, Token: issued.Value.Reveal()})
	return a.Changed(r, issued.Position, refused, reply, projection)
}

type operatorBody struct {
	Name      wire.Optional[string] `json:"name"`
	ExpiresAt *string               `json:"expiresAt"`
	expires   *time.Time
}

// Check implements wire.Body. The command checks how the name is written.
func (b *operatorBody) Check(c *wire.Checks) {
	c.Require("name", b.Name.Set)
	b.expires = expiry(c, b.ExpiresAt)
}

// expiry reads the expiry of a key or token; nil means never.
func expiry(c *wire.Checks, given *string) *time.Time {
	if given == nil {
		return nil
	}
	at, err := wire.ParseTime(*given)
	if err != nil {
		c.Fail("expiresAt", "must be an ISO 8601 time with Z or an offset, such as 2027-01-01T00:00:00Z")
	}
	return &at
}

// issueOperatorToken answers POST /admin/operators.
func (a *API) issueOperatorToken(r *http.Request, body operatorBody) (wire.Reply, error) {
	issued, err := a.Commands.IssueOperatorToken(r.Context(), operator(r), command.IssueOperatorToken{
		Name:      body.Name.Value,
		ExpiresAt: body.expires,
	})
	return a.tokenIssued(r, issued, err, operators.ReadModel.Name)
}

// listOperatorTokens answers GET /admin/operators.
func (a *API) listOperatorTokens(r *http.Request) (wire.Reply, error) {
	tokens, err := a.Queries.OperatorTokens(r.Context())
	return listed(tokens), err
}

// overlapBody is how long a rotated key or token stays valid.
type overlapBody struct {
	OverlapSeconds wire.Optional[int] `json:"overlapSeconds"`
}

// Check implements wire.Body. The command checks the range.
func (b *overlapBody) Check(*wire.Checks) {}

func (b *overlapBody) overlap() time.Duration {
	if !b.OverlapSeconds.Set {
		return command.UsualOverlap
	}
	return command.OverlapOf(b.OverlapSeconds.Value)
}

// rotateOperatorToken answers POST /admin/operators/{name}/rotate.
func (a *API) rotateOperatorToken(r *http.Request, name string, body overlapBody) (wire.Reply, error) {
	issued, err := a.Commands.RotateOperatorToken(r.Context(), operator(r), command.RotateOperatorToken{
		Name:    name,
		Overlap: body.overlap(),
	})
	return a.tokenIssued(r, issued, err, operators.ReadModel.Name)
}

// revokeOperator answers DELETE /admin/operators/{name}.
func (a *API) revokeOperator(r *http.Request, name string) (wire.Reply, error) {
	changed, err := a.Commands.RevokeOperator(r.Context(), operator(r), command.RevokeOperator{Name: name})
	return a.Changed(r, changed.Position, err, wire.Done(), operators.ReadModel.Name)
}

// record has it on record that an operator begins something that leaves no other event.
func (a *API) record(r *http.Request, action, subject string) error {
	return a.recordBy(r, operator(r), action, subject)
}

// recordBy is record for an action that concerns the caller's organization.
func (a *API) recordBy(r *http.Request, by command.Caller, action, subject string) error {
	return a.Commands.RecordAction(r.Context(), by, command.RecordAction{Action: action, Subject: subject})
}

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
	return listed(tokens), err
}

// revokeAuditorToken answers DELETE /admin/auditors/{id}.
func (a *API) revokeAuditorToken(r *http.Request, id string) (wire.Reply, error) {
	changed, err := a.Commands.RevokeAuditorToken(r.Context(), operator(r), command.RevokeAuditorToken{TokenID: id})
	return a.Changed(r, changed.Position, err, wire.Done(), auditors.ReadModel.Name)
}
