// Package platform is shared by the clients of the platforms' APIs: bounded requests for JSON, the limits of a token,
// descriptions of failures, and observations from posts.
//
//	collector ──▶ Call ──▶ turn of the token ──▶ request ──▶ answer ──▶ events, posts ──▶ observations
//	                            ▲                               │
//	                            └── rest, as the headers say ◀──┘
//
// Secrets leave it inside the request only: errors name nothing but the platform, the variable and the path.
package platform

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
)

// Options configure the access to a platform.
type Options struct {
	// Base is the address of the API, without a slash at the end.
	Base string
	// Transport connects, and refuses forbidden addresses.
	Transport http.RoundTripper
	// Blocked reports whether an error is the transport's refusal. nil matches no error.
	Blocked func(error) bool
	// Explain returns the words of any other error of the transport, without the address. Optional.
	Explain   func(error) string
	UserAgent string
	// Hosts shares the limits of a token between collectors. By default it is local to the process.
	Hosts fetch.Hosts
	// Now returns the current time. Default: time.Now.
	Now func() time.Time
	// Timeout limits a request with its answer. Default: 30 s.
	Timeout time.Duration
	// Answered is called after each request with its outcome, one of [fetch.Outcomes], and its duration. Optional.
	Answered func(outcome string, took time.Duration)
}

const (
	defaultTimeout = 30 * time.Second
	// maxAnswer exceeds a page of any of the APIs.
	maxAnswer = 8 << 20
	// maxWait is the longest pause within a visit. After a longer one the source continues in another visit.
	maxWait = 10 * time.Second
)

// Client sends requests to one platform's API.
type Client struct {
	// Name is the display name of the platform.
	Name string
	// Interval is the minimum time between two requests with one token.
	Interval time.Duration

	o       Options
	secrets []string
}

