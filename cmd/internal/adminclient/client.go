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
func (c *Client) RegisterOrganization(ctx context.Context, name string) (created adminapi.Created, err error) {
	err = c.call(ctx, http.MethodPost, "/admin/organizations", map[string]string{"name": name}, &created)
	return created, err
}

// Organizations lists all.
func (c *Client) Organizations(ctx context.Context) (list []adminapi.Organization, err error) {
	err = c.list(ctx, "/admin/organizations", &list)
	return list, err
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
) (issued adminapi.IssuedKey, err error) {
	err = c.call(ctx, http.MethodPost, "/admin/organizations/"+organization.String()+"/keys", body, &issued)
	return issued, err
}

// NewConsoleLink names the person whom a login link signs in, and the scopes; none means all.
type NewConsoleLink struct {
	As     string   `json:"as"`
	Scopes []string `json:"scopes,omitempty"`
}

// ConsoleLink makes a link that signs its bearer in at the organization's console, once.
func (c *Client) ConsoleLink(
	ctx context.Context, organization uuid.UUID, body NewConsoleLink,
) (link adminapi.ConsoleLink, err error) {
	err = c.call(ctx, http.MethodPost, "/admin/organizations/"+organization.String()+"/console-link", body, &link)
	return link, err
}

// Keys lists an organization's API keys, dead ones too, newest first.
func (c *Client) Keys(ctx context.Context, organization uuid.UUID) ([]adminapi.Key, error) {
	var list adminapi.List[adminapi.Key]
	err := c.call(ctx, http.MethodGet, "/admin/organizations/"+organization.String()+"/keys", nil, &list)
	return list.Items, err
}

// RotateKey makes a successor of an API key, which goes on for the overlap.
func (c *Client) RotateKey(
	ctx context.Context, organization uuid.UUID, keyID string, overlap time.Duration,
) (issued adminapi.IssuedKey, err error) {
	path := "/admin/organizations/" + organization.String() + "/keys/" + url.PathEscape(keyID) + "/rotate"
	err = c.call(ctx, http.MethodPost, path, overlapping(overlap), &issued)
	return issued, err
}

// RevokeKey ends an API key.
func (c *Client) RevokeKey(ctx context.Context, organization uuid.UUID, keyID string) error {
	return c.call(ctx, http.MethodDelete, "/admin/organizations/"+organization.String()+"/keys/"+url.PathEscape(keyID),
		nil, nil)
}

// NewSource is a source to be added.
type NewSource struct {
	Type     string `json:"type"`
	URL      string `json:"url,omitzero"`
	Handle   string `json:"handle,omitzero"`
	Timezone string `json:"timezone,omitzero"`
}

// AddSource adds a source; a known one keeps its id.
func (c *Client) AddSource(ctx context.Context, source NewSource) (created adminapi.Created, err error) {
	err = c.call(ctx, http.MethodPost, "/admin/sources", source, &created)
	return created, err
}

// SourceFilter narrows a list of sources. Empty fields narrow nothing; the server knows what may be in them.
type SourceFilter struct{ State, Type, Text string }

// Sources lists sources, oldest first.
func (c *Client) Sources(ctx context.Context, f SourceFilter) (list []adminapi.Source, err error) {
	query := url.Values{}
	for name, value := range map[string]string{"state": f.State, "type": f.Type, "q": f.Text} {
		if value != "" {
			query.Set(name, value)
		}
	}
	path := "/admin/sources"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	err = c.list(ctx, path, &list)
	return list, err
}

// SourceStates counts the sources by state.
func (c *Client) SourceStates(ctx context.Context) (states adminapi.SourceStates, err error) {
	err = c.call(ctx, http.MethodGet, "/admin/sources/states", nil, &states)
	return states, err
}

// PauseSource stops visits of a source.
func (c *Client) PauseSource(ctx context.Context, id uuid.UUID, reason string) error {
	return c.call(ctx, http.MethodPost, "/admin/sources/"+id.String()+"/pause", map[string]string{"reason": reason}, nil)
}

// ResumeSource ends a pause.
func (c *Client) ResumeSource(ctx context.Context, id uuid.UUID) error {
	return c.call(ctx, http.MethodPost, "/admin/sources/"+id.String()+"/resume", nil, nil)
}

// CollectSource asks for a collection now.
func (c *Client) CollectSource(ctx context.Context, id uuid.UUID) error {
	return c.call(ctx, http.MethodPost, "/admin/sources/"+id.String()+"/collect", nil, nil)
}

// NewFeed is a feed that another system owns. A zero ID gets a fresh one.
type NewFeed struct {
	ID             uuid.UUID `json:"id,omitzero"`
	FeedType       string    `json:"feedType"`
	OrganizationID uuid.UUID `json:"organizationId"`
	Name           string    `json:"name"`
}

// RegisterFeed makes a feed known.
func (c *Client) RegisterFeed(ctx context.Context, feed NewFeed) (created adminapi.Created, err error) {
	err = c.call(ctx, http.MethodPost, "/admin/feeds", feed, &created)
	return created, err
}

// ShareFeed lets an organization read a feed.
func (c *Client) ShareFeed(ctx context.Context, feedType string, feed, with uuid.UUID) error {
	return c.call(ctx, http.MethodPut, sharePath(feedType, feed, with), nil, nil)
}

// UnshareFeed ends what ShareFeed began.
func (c *Client) UnshareFeed(ctx context.Context, feedType string, feed, with uuid.UUID) error {
	return c.call(ctx, http.MethodDelete, sharePath(feedType, feed, with), nil, nil)
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
func (c *Client) Projections(ctx context.Context) (list []adminapi.Projection, err error) {
	err = c.list(ctx, "/admin/projections", &list)
	return list, err
}

// Rebuild begins to rebuild a projection.
func (c *Client) Rebuild(ctx context.Context, name string) error {
	return c.call(ctx, http.MethodPost, "/admin/projections/"+url.PathEscape(name)+"/rebuild", nil, nil)
}

// Verify begins to compare a read model with its events.
func (c *Client) Verify(ctx context.Context, name string, sample float64) error {
	return c.call(ctx, http.MethodPost, "/admin/projections/"+url.PathEscape(name)+"/verify",
		map[string]float64{"sample": sample}, nil)
}

// RotateMaster has everything wrapped by the next master key, and waits until it is.
func (c *Client) RotateMaster(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/admin/keys/rotate-master", nil, nil)
}

// RenewKeys makes what was shredded unreadable wherever Postgres has kept it, and waits until it is.
func (c *Client) RenewKeys(ctx context.Context) error {
	return c.call(ctx, http.MethodPost, "/admin/keys/renew", nil, nil)
}

// Ready asks whether the server can serve. An *Error with status 503 names what it lacks.
func (c *Client) Ready(ctx context.Context) (health adminapi.Health, err error) {
	err = c.call(ctx, http.MethodGet, "/readyz", nil, &health)
	return health, err
}

func (c *Client) list(ctx context.Context, path string, items any) error {
	return c.call(ctx, http.MethodGet, path, nil, &struct {
		Items any `json:"items"`
	}{items})
}

func (c *Client) call(ctx context.Context, method, path string, body, into any) error {
	return c.explained(c.api.CallPatiently(ctx, method, path, body, into))
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
