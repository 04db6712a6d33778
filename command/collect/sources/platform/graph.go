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

// GraphBase is the address of the Graph API of Facebook and Instagram.
const GraphBase = "https://graph.facebook.com/v26.0"

const (
	// maxUse is the used share of a limit, in percent, at which requests stop.
	maxUse = 90
	// graphRest is the pause if the headers name none. Use is counted over the past hour.
	graphRest = 10 * time.Minute
	// graphHit is the pause after a limit was exceeded.
	graphHit = time.Hour
	// GraphInterval is the minimum time between two requests.
	GraphInterval = 200 * time.Millisecond
)

// usage is the used share of a limit, in percent.
type usage struct {
	CallCount    float64 `json:"call_count"`
	TotalTime    float64 `json:"total_time"`
	TotalCPUTime float64 `json:"total_cputime"`
	// Regain is the time until the limit permits requests again, in minutes.
	Regain float64 `json:"estimated_time_to_regain_access"`
}

func (u usage) most() float64 { return max(u.CallCount, u.TotalTime, u.TotalCPUTime) }

// graphUse returns the pause that the headers about used limits ask for.
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
		case u.most() > maxUse:
			rest = max(rest, graphRest)
		}
	}
	return rest
}

// GraphError is the error of a Graph API answer.
type GraphError struct {
	Message string `json:"message"`
	Type    string `json:"type"`
	Code    int    `json:"code"`
	Subcode int    `json:"error_subcode"`
	Title   string `json:"error_user_title"`
}

// Graph sends a request to the Graph API, with the token as the documented parameter.
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

// Refusal is a request that the token does not permit. It matches [collect.ErrNeedsCredentials].
type Refusal struct{ GraphError }

// Error describes the refusal. Callers replace it by a sentence that names the data.
func (r *Refusal) Error() string { return fmt.Sprintf("permission is missing (code %d)", r.Code) }

// Unwrap returns the cause.
func (*Refusal) Unwrap() error { return collect.ErrNeedsCredentials }

// Missing is an account that the Graph API doesn't know or show.
type Missing struct{ GraphError }

// Error describes the failure. Callers replace it by a sentence that names the account.
func (*Missing) Error() string { return collect.ErrUnknownAccount.Error() }

// Unwrap returns the cause.
func (*Missing) Unwrap() error { return collect.ErrUnknownAccount }

// Codes of the Graph API's errors.
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
		pause := max(graphUse(answer.Header, c.Now()), Retry(answer.Header, c.Now()))
		return c.RestFor(ctx, call, max(pause, limitRest(pause)))
	case e.Code == codeParameter && strings.Contains(strings.ToLower(e.Message), "nonexisting field"):
		return &Refusal{e} // for this token
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

// limitRest returns the pause after a limit was exceeded, with a default if the answer names none.
func limitRest(pause time.Duration) time.Duration {
	if pause > 0 {
		return 0
	}
	return graphHit
}
