package collection

import (
	"context"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"carillon/aggregates/source"
	"carillon/command/collect"
)

var (
	errNoCollector = errors.New("sources of this type can't be collected by this server")
	errPanicked    = errors.New("the collector could not cope with what it read")
)

// maxMessage bounds what is kept of an error, in bytes.
const maxMessage = 500

// reasons are the stable names of what can go wrong; the first that matches counts.
var reasons = []struct {
	err  error
	name string
}{
	{errNoCollector, "unsupported_type"},
	{errPanicked, "collector"},
	{collect.ErrPanicked, "collector"},
	{collect.ErrRobotsDisallowed, "robots"},
	{collect.ErrTooLarge, "too_large"},
	{collect.ErrTooComplex, "too_complex"},
	{collect.ErrTooManyRedirects, "redirects"},
	{collect.ErrBlockedAddress, "blocked_address"},
	{collect.ErrBadURL, "bad_url"},
	{collect.ErrUnsupportedContent, "unsupported_content"},
	{collect.ErrResting, "host_resting"},
	{collect.ErrHTTPStatus, "http_status"},
	{collect.ErrTimeout, "timeout"},
	{context.DeadlineExceeded, "timeout"},
	{collect.ErrConnection, "connection"},
}

// fail records that the visit did not get through.
func (v *visit) fail(ctx context.Context, cause error) error {
	message := clip(cause.Error())
	if errors.Is(cause, collect.ErrNeedsCredentials) {
		_, err := v.onSource(ctx, source.LackCredentials{Number: v.number, Message: message, Spread: v.spread(), At: v.now()})
		return err
	}
	_, err := v.onSource(ctx, source.Fail{
		Number: v.number, Reason: reasonOf(cause), Message: message, RetryAfter: retryAfter(cause), Spread: v.spread(), At: v.now(),
	})
	return err
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
		return rest.For
	}
	return 0
}

// clip makes a message of bounded length that is valid text.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "�")
	if len(s) <= maxMessage {
		return s
	}
	cut := maxMessage
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
