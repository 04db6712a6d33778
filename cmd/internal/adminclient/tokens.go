package adminclient

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
)

// IssueAuditorToken makes an auditor's token. A zero organization means the audit trail of all; expires may be nil.
func (c *Client) IssueAuditorToken(
	ctx context.Context, name string, organization uuid.UUID, expires *time.Time,
) (issued adminapi.IssuedToken, err error) {
	body := struct {
		Name         string     `json:"name"`
		Organization uuid.UUID  `json:"organization,omitzero"`
		ExpiresAt    *time.Time `json:"expiresAt,omitzero"`
	}{name, organization, expires}
	err = c.call(ctx, http.MethodPost, "/admin/auditors", body, &issued)
	return issued, err
}

// AuditorTokens lists all, dead ones too.
func (c *Client) AuditorTokens(ctx context.Context) (list []adminapi.Auditor, err error) {
	err = c.list(ctx, "/admin/auditors", &list)
	return list, err
}

// RevokeAuditorToken ends an auditor's token, named by its public part.
func (c *Client) RevokeAuditorToken(ctx context.Context, id string) error {
	return c.call(ctx, http.MethodDelete, "/admin/auditors/"+url.PathEscape(id), nil, nil)
}

const operatorsPath = "/admin/operators"

// IssueOperatorToken admits an operator by name; expires may be nil.
func (c *Client) IssueOperatorToken(
	ctx context.Context, name string, expires *time.Time,
) (issued adminapi.IssuedToken, err error) {
	body := struct {
		Name      string     `json:"name"`
		ExpiresAt *time.Time `json:"expiresAt,omitzero"`
	}{name, expires}
	err = c.call(ctx, http.MethodPost, operatorsPath, body, &issued)
	return issued, err
}

// OperatorTokens lists all tokens of operators, dead ones too, by name.
func (c *Client) OperatorTokens(ctx context.Context) (list []adminapi.Credential, err error) {
	err = c.list(ctx, operatorsPath, &list)
	return list, err
}

// RotateOperatorToken issues another token for an operator; the former ones stay valid for the overlap.
func (c *Client) RotateOperatorToken(
	ctx context.Context, name string, overlap time.Duration,
) (issued adminapi.IssuedToken, err error) {
	err = c.call(ctx, http.MethodPost, operatorsPath+"/"+url.PathEscape(name)+"/rotate", overlapping(overlap), &issued)
	return issued, err
}

// RevokeOperator ends all tokens of an operator.
func (c *Client) RevokeOperator(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, operatorsPath+"/"+url.PathEscape(name), nil, nil)
}

func overlapping(overlap time.Duration) map[string]int {
	return map[string]int{"overlapSeconds": int(overlap.Seconds())}
}
