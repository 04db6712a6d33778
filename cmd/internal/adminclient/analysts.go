package adminclient

import (
	"context"
	"net/http"
	"net/url"

	"carillon/cmd/internal/adminapi"
)

const analystsPath = "/admin/analytics/logins"

// CreateAnalystLogin adds a Postgres user who reads the analysts' views. The connection string holds the password.
func (c *Client) CreateAnalystLogin(ctx context.Context, name string) (login adminapi.NewAnalystLogin, err error) {
	err = c.call(ctx, http.MethodPost, analystsPath, adminapi.AnalystLogin{Name: name}, &login)
	return login, err
}

// AnalystLogins returns all logins of analysts by name.
func (c *Client) AnalystLogins(ctx context.Context) (list []adminapi.AnalystLogin, err error) {
	err = c.list(ctx, analystsPath, &list)
	return list, err
}

// DeleteAnalystLogin removes a login and ends its sessions.
func (c *Client) DeleteAnalystLogin(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodDelete, analystsPath+"/"+url.PathEscape(name), nil, nil)
}
