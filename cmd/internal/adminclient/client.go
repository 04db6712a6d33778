// Package adminclient is the client of the admin API, for the command line. Its types are those of package adminapi.
package adminclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/apiclient"
	"carillon/query"
)

// refusedToken is the admin API's code for a token that is not good; on the same paths the API has another one.
const refusedToken = "AUTHENTICATION_FAILED" //nolint:gosec // a code

// Client talks to one server.
type Client struct{ api *apiclient.Client }

// New makes a client for a base URL such as http://127.0.0.1:8081.
func New(base, token string) *Client { return &Client{apiclient.NewAdmin(base, token)} }

// WithReason returns a client whose requests have a reason. Empty: none.
func (c *Client) WithReason(reason string) *Client { return &Client{c.api.WithReason(reason)} }

// NewKey is an API key to be made. All of it may be left out: a key may do everything then, and never expires.
type NewKey struct {
	Name      string     `json:"name,omitzero"`
	Scopes    []string   `json:"scopes,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitzero"`
}

// SetClientCertificate sets or replaces the client certificate of an organization. Both are PEM.
func (c *Client) SetClientCertificate(
	ctx context.Context, organization uuid.UUID, certificate, privateKey string,
) (query.ClientCertificate, error) {
	body := map[string]string{"certificate": certificate, "privateKey": privateKey}
	return Put[query.ClientCertificate](ctx, c, body, "organizations", organization.String(), "client-certificate")
}

// NewConsoleLink names the person whom a login link signs in, and the scopes; none means all.
type NewConsoleLink struct {
	As     string   `json:"as"`
	Scopes []string `json:"scopes,omitempty"`
}

// NewSource is a source to be added.
type NewSource struct {
	Type     string `json:"type"`
	URL      string `json:"url,omitzero"`
	Handle   string `json:"handle,omitzero"`
	Timezone string `json:"timezone,omitzero"`
}

// AddSource adds a source; a known one keeps its id.
func (c *Client) AddSource(ctx context.Context, source NewSource) (adminapi.Created, error) {
	return call[adminapi.Created](ctx, c, http.MethodPost, "/admin/sources", source)
}

// SourceFilter narrows a list of sources. Empty fields narrow nothing; the server knows what may be in them.
type SourceFilter struct{ State, Type, Text string }

// Sources lists sources, oldest first.
func (c *Client) Sources(ctx context.Context, f SourceFilter) ([]query.Source, error) {
	narrowed := url.Values{}
	for name, value := range map[string]string{"state": f.State, "type": f.Type, "q": f.Text} {
		if value != "" {
			narrowed.Set(name, value)
		}
	}
	path := "/admin/sources"
	if len(narrowed) > 0 {
		path += "?" + narrowed.Encode()
	}
	return list[query.Source](ctx, c, path)
}

// CollectSource asks for a collection now.
func (c *Client) CollectSource(ctx context.Context, id uuid.UUID) error {
	return c.do(ctx, http.MethodPost, "/admin/sources/"+id.String()+"/collect", nil)
}

// NewFeed is a feed that another system owns. A zero ID gets a fresh one.
type NewFeed struct {
	ID             uuid.UUID `json:"id,omitzero"`
	FeedType       string    `json:"feedType"`
	OrganizationID uuid.UUID `json:"organizationId"`
	Name           string    `json:"name"`
}

// Publish sends events as NDJSON, as they are read. A size of -1 means that it is not known; a short body whose size is
// known is checked whole before anything of it is published.
func (c *Client) Publish(ctx context.Context, events io.Reader, size int64) (published adminapi.Published, err error) {
	if size > 0 {
		events = io.LimitReader(events, size)
	}
	err = c.explained(c.api.Send(ctx, http.MethodPost, "/admin/events", apiclient.Body{
		Reader: events,
		Size:   size,
		Media:  "application/x-ndjson",
	}, &published))
	return published, err
}

// Projections lists all.
func (c *Client) Projections(ctx context.Context) ([]adminapi.Projection, error) {
	return list[adminapi.Projection](ctx, c, "/admin/projections")
}

// Rebuild begins to rebuild a projection.
func (c *Client) Rebuild(ctx context.Context, name string) error {
	return c.do(ctx, http.MethodPost, "/admin/projections/"+url.PathEscape(name)+"/rebuild", nil)
}

