package adminclient

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/query"
)

// IssueAuditorToken makes an auditor's token. A zero organization means the audit trail of all; expires may be nil.
func (c *Client) IssueAuditorToken(
	ctx context.Context, name string, organization uuid.UUID, expires *time.Time,
) (adminapi.IssuedToken, error) {
	body := struct {
		Name         string     `json:"name"`
		Organization uuid.UUID  `json:"organization,omitzero"`
		ExpiresAt    *time.Time `json:"expiresAt,omitzero"`
	}{name, organization, expires}
	return call[adminapi.IssuedToken](ctx, c, http.MethodPost, "/admin/auditors", body)
}

// AuditorTokens lists all, dead ones too.
func (c *Client) AuditorTokens(ctx context.Context) ([]query.AuditorCredential, error) {
	return list[query.AuditorCredential](ctx, c, "/admin/auditors")
}

// RevokeAuditorToken ends an auditor's token, named by its public part.
func (c *Client) RevokeAuditorToken(ctx context.Context, id string) error {
	return c.do(ctx, http.MethodDelete, "/admin/auditors/"+url.PathEscape(id), nil)
}

const operatorsPath = "/admin/operators"

// IssueOperatorToken admits an operator by name; expires may be nil.
func (c *Client) IssueOperatorToken(
	ctx context.Context, name string, expires *time.Time,
) (adminapi.IssuedToken, error) {
	body := struct {
		Name      string     `json:"name"`
		ExpiresAt *time.Time `json:"expiresAt,omitzero"`
	}{name, expires}
	return call[adminapi.IssuedToken](ctx, c, http.MethodPost, operatorsPath, body)
}

// OperatorTokens lists all tokens of operators, dead ones too, by name.
func (c *Client) OperatorTokens(ctx context.Context) ([]query.Credential, error) {
	return list[query.Credential](ctx, c, operatorsPath)
}

// RotateOperatorToken issues another token for an operator; the former ones stay valid for the overlap.
func (c *Client) RotateOperatorToken(
	ctx context.Context, name string, overlap time.Duration,
) (adminapi.IssuedToken, error) {
	path := operatorsPath + "/" + url.PathEscape(name) + "/rotate"
	return call[adminapi.IssuedToken](ctx, c, http.MethodPost, path, overlapping(overlap))
}

// RevokeOperator ends all tokens of an operator.
func (c *Client) RevokeOperator(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, operatorsPath+"/"+url.PathEscape(name), nil)
}

func overlapping(overlap time.Duration) map[string]int {
	return map[string]int{"overlapSeconds": int(overlap.Seconds())}
}
