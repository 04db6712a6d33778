package adminclient

import (
	"context"
	"net/http"
	"net/url"

	"carillon/cmd/internal/adminapi"
)

const analystsPath = "/admin/analytics/logins"

// CreateAnalystLogin adds a Postgres user who reads the analysts' views. The connection string holds the password.
func (c *Client) CreateAnalystLogin(ctx context.Context, name string) (adminapi.NewAnalystLogin, error) {
	return call[adminapi.NewAnalystLogin](ctx, c, http.MethodPost, analystsPath, adminapi.AnalystLogin{Name: name})
}

// AnalystLogins returns all logins of analysts by name.
func (c *Client) AnalystLogins(ctx context.Context) ([]adminapi.AnalystLogin, error) {
	return list[adminapi.AnalystLogin](ctx, c, analystsPath)
}

// DeleteAnalystLogin removes a login and ends its sessions.
func (c *Client) DeleteAnalystLogin(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodDelete, analystsPath+"/"+url.PathEscape(name), nil)
}