// Verify begins to compare a read model with its events.
func (c *Client) Verify(ctx context.Context, name string, sample float64) error {
	return c.do(ctx, http.MethodPost, "/admin/projections/"+url.PathEscape(name)+"/verify",
		map[string]float64{"sample": sample})
}

// Ready asks whether the server can serve. An *Error with status 503 names what it lacks.
func (c *Client) Ready(ctx context.Context) (health adminapi.Health, err error) {
	err = c.explained(c.api.Call(ctx, http.MethodGet, "/readyz", nil, &health))
	return health, err
}

func list[T any](ctx context.Context, c *Client, path string) ([]T, error) {
	whole, err := call[adminapi.List[T]](ctx, c, http.MethodGet, path, nil)
	return whole.Items, err
}

// List returns a list at a path, whose parts follow /admin.
func List[T any](ctx context.Context, c *Client, path ...string) ([]T, error) {
	return list[T](ctx, c, joined(path))
}

// Get returns what is at a path, whose parts follow /admin.
func Get[T any](ctx context.Context, c *Client, path ...string) (T, error) {
	return call[T](ctx, c, http.MethodGet, joined(path), nil)
}

// Post sends a body to a path, whose parts follow /admin, and returns the data of the answer.
func Post[T any](ctx context.Context, c *Client, body any, path ...string) (T, error) {
	return call[T](ctx, c, http.MethodPost, joined(path), body)
}

// Put is Post with another method.
func Put[T any](ctx context.Context, c *Client, body any, path ...string) (T, error) {
	return call[T](ctx, c, http.MethodPut, joined(path), body)
}

// Do sends a body, if it is not nil, to a path, whose parts follow /admin. The answer has no data.
func (c *Client) Do(ctx context.Context, method string, body any, path ...string) error {
	return c.do(ctx, method, joined(path), body)
}

// Post is Do with a method.
func (c *Client) Post(ctx context.Context, body any, path ...string) error {
	return c.Do(ctx, http.MethodPost, body, path...)
}

// Delete ends what is at a path, whose parts follow /admin.
func (c *Client) Delete(ctx context.Context, path ...string) error {
	return c.Do(ctx, http.MethodDelete, nil, path...)
}

func joined(parts []string) string {
	path := "/admin"
	for _, part := range parts {
		path += "/" + url.PathEscape(part)
	}
	return path
}

// Overlap is how long a rotated key or token goes on beside its successor.
type Overlap struct {
	Seconds int `json:"overlapSeconds"`
}

// NewToken is a token of an operator or auditor to be made. A nil ExpiresAt means never.
type NewToken struct {
	Name         string     `json:"name"`
	Organization uuid.UUID  `json:"organization,omitzero"` // the only one whose trail an auditor reads
	ExpiresAt    *time.Time `json:"expiresAt,omitzero"`
}

// call sends a body, if it is not nil, and returns the data of the answer.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (result T, err error) {
	err = c.explained(c.api.CallPatiently(ctx, method, path, body, &result))
	return result, err
}

// do is call for an answer without data.
func (c *Client) do(ctx context.Context, method, path string, body any) error {
	return c.explained(c.api.CallPatiently(ctx, method, path, body, nil))
}

// explained explains an error of a server at the wrong address.
func (c *Client) explained(err error) error {
	refused, ok := errors.AsType[*apiclient.Error](err)
	if ok && refused.Status == http.StatusUnauthorized && refused.Code != refusedToken {
		return fmt.Errorf("%s is the address of Carillon's API, not of its admin API: name that one (CARILLON_ADMIN_ADDR "+
			"or --admin-addr), which is 127.0.0.1:8081 by default", c.api.Base())
	}
	return err
}

// Happening is an event and the sources' views of it.
func (c *Client) Happening(ctx context.Context, id uuid.UUID) (adminapi.Happening, error) {
	return call[adminapi.Happening](ctx, c, http.MethodGet, "/admin/happenings/"+id.String(), nil)
}

// SplitHappening undoes what was merged.
func (c *Client) SplitHappening(ctx context.Context, id uuid.UUID) (adminapi.HappeningSplit, error) {
	return call[adminapi.HappeningSplit](ctx, c, http.MethodPost, "/admin/happenings/"+id.String()+"/split", nil)
}
