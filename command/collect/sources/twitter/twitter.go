// Package twitter collects the posts of an account of X with its API version 2: it looks up the account, then its
// posts.
package twitter

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/sources/platform"
)

const (
	// Type is the source type that this package serves.
	Type = "twitter"
	// Base is the default address of the API.
	Base = "https://api.x.com/2"

	pageSize = 100
	interval = 200 * time.Millisecond
	// reservedShare is the part of a limit that remains unused, as a divisor.
	reservedShare = 10
	// maxRest is the length of the longest window of the API.
	maxRest   = 24 * time.Hour
	limitRest = 15 * time.Minute
	leastRest = time.Minute
)

// Collector is the collector of type twitter.
type Collector struct {
	client *platform.Client
	token  string
	window func() timing.Window
}

var _ collect.Collector = (*Collector)(nil)

// New returns a Collector. Without a token all its sources need credentials.
func New(token string, window func() timing.Window, o platform.Options) *Collector {
	if o.Base == "" {
		o.Base = Base
	}
	return &Collector{client: platform.New("X", interval, o, token), token: token, window: window}
}

// Start implements collect.Collector.
func (*Collector) Start(source collect.Source) []collect.Link {
	return []collect.Link{{Address: platform.Address{Platform: Type, Account: platform.Handle(source)}.String(),
		List: true}}
}

// Read implements collect.Collector.
func (c *Collector) Read(ctx context.Context, source collect.Source, known collect.Known) (collect.Page, error) {
	if c.token == "" {
		return collect.Page{}, c.client.NoCredentials("twitter=TOKEN")
	}
	at := platform.ParseAddress(known.Address)
	at.Platform, at.Account = Type, platform.Handle(source)
	requests := 1
	id := at.Part
	if id == "" {
		id = platform.Extra(known.State)
	}
	if !isNumber(id) {
		found, err := c.lookUp(ctx, at.Account)
		if err != nil {
			return collect.Page{}, err
		}
		id = found
		requests++
	}
	page, err := c.posts(ctx, source, known, at, id)
	page.Requests = requests
	return page, err
}

func isNumber(id string) bool { return id != "" && strings.Trim(id, "0123456789") == "" }

type user struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Username  string `json:"username"`
	Avatar    string `json:"profile_image_url"`
	Protected bool   `json:"protected"`
}

// problem is one of the API's errors, which may come with a successful status.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Status int    `json:"status"`
}

func (p problem) is(name string) bool { return strings.HasSuffix(p.Type, "/"+name) }

// lookUp returns the number of an account.
func (c *Collector) lookUp(ctx context.Context, account string) (string, error) {
	var answer struct {
		Data   *user     `json:"data"`
		Errors []problem `json:"errors"`
	}
	query := url.Values{"user.fields": {"id,name,username,profile_image_url,protected"}}
	err := c.ask(ctx, "/users/by/username/"+url.PathEscape(account), query, "users", &answer)
	switch {
	case err != nil:
		return "", err
	case answer.Data != nil && answer.Data.Protected:
		return "", c.client.Private(account)
	case answer.Data != nil && isNumber(answer.Data.ID):
		return answer.Data.ID, nil
	}
	return "", c.problem(account, answer.Errors)
}

// problem translates an answer without data.
func (c *Collector) problem(account string, all []problem) error {
	if len(all) > 0 {
		switch p := all[0]; {
		case p.is("resource-not-found") || p.Title == "Not Found Error":
			return c.client.Unknown(account, "")
		case p.is("not-authorized-for-resource") || p.Title == "Authorization Error":
			return c.client.Private(account)
		case strings.Contains(strings.ToLower(p.Detail), "suspended"):
			return c.client.Unknown(account, " any more: it is suspended")
		default:
			return c.client.Failed(http.StatusOK, "", p.Detail)
		}
	}
	return c.client.Lacks("data")
}

// ask sends a request and translates its status.
func (c *Collector) ask(ctx context.Context, path string, query url.Values, limit string, into any) error {
	call := platform.Call{
		Path:  path,
		Query: query,
		Token: c.token,
		Limit: limit,
		Rest:  remaining,
	}
	answer, err := c.client.Do(ctx, call)
	if err != nil {
		return err
	}
	if answer.Status >= 200 && answer.Status <= 299 {
		return c.client.Read(answer, into)
	}
	var p problem
	_ = c.client.Read(answer, &p) // optional
	switch answer.Status {
	case http.StatusTooManyRequests:
		now := c.client.Now()
		pause := max(remaining(answer.Header, now), untilReset(answer.Header, windows[0], now),
			platform.Retry(answer.Header, now))
		return c.client.RestFor(ctx, call, max(pause, restUnless(answer.Header)))
	case http.StatusUnauthorized:
		return c.client.Refused(p.Detail)
	case http.StatusForbidden:
		return c.client.NotPermitted("posts", "an app in a project whose access level allows it"+detail(p))
	case http.StatusPaymentRequired:
		return c.client.NotPermitted("posts", "credits, which are used up"+detail(p))
	}
	return c.client.Failed(answer.Status, "", p.Detail)
}

func detail(p problem) string {
	if p.Title == "" || len(p.Title) > pageSize {
		return ""
	}
	return fmt.Sprintf(" (%s)", strings.Join(strings.Fields(p.Title), " "))
}

// windows are the windows of limits, as the headers begin: a quarter of an hour, and the days of apps and of users.
var windows = []string{"X-Rate-Limit-", "X-App-Limit-24hour-", "X-User-Limit-24hour-"}

// remaining returns the pause when nearly all of a limit is used.
func remaining(header http.Header, now time.Time) (wait time.Duration) {
	for _, window := range windows {
		limit, err := strconv.Atoi(header.Get(window + "Limit"))
		left, err2 := strconv.Atoi(header.Get(window + "Remaining"))
		if err2 == nil && (left <= 0 || err == nil && left*reservedShare < limit) {
			wait = max(wait, untilReset(header, window, now))
		}
	}
	return wait
}

func untilReset(header http.Header, window string, now time.Time) time.Duration {
	reset, err := strconv.ParseInt(header.Get(window+"Reset"), 10, 64)
	if err != nil {
		return 0
	}
	return min(max(time.Unix(reset, 0).Sub(platform.Clock(header, now)), 0), maxRest)
}

// restUnless returns the minimum pause after a limit was exceeded: 0 if the answer names a reset, even a past one.
func restUnless(header http.Header) time.Duration {
	if header.Get("X-Rate-Limit-Reset") != "" || header.Get("Retry-After") != "" {
		return leastRest
	}
	return limitRest
}
