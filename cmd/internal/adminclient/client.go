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

// WithReason returns a client that gives a reason for its requests. An empty one gives none.
func (c *Client) WithReason(reason string) *Client { return &Client{c.api.WithReason(reason)} }

// RegisterOrganization makes an organization.
func (c *Client) RegisterOrganization(ctx context.Context, name string) (adminapi.Created, error) {
	return call[adminapi.Created](ctx, c, http.MethodPost, "/admin/organizations", map[string]string{"name": name})
}

// Organizations lists all.
func (c *Client) Organizations(ctx context.Context) ([]query.Organization, error) {
	return list[query.Organization](ctx, c, "/admin/organizations")
}

// NewKey is an API key to be made. All of it may be left out: a key may do everything then, and never expires.
type NewKey struct {
	Name      string     `json:"name,omitzero"`
	Scopes    []string   `json:"scopes,omitempty"`
	ExpiresAt *time.Time `json:"expiresAt,omitzero"`
}

// IssueKey makes an API key.
func (c *Client) IssueKey(
	ctx context.Context, organization uuid.UUID, body NewKey,
) (adminapi.IssuedKey, error) {
	return call[adminapi.IssuedKey](ctx, c, http.MethodPost, organizationPath(organization)+"/keys", body)
}

// NewConsoleLink names the person whom a login link signs in, and the scopes; none means all.
type NewConsoleLink struct {
	As     string   `json:"as"`
	Scopes []string `json:"scopes,omitempty"`
}

// ConsoleLink makes a link that signs its bearer in at the organization's console, once.
func (c *Client) ConsoleLink(
	ctx context.Context, organization uuid.UUID, body NewConsoleLink,
) (adminapi.ConsoleLink, error) {
	return call[adminapi.ConsoleLink](ctx, c, http.MethodPost, organizationPath(organization)+"/console-link", body)
}

// Keys lists an organization's API keys, dead ones too, newest first.
func (c *Client) Keys(ctx context.Context, organization uuid.UUID) ([]query.KeyCredential, error) {
	return list[query.KeyCredential](ctx, c, organizationPath(organization)+"/keys")
}

// RotateKey makes a successor of an API key, which goes on for the overlap.
func (c *Client) RotateKey(
	ctx context.Context, organization uuid.UUID, keyID string, overlap time.Duration,
) (adminapi.IssuedKey, error) {
	path := organizationPath(organization) + "/keys/" + url.PathEscape(keyID) + "/rotate"
	return call[adminapi.IssuedKey](ctx, c, http.MethodPost, path, overlapping(overlap))
}

// RevokeKey ends an API key.
func (c *Client) RevokeKey(ctx context.Context, organization uuid.UUID, keyID string) error {
	return c.do(ctx, http.MethodDelete, organizationPath(organization)+"/keys/"+url.PathEscape(keyID),
		nil)
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

// SourceStates counts the sources by state.
func (c *Client) SourceStates(ctx context.Context) (adminapi.SourceStates, error) {
	return call[adminapi.SourceStates](ctx, c, http.MethodGet, "/admin/sources/states", nil)
}

// PauseSource stops visits of a source.
func (c *Client) PauseSource(ctx context.Context, id uuid.UUID, reason string) error {
	return c.do(ctx, http.MethodPost, "/admin/sources/"+id.String()+"/pause", map[string]string{"reason": reason})
}

// ResumeSource ends a pause.
func (c *Client) ResumeSource(ctx context.Context, id uuid.UUID) error {
	return c.do(ctx, http.MethodPost, "/admin/sources/"+id.String()+"/resume", nil)
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

// RegisterFeed makes a feed known.
func (c *Client) RegisterFeed(ctx context.Context, feed NewFeed) (adminapi.Created, error) {
	return call[adminapi.Created](ctx, c, http.MethodPost, "/admin/feeds", feed)
}

// ShareFeed lets an organization read a feed.
func (c *Client) ShareFeed(ctx context.Context, feedType string, feed, with uuid.UUID) error {
	return c.do(ctx, http.MethodPut, sharePath(feedType, feed, with), nil)
}

// UnshareFeed ends what ShareFeed began.
func (c *Client) UnshareFeed(ctx context.Context, feedType string, feed, with uuid.UUID) error {
	return c.do(ctx, http.MethodDelete, sharePath(feedType, feed, with), nil)
}

func sharePath(feedType string, feed, with uuid.UUID) string {
	return "/admin/feeds/" + url.PathEscape(feedType) + "/" + feed.String() + "/shares/" + with.String()
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

// RotateMaster has everything wrapped by the next master key, and waits until it is.
func (c *Client) RotateMaster(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "/admin/keys/rotate-master", nil)
}

// RenewKeys makes what was shredded unreadable wherever Postgres has kept it, and waits until it is.
func (c *Client) RenewKeys(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "/admin/keys/renew", nil)
}

// Ready asks whether the server can serve. An *Error with status 503 names what it lacks.
func (c *Client) Ready(ctx context.Context) (adminapi.Health, error) {
	return call[adminapi.Health](ctx, c, http.MethodGet, "/readyz", nil)
}

func list[T any](ctx context.Context, c *Client, path string) ([]T, error) {
	whole, err := call[adminapi.List[T]](ctx, c, http.MethodGet, path, nil)
	return whole.Items, err
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
