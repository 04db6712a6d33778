package visiting

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"time"

	"carillon/aggregates/source"
	"carillon/command/collect"
)

// errNoCollector is the failure of a source whose type this server does not know.
var errNoCollector = errors.New("sources of this type can't be collected by this server")

// maxMessage limits the stored part of an error, in bytes.
const maxMessage = 500

// reasons lists the stable names of failures with the advice for operators. The first match counts.
var reasons = []struct {
	err          error
	name, advice string
}{
	{errNoCollector, "unsupported_type", "start a server of a version that can collect it, or detach the source from " +
		"its feeds"},
	{collect.ErrPanicked, "collector", "a page revealed a fault in Carillon: report it with the server's log"},
	{collect.ErrRobotsDisallowed, "robots", "ask the owner of the site to let Carillon in by its robots.txt, or detach " +
		"the source from its feeds"},
	{collect.ErrTooLarge, "too_large", "add the address of a smaller page or calendar in its place"},
	{collect.ErrTooComplex, "too_complex", "add the address of a simpler page, or of the site's calendar, in its place"},
	{collect.ErrTooManyRedirects, "redirects", "open the address in a browser, and add its final address in its " +
		"place"},
	{collect.ErrBlockedAddress, "blocked_address", "it leads to a private address: if that is meant, for " +
		"development, CARILLON_COLLECT_ALLOW_CIDRS opens the range"},
	{collect.ErrBadURL, "bad_url", "add the right address in its place"},
	{collect.ErrUnsupportedContent, "unsupported_content", "it is neither a page nor a calendar, feed or sitemap: add " +
		"another address in its place"},
	{collect.ErrResting, "host_resting", "nothing: it is visited again when its host wants to be asked"},
	{collect.ErrUnknownAccount, "unknown_account", "look whether the handle is right, and whether the token may see " +
		"the account"},
	{collect.ErrPrivateAccount, "private_account", "ask its owner to open the account, or detach the source from " +
		"its feeds"},
	{collect.ErrBadAnswer, "bad_answer", "nothing, unless it stays so: then look whether the platform's address is " +
		"the API's"},
	{collect.ErrHTTPStatus, "http_status", "open the address in a browser: if the page has moved, add its new " +
		"address in its place"},
	{collect.ErrTimeout, "timeout", "nothing, unless it stays so: then look whether this machine reaches the address"},
	{context.DeadlineExceeded, "timeout", ""},
	{collect.ErrConnection, "connection", "nothing, unless it stays so: then look whether this machine reaches the " +
		"address"},
}

// otherReason names every failure that reasons does not list.
const otherReason = "other"

// Reasons returns the stable names of the failures of a source.
func Reasons() []string {
	names := []string{otherReason}
	for _, reason := range reasons {
		if !slices.Contains(names, reason.name) {
			names = append(names, reason.name)
		}
	}
	return names
}

// Advice returns what an operator can do about a failure reason or the code of a note, or "" for an unknown one.
func Advice(about string) string {
	for _, reason := range reasons {
		if reason.name == about {
			return reason.advice
		}
	}
	return map[string]string{
		otherReason: "look into the server's log",
		string(collect.NoteNoEvents): "look at what is read with \"carillon source try\"; its calendar, or the " +
			"page that lists its events, may show more",
		string(collect.NoteNeedsJavaScript): "add the site's calendar, feed or sitemap in its place: they need no scripts",
		string(collect.NoteSkippedEvent):    "\"carillon source try --explain\" shows what is missing",
		string(collect.NoteBrokenMarkup):    "report to the owner of the site that its structured data can't be read",
		string(collect.NoteAssumedTimezone): "add it again with --timezone",
		string(collect.NoteSeveralDates): "nothing, unless they are versions of one date: then its publisher has to " +
			"count them by SEQUENCE",
		string(collect.NoteGuessed): "\"carillon source set\" keeps selectors, of this list or a better one, or leaves out " +
			"such lists",
		string(collect.NotePageFailed): "nothing, unless it stays so: then open the address in a browser",
		string(collect.NoteLeftOut):    "nothing, unless something is missing",
		string(collect.NoteTruncated):  "add parts of it as sources of their own, such as one of its sitemaps",
		noteUnstorable:                 "the server's log names it",
	}[about]
}

