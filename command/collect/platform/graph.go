package platform

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"carillon/command/collect"
)

// GraphBase is the Graph API, which Facebook and Instagram share.
const GraphBase = "https://graph.facebook.com/v26.0"

const (
	// busy is the share of a limit, in percent, from which on nothing more is asked for.
	busy = 90
	// graphRest is how long is waited where the headers don't say: use is counted over an hour that moves on.
	graphRest = 10 * time.Minute
	// graphHit is for limits that were hit.
	graphHit = time.Hour
	// GraphInterval is the least time between two requests.
	GraphInterval = 200 * time.Millisecond
)

// usage is how much of a limit is used up, in percent.
type usage struct {
	CallCount    float64 `json:"call_count"`
	TotalTime    float64 `json:"total_time"`
	TotalCPUTime float64 `json:"total_cputime"`
	// Regain is when the limit lets one in again, in minutes.
	Regain float64 `json:"estimated_time_to_regain_access"`
}

func (u usage) most() float64 { return max(u.CallCount, u.TotalTime, u.TotalCPUTime) }

// graphUse reads the headers that tell how much of the limits is used up.
func graphUse(header http.Header, _ time.Time) time.Duration {
	var all []usage
	for _, name := range []string{"X-App-Usage", "X-Page-Usage"} {
		var one usage
		if json.Unmarshal([]byte(header.Get(name)), &one, lenient) == nil {
			all = append(all, one)
		}
	}
	for _, name := range []string{"X-Business-Use-Case-Usage", "X-Business-Use-Case"} {
		byBusiness := map[string][]usage{}
		if json.Unmarshal([]byte(header.Get(name)), &byBusiness, lenient) == nil {
			for _, some := range byBusiness {
				all = append(all, some...)
			}
		}
	}
	var rest time.Duration
	for _, u := range all {
		switch {
		case u.Regain > 0:
			rest = max(rest, time.Duration(min(u.Regain, 24*60)*float64(time.Minute)))
		case u.most() > busy:
			rest = max(rest, graphRest)
		}
	}
	return rest
}

// GraphError is what the Graph API answers where it fails.
type GraphError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    int    `json:"code"`
	Subcode int    `json:"error_subcode"`
	Title   string `json:"error_user_title"`
}

// Graph asks the Graph API, with the token as the parameter that its documentation names.
func (c *Client) Graph(ctx context.Context, token, path string, query url.Values, into any) error {
	call := Call{
		Path:           path,
		Query:          query,
		Token:          token,
		TokenParameter: "access_token",
		Rest:           graphUse,
	}
	answer, err := c.Do(ctx, call)
	if err != nil {
		return err
	}
	var failed struct {
		Error *GraphError `json:"error"`
	}
	broken := json.Unmarshal(answer.Body, &failed, lenient) != nil
	switch {
	case failed.Error != nil:
		return c.graphFailure(ctx, call, answer, *failed.Error)
	case answer.Status == http.StatusTooManyRequests:
		return c.RestFor(ctx, call, max(Retry(answer.Header, c.Now()), graphRest))
	case answer.Status < 200 || answer.Status > 299:
		return c.Failed(answer.Status, "", "")
	case broken:
		return c.cutShort()
	}
	return c.Read(answer, into)
}

// Refusal is a request that the token is not allowed to make. It matches [collect.ErrNeedsCredentials].
type Refusal struct{ GraphError }

// Error is replaced by a sentence that says what was to be read.
func (r *Refusal) Error() string { return fmt.Sprintf("permission is missing (code %d)", r.Code) }

// Unwrap gives the cause.
func (*Refusal) Unwrap() error { return collect.ErrNeedsCredentials }

// Missing is an account that the Graph API doesn't know, or doesn't show.
type Missing struct{ GraphError }

// Error is replaced by a sentence that names the account.
func (*Missing) Error() string { return collect.ErrUnknownAccount.Error() }

// Unwrap gives the cause.
func (*Missing) Unwrap() error { return collect.ErrUnknownAccount }

// The codes of the Graph API's errors.
const (
	codeToken, codeSession                         = 190, 102
	codeAppLimit, codeUserLimit, codePageLimit     = 4, 17, 32
	codeCustomLimit                                = 613
	codeBusinessLimits, codeBusinessLimitsEnd      = 80000, 80014
	codePermission, codePermissions, codePermsEnd  = 10, 200, 299
	codeParameter, codeAlias, codeNoUser           = 100, 803, 110
	subcodeNoObject, subcodeNoUser, subcodeExpired = 33, 2207013, 463
)

func (c *Client) graphFailure(ctx context.Context, call Call, answer *Answer, e GraphError) error {
	code := fmt.Sprintf("and code %d", e.Code)
	switch {
	case e.Code == codeToken && e.Subcode == subcodeExpired:
		return c.Refused("it has expired")
	case e.Code == codeToken || e.Code == codeSession:
		return c.Refused(e.Message)
	case e.Code == codeAppLimit, e.Code == codeUserLimit, e.Code == codePageLimit, e.Code == codeCustomLimit,
		e.Code >= codeBusinessLimits && e.Code <= codeBusinessLimitsEnd:
		told := max(graphUse(answer.Header, c.Now()), Retry(answer.Header, c.Now()))
		return c.RestFor(ctx, call, max(told, limitRest(told)))
	case e.Code == codeParameter && strings.Contains(strings.ToLower(e.Message), "nonexisting field"):
		return &Refusal{e} // to this token
	case e.Code == codePermission, e.Code >= codePermissions && e.Code <= codePermsEnd, e.Code == 3:
		return &Refusal{e}
	case e.Code == codeAlias, e.Code == codeNoUser, e.Subcode == subcodeNoUser, e.Code == codeParameter &&
		e.Subcode == subcodeNoObject:
		return &Missing{e}
	case e.Code == codeParameter && strings.Contains(strings.ToLower(e.Message), "does not exist"):
		return &Missing{e}
	}
	return c.Failed(answer.Status, code, e.Message)
}

// limitRest is how long is waited after a limit was hit and nothing says how long.
func limitRest(told time.Duration) time.Duration {
	if told > 0 {
		return 0
	}
	return graphHit
}
