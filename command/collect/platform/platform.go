// Package platform is what the clients of the platforms' APIs share: one request for JSON within bounds, the limits of
// a token, the words for what went wrong, and the way from posts to observations.
//
//	collector ──▶ Call ──▶ turn of the token ──▶ request ──▶ answer ──▶ events, posts ──▶ observations
//	                            ▲                               │
//	                            └── rest, as the headers say ◀──┘
//
// Secrets never leave it but inside the request: errors name the platform, the variable and the path, nothing else.
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
	"carillon/command/collect/fetch"
)

// Options says how a platform is reached.
type Options struct {
	// Base is the address of the API, without a slash at the end.
	Base string
	// Transport makes the connections and refuses addresses that must not be reached.
	Transport http.RoundTripper
	// Blocked recognises the transport's refusal. Default: no error is one.
	Blocked   func(error) bool
	UserAgent string
	// Hosts is where the limits of a token are shared by all who collect. Default: for this process alone.
	Hosts fetch.Hosts
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Timeout caps a request and its answer. Default: 30 s.
	Timeout time.Duration
	// Answered, if set, is told of each request how it ended, one of [fetch.Outcomes], and how long it took.
	Answered func(outcome string, took time.Duration)
}

const (
	defaultTimeout = 30 * time.Second
	// maxAnswer is more than a page of any of the APIs has.
	maxAnswer = 8 << 20
	// shortRest is waited for; where a token rests longer, the source comes again later.
	shortRest = 10 * time.Second
)

// Client asks one platform's API.
type Client struct {
	// Name is the platform's, as people write it; Variable the setting that holds its token.
	Name, Variable string
	// Interval is the least time between two requests with one token.
	Interval time.Duration

	o       Options
	secrets []string
}

// New makes a client. Words of the platform that hold one of the secrets are not repeated.
func New(name, variable string, interval time.Duration, o Options, secrets ...string) *Client {
	if o.Blocked == nil {
		o.Blocked = func(error) bool { return false }
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
		Variable: variable,
		Interval: interval,
		o:        o,
		secrets:  secrets,
	}
}

// Now is the client's clock.
func (c *Client) Now() time.Time { return c.o.Now() }

// Call is one request.
type Call struct {
	Method string // default GET
	Path   string // below the base, as in "/videos/list/"
	Query  url.Values
	Body   any
	// Token is the secret. It goes as a bearer, or as the parameter of this name.
	Token, TokenParameter string
	// Limit tells limits apart that hold for part of an API only.
	Limit string
	// Rest reads how long the limit asks to wait, out of the headers of any answer.
	Rest func(header http.Header, now time.Time) time.Duration
}

// Answer is what came back.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Do makes a request, once the token has its turn. An answer of any status is no error.
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

// rest is how long an answer asks to wait.
func (c Call) rest(answer *Answer, now time.Time) (rest time.Duration) {
	if answer.Status == http.StatusServiceUnavailable {
		rest = Retry(answer.Header, now)
	}
	if c.Rest != nil {
		rest = max(rest, c.Rest(answer.Header, now))
	}
	return rest
}

// limit names what the limits are counted for: a token, for whichever platform it is used, as Facebook and Instagram
// may have the same. It is named by its digest: names are stored.
func (c *Client) limit(call Call) string {
	digest := sha256.Sum256([]byte(call.Token))
	return "platform token " + hex.EncodeToString(digest[:8]) + strings.TrimRight(" "+call.Limit, " ")
}

// RestFor lets nobody use the token for a while, and says so.
func (c *Client) RestFor(ctx context.Context, call Call, rest time.Duration) error {
	if err := c.o.Hosts.Rest(ctx, c.limit(call), rest); err != nil {
		return fmt.Errorf("%s: keep its limit: %w", c.Name, err)
	}
	return c.resting(rest)
}

func (c *Client) resting(rest time.Duration) error {
	return &Error{
		Sentence: fmt.Sprintf("%s's limit for the token in %s is nearly used up; collecting goes on in %s", c.Name,
			c.Variable, max(rest.Round(time.Second), time.Second)),
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
		case resting && wait > shortRest:
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
		return nil, fmt.Errorf("%w: malformed", collect.ErrBadURL) // err repeats the address, token and all
	}
	if call.TokenParameter == "" {
		req.Header.Set("Authorization", "Bearer "+call.Token)
	}
	if call.Body != nil {
		req.Header.Set("Content-Type", "application/json; charset=UTF-8")
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.o.UserAgent)
	// No redirect is followed: it would carry the token elsewhere.
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

// connectionError gives an error of the transport its meaning. Its own words stay out: they may repeat the address.
func (c *Client) connectionError(ctx context.Context, err error) error {
	switch {
	case c.o.Blocked(err):
		return fmt.Errorf("%w: %s leads to a private address, which CARILLON_COLLECT_ALLOW_CIDRS must allow",
			collect.ErrBlockedAddress, c.o.Base)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: no answer from %s", collect.ErrConnection, c.o.Base)
}

func (c *Client) cutShort() error {
	return &Error{Sentence: c.Name + "'s answer was cut short or is no JSON; the next visit asks again",
		Cause: collect.ErrBadAnswer}
}

// lenient reads what platforms send: names may come twice, text may be broken.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// Read reads an answer.
func (c *Client) Read(answer *Answer, into any) error {
	if err := json.Unmarshal(answer.Body, into, lenient); err != nil {
		return c.cutShort() // err may repeat what was sent
	}
	return nil
}