// stopped ends a visit whose source is unavailable at present.
func (v *visit) stopped(ctx context.Context, at collect.Visited, cause error) (Next, error) {
	switch {
	case ctx.Err() != nil, errors.Is(cause, ErrLost), !collect.Stops(cause), errors.Is(cause, collect.ErrUnavailable):
		return Next{}, cause
	case errors.Is(cause, collect.ErrNeedsCredentials):
		v.outcome = outcomeCredentials
		next := Next{In: v.spread(source.CredentialsInterval), Over: true, Interval: v.turn.Interval}
		return next, v.onSource(ctx, source.LackCredentials{
			Number:  v.turn.Number,
			Message: clip(cause.Error()),
			NextAt:  v.now().Add(next.In),
			At:      v.now(),
		})
	case at.Known.Root:
		return v.fail(ctx, cause)
	}
	v.outcome = reasonOf(cause)
	// The host asked for a pause in the middle of a walk; the walk continues after it.
	next := v.continueLater(max(retryAfter(cause), restPause))
	next.Remark = clip(cause.Error())
	return next, nil
}

// failed ends a visit in which no page can be read. A walk beyond its first page keeps its place.
func (v *visit) failed(ctx context.Context, at collect.Visited) (Next, error) {
	if at.Known.Root {
		return v.fail(ctx, at.Err)
	}
	v.outcome = reasonOf(at.Err)
	next := v.continueLater(0)
	next.Failures++
	next.In, next.UnreadableInARow, next.Remark = v.spread(source.BackOff(next.Failures, 0)), 0, clip(at.Err.Error())
	return next, nil
}

// fail ends a walk that failed.
func (v *visit) fail(ctx context.Context, cause error) (Next, error) {
	v.log.Info("collection failed", "error", cause)
	v.outcome = reasonOf(cause)
	failures := max(v.turn.Failures, v.turn.Recorded.State.Failures) + 1
	next := Next{
		In:       v.spread(source.BackOff(failures, retryAfter(cause))),
		Over:     true,
		Interval: v.turn.Interval,
		Failures: failures,
	}
	return next, v.onSource(ctx, source.Fail{
		Number:   v.turn.Number,
		Reason:   reasonOf(cause),
		Message:  clip(cause.Error()),
		Failures: failures,
		NextAt:   v.now().Add(next.In),
		At:       v.now(),
	})
}

func (v *visit) needsJavaScript(ctx context.Context, text string) (Next, error) {
	v.outcome = outcomeJavaScript
	next := Next{
		In:        v.spread(source.ScriptsInterval),
		Over:      true,
		Completed: true,
		Interval:  v.turn.Interval,
	}
	return next, v.onSource(ctx, source.NeedJavaScript{
		Number:  v.turn.Number,
		Message: clip(text),
		NextAt:  v.now().Add(next.In),
		At:      v.now(),
	})
}

// collector returns the collector of the source. Pages are foreign input: a panic while reading one fails the page,
// not the process.
func (v *visit) collector() collect.Collector {
	if c := v.Collectors[v.turn.Source.Type]; c != nil {
		return guarded{c}
	}
	return missing{}
}

type guarded struct{ collect.Collector }

// Read implements collect.Collector.
func (g guarded) Read(ctx context.Context, s collect.Source, known collect.Known) (page collect.Page, err error) {
	place, err := url.Parse(known.Address)
	if err != nil { // an account's
		place = &url.URL{Path: known.Address}
	}
	err = collect.Survive(place, func() error {
		page, err = g.Collector.Read(ctx, s, known)
		return err
	})
	return page, err
}

// missing replaces a collector that this server does not have.
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
	return otherReason
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

// clip shortens s to valid text of at most maxMessage bytes.
func clip(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage], "") + "…"
}