// New returns a client. It does not repeat texts of the platform that contain one of the secrets.
func New(name string, interval time.Duration, o Options, secrets ...string) *Client {
	if o.Blocked == nil {
		o.Blocked = func(error) bool { return false }
	}
	if o.Explain == nil {
		o.Explain = func(error) string { return "no answer" }
	}
	if o.Hosts == nil {
		o.Hosts = fetch.NewMemory()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	o.Base = strings.TrimRight(o.Base, "/")
	return &Client{
		Name:     name,
		Interval: interval,
		o:        o,
		secrets:  secrets,
	}
}

// Now returns the time of the client's clock.
func (c *Client) Now() time.Time { return c.o.Now() }

// Call is one request.
type Call struct {
	Method string // default GET
	Path   string // below the base, as in "/videos/list/"
	Query  url.Values
	Body   any
	// Token is the secret. It is sent as a bearer token, or as the parameter TokenParameter.
	Token, TokenParameter string
	// Limit names a limit that holds for part of an API only.
	Limit string
	// Rest returns the pause that the headers of an answer ask for.
	Rest func(header http.Header, now time.Time) time.Duration
}

// Answer is the response to a Call.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do sends a request when the token has its turn. An answer of any status is not an error.
func (c *Client) Do(ctx context.Context, call Call) (*Answer, error) {
	limit := c.limit(call)
	if err := c.wait(ctx, limit); err != nil {
		return nil, err
	}
	began := time.Now()
	answer, err := c.request(ctx, call)
	if c.o.Answered != nil {
		status := 0
		if answer != nil {
			status = answer.Status
		}
		c.o.Answered(fetch.OutcomeOf(status, err), time.Since(began))
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &collect.FetchError{Place: c.Name + " " + call.Path, Err: err}
	}
	if rest := call.rest(answer, c.o.Now()); rest > 0 {
		if err := c.o.Hosts.Rest(ctx, limit, rest); err != nil {
			return nil, fmt.Errorf("%s: keep its limit: %w", c.Name, err)
		}
	}
	return answer, nil
}

// rest returns the pause that an answer asks for.
func (c Call) rest(answer *Answer, now time.Time) (rest time.Duration) {
	if answer.Status == http.StatusServiceUnavailable {
		rest = Retry(answer.Header, now)
	}
	if c.Rest != nil {
		rest = max(rest, c.Rest(answer.Header, now))
	}
	return rest
}

// limit names the counter of limits: the token of any platform, because Facebook and Instagram may share one. The name
// is a digest, because names are stored.
func (c *Client) limit(call Call) string {
	digest := sha256.Sum256([]byte(call.Token))
	return "platform token " + hex.EncodeToString(digest[:8]) + strings.TrimRight(" "+call.Limit, " ")
}

// RestFor blocks the token for a while, and returns the error about that.
func (c *Client) RestFor(ctx context.Context, call Call, rest time.Duration) error {
	if err := c.o.Hosts.Rest(ctx, c.limit(call), rest); err != nil {
		return fmt.Errorf("%s: keep its limit: %w", c.Name, err)
	}
	return c.resting(rest)
}

func (c *Client) resting(rest time.Duration) error {
	return &Error{
		Sentence: fmt.Sprintf("%s's limit for the token in %s is nearly used up; collecting goes on in %s", c.Name,
			Setting, max(rest.Round(time.Second), time.Second)),
		Cause: &collect.RestError{For: rest},
	}
}

func (c *Client) wait(ctx context.Context, limit string) error {
	for {
		wait, resting, err := c.o.Hosts.Take(ctx, limit, c.Interval)
		switch {
		case err != nil:
			return fmt.Errorf("%s: turn of its token: %w", c.Name, err)
		case wait <= 0:
			return nil
		case resting && wait > maxWait:
			return c.resting(wait)
		}
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
			return collect.ErrTimeout
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

func (c *Client) request(ctx context.Context, call Call) (*Answer, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.o.Timeout, collect.ErrTimeout)
	defer cancel()
	query := url.Values{}
	for name, values := range call.Query {
		query[name] = values
	}
	if call.TokenParameter != "" {
		query.Set(call.TokenParameter, call.Token)
	}
	var body io.Reader = http.NoBody
	if call.Body != nil {
		data, err := json.Marshal(call.Body)
		if err != nil {
			return nil, fmt.Errorf("%w: write request", collect.ErrBadURL)
		}
		body = bytes.NewReader(data)
	}
	address := c.o.Base + call.Path
	if len(query) > 0 {
		address += "?" + query.Encode()
	}
	method := call.Method
	if method == "" {
		method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fmt.Errorf("%w: malformed", collect.ErrBadURL) // err contains the address with the token
	}
	if call.TokenParameter == "" {
		req.Header.Set("Authorization", "Bearer "+call.Token)
	}
	if call.Body != nil {
		req.Header.Set("Content-Type", "application/json; charset=UTF-8")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.o.UserAgent)
	// Redirects are not followed: they would carry the token elsewhere.
	resp, err := c.o.Transport.RoundTrip(req)
	if err != nil {
		return nil, c.connectionError(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil && ctx.Err() == nil && (errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)):
		return nil, c.cutShort()
	case err != nil:
		return nil, c.connectionError(ctx, err)
	case len(data) > maxAnswer:
		return nil, collect.ErrTooLarge
	}
	return &Answer{Status: resp.StatusCode, Header: resp.Header, Body: data}, nil
}

// connectionError translates an error of the transport, whose text may contain the address.
func (c *Client) connectionError(ctx context.Context, err error) error {
	switch {
	case c.o.Blocked(err):
		return fmt.Errorf("%w: %s leads to a private address, which CARILLON_COLLECT_ALLOW_CIDRS must allow",
			collect.ErrBlockedAddress, c.o.Base)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w to %s: %s", collect.ErrConnection, c.o.Base, c.o.Explain(err))
}

func (c *Client) cutShort() error {
	return &Error{Sentence: c.Name + "'s answer was cut short or is no JSON; the next visit asks again",
		Cause: collect.ErrBadAnswer}
}

// lenient accepts duplicate names and invalid UTF-8, which platforms send.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Read decodes an answer.
func (c *Client) Read(answer *Answer, into any) error {
	if err := json.Unmarshal(answer.Body, into, lenient); err != nil {
		return c.cutShort() // err may repeat the answer
	}
	return nil
}
