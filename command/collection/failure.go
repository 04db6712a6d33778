package collection

import (
	"context"
	"errors"
	"net/url"
	"runtime/debug"
	"strings"
	"time"
	"unicode/utf8"

	"carillon/aggregates/source"
	"carillon/command/collect"
)

// errNoCollector is told of sources of a type that this server does not know.
var errNoCollector = errors.New("sources of this type can't be collected by this server")

// maxMessage bounds what is kept of an error, in bytes.
const maxMessage = 500

// reasons are the stable names of what can go wrong; the first that matches counts.
var reasons = []struct {
	err  error
	name string
}{
	{errNoCollector, "unsupported_type"},
	{collect.ErrPanicked, "collector"},
	{collect.ErrRobotsDisallowed, "robots"},
	{collect.ErrTooLarge, "too_large"},
	{collect.ErrTooComplex, "too_complex"},
	{collect.ErrTooManyRedirects, "redirects"},
	{collect.ErrBlockedAddress, "blocked_address"},
	{collect.ErrBadURL, "bad_url"},
	{collect.ErrUnsupportedContent, "unsupported_content"},
	{collect.ErrResting, "host_resting"},
	{collect.ErrUnknownAccount, "unknown_account"},
	{collect.ErrPrivateAccount, "private_account"},
	{collect.ErrBadAnswer, "bad_answer"},
	{collect.ErrHTTPStatus, "http_status"},
	{collect.ErrTimeout, "timeout"},
	{context.DeadlineExceeded, "timeout"},
	{collect.ErrConnection, "connection"},
}

// stopped ends a visit after which nothing of the source can be had now.
func (v *visit) stopped(ctx context.Context, at collect.Visited, cause error) (Next, error) {
	switch {
	case ctx.Err() != nil, errors.Is(cause, ErrLost), !collect.Stops(cause), errors.Is(cause, collect.ErrUnavailable):
		return Next{}, cause
	case errors.Is(cause, collect.ErrNeedsCredentials):
		next := Next{In: v.spread(source.CredentialsInterval), Over: true, Interval: v.turn.Interval}
		return next, v.onSource(ctx, source.LackCredentials{
			Number: v.turn.Number, Message: clip(cause.Error()), NextAt: v.now().Add(next.In), At: v.now(),
		})
	case at.Known.Root:
		return v.fail(ctx, cause)
	}
	// The host wants to be left alone in the middle of a walk, which goes on when it may.
	next := v.goOn(max(retryAfter(cause), restPause))
	next.Remark = clip(cause.Error())
	return next, nil
}

// failed ends a visit in which nothing can be read. A walk that has come beyond its first page goes on where it is.
func (v *visit) failed(ctx context.Context, at collect.Visited) (Next, error) {
	if at.Known.Root {
		return v.fail(ctx, at.Err)
	}
	next := v.goOn(0)
	next.Failures++
	next.In, next.Stumbles, next.Remark = v.spread(source.BackOff(next.Failures, 0)), 0, clip(at.Err.Error())
	return next, nil
}

// fail ends a walk that did not get through.
func (v *visit) fail(ctx context.Context, cause error) (Next, error) {
	v.log.Info("collection failed", "error", cause)
	failures := max(v.turn.Failures, v.turn.Recorded.State.Failures) + 1
	next := Next{In: v.spread(source.BackOff(failures, retryAfter(cause))), Over: true, Interval: v.turn.Interval, Failures: failures}
	return next, v.onSource(ctx, source.Fail{
		Number: v.turn.Number, Reason: reasonOf(cause), Message: clip(cause.Error()), Failures: failures,
		NextAt: v.now().Add(next.In), At: v.now(),
	})
}

func (v *visit) needsJavaScript(ctx context.Context, text string) (Next, error) {
	next := Next{In: v.spread(source.ScriptsInterval), Over: true, Completed: true, Interval: v.turn.Interval}
	return next, v.onSource(ctx, source.NeedJavaScript{Number: v.turn.Number, Message: clip(text), NextAt: v.now().Add(next.In), At: v.now()})
}

// collector reads the pages of the source. What it reads was written by strangers: a mistake of ours that a page brings
// to light is a failure of that page, not of the process.
func (v *visit) collector() collect.Collector {
	if c := v.Collectors[v.turn.Source.Type]; c != nil {
		return guarded{c}
	}
	return missing{}
}

type guarded struct{ collect.Collector }

// Read implements collect.Collector.
func (g guarded) Read(ctx context.Context, s collect.Source, known collect.Known) (page collect.Page, err error) {
	defer func() {
		if p := recover(); p != nil {
			place := known.Address
			if u, err := url.Parse(place); err == nil {
				place = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
			}
			page, err = collect.Page{}, &collect.PanicError{Place: place, Value: p, Stack: debug.Stack()}
		}
	}()
	return g.Collector.Read(ctx, s, known)
}

// missing stands in for a collector that this server does not have.
type missing struct{}

// Start implements collect.Collector.
func (missing) Start(s collect.Source) []collect.Link {
	return []collect.Link{{Address: s.URL + s.Handle}}
}

// Read implements collect.Collector.
func (missing) Read(context.Context, collect.Source, collect.Known) (collect.Page, error) {
	return collect.Page{}, errNoCollector
}

func reasonOf(err error) string {
	for _, reason := range reasons {
		if errors.Is(err, reason.err) {
			return reason.name
		}
	}
	return "other"
}

func retryAfter(err error) time.Duration {
	var status *collect.StatusError
	if errors.As(err, &status) {
		return max(status.RetryAfter, 0)
	}
	var rest *collect.RestError
	if errors.As(err, &rest) {
		return max(rest.For, 0)
	}
	return 0
}

// clip makes a message of bounded length that is valid text.
func clip(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if len(s) <= maxMessage {
		return s
	}
	cut := maxMessage
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
