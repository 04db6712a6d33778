package adminapi

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/credential"
	"carillon/projections/auditors"
	"carillon/query"
)

func (a *API) auditorRoutes(r chi.Router) {
	r.Post("/admin/auditors", wire.Events.Handle(a.issueAuditorToken))
	r.Get("/admin/auditors", wire.Events.Handle(a.listAuditorTokens))
	r.Delete("/admin/auditors/{id}", wire.Events.Handle(a.revokeAuditorToken))
}

// auditorMay reports whether an auditor's token is enough for a request: it reads the audit trail, or how current that
// is. Paths with escapes are refused, because the router compares the escaped path and this function the decoded one.
func auditorMay(r *http.Request) bool {
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead
	return reads && r.URL.RawPath == "" && (strings.HasPrefix(r.URL.Path, "/admin/audit/destinations/") || r.URL.Path == "/admin/projections")
}

// auditorOf reports whether a token is a valid auditor's token. The error says that it could not be looked up.
func (a *API) auditorOf(ctx context.Context, token string) (bool, error) {
	presented, ok := credential.Parse(credential.AuditorToken, token)
	if !ok {
		return false, nil
	}
	hash, err := a.Queries.AuditorHash(ctx, presented.ID, a.Now())
	switch {
	case errors.Is(err, query.ErrNotFound):
		return false, nil
	case err != nil:
		return false, err
	}
	wire.Note(ctx, slog.String("auditor", presented.ID))
	return subtle.ConstantTimeCompare(hash, presented.Hash()) == 1, nil
}

// IssuedAuditorToken is a new token. It can't be shown again.
type IssuedAuditorToken struct {
	ID    string `json:"id"`
	Token string `json:"token"`
}

type auditorBody struct {
	Name      wire.Optional[string] `json:"name"`
	ExpiresAt *string               `json:"expiresAt"`
	expires   *time.Time
}

// Check implements wire.Body.
func (b *auditorBody) Check(c *wire.Checks) {
	c.Name("name", b.Name, 1, maxName)
	if b.ExpiresAt == nil {
		return
	}
	at, err := wire.ParseTime(*b.ExpiresAt)
	if err != nil {
		c.Fail("expiresAt", "must be an ISO 8601 time with Z or an offset, such as 2027-01-01T00:00:00Z")
	}
	b.expires = &at
}

// issueAuditorToken answers POST /admin/auditors.
func (a *API) issueAuditorToken(r *http.Request) (wire.Reply, error) {
	body, err := wire.Decode[auditorBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	issued, at, err := a.Commands.IssueAuditorToken(r.Context(), operator(r), command.IssueAuditorToken{Name: body.Name.Value, ExpiresAt: body.expires})
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), at, auditors.ReadModel.Name)
	return wire.Created(IssuedAuditorToken{ID: issued.ID, Token: issued.Token.Reveal()}), nil
}

// listAuditorTokens answers GET /admin/auditors.
func (a *API) listAuditorTokens(r *http.Request) (wire.Reply, error) {
	tokens, err := a.Queries.AuditorTokens(r.Context())
	if err != nil {
		return wire.Reply{}, err
	}
	return wire.OK(credentials(tokens)), nil
}

// revokeAuditorToken answers DELETE /admin/auditors/{id}.
func (a *API) revokeAuditorToken(r *http.Request) (wire.Reply, error) {
	id, err := wire.PathText(r, "id")
	if err != nil {
		return wire.Reply{}, err
	}
	at, err := a.Commands.RevokeAuditorToken(r.Context(), operator(r), command.RevokeAuditorToken{TokenID: id})
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), at, auditors.ReadModel.Name)
	return wire.Done(), nil
}
