package collect

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"carillon/eventstore/panics"
)

// Reasons why a collection failed. Match with errors.Is; the typed errors of this file have details for errors.As.
var (
	// ErrRobotsDisallowed is returned if the site's robots.txt forbids the page, or is unavailable because the site has
	// failures.
	ErrRobotsDisallowed = errors.New("robots.txt disallows it")
	// ErrTooLarge is returned for an answer above the size limit.
	ErrTooLarge = errors.New("answer is too large")
	// ErrTooComplex is returned for a page that exceeds its budget.
	ErrTooComplex = errors.New("page is too complex")
	// ErrTimeout is returned for an answer that took too long.
	ErrTimeout = errors.New("no answer in time")
	// ErrHTTPStatus is returned for an unsuccessful answer, see [StatusError].
	ErrHTTPStatus = errors.New("unexpected http status")
	// ErrResting is returned while a host asks for a pause, see [RestError].
	ErrResting = errors.New("the host asked for a pause")
	// ErrUnavailable is returned if something besides the source that collecting needs is unavailable.
	ErrUnavailable = errors.New("collecting is not possible now")
	// ErrTooManyRedirects is returned for too many redirects, or a loop.
	ErrTooManyRedirects = errors.New("too many redirects")
	// ErrBlockedAddress is returned for a private or reserved address.
	ErrBlockedAddress = errors.New("address is blocked")
	// ErrConnection is returned for a missing answer because of DNS, TCP or TLS.
	ErrConnection = errors.New("connection failed")
	// ErrBadURL is returned if the source's URL, or one it redirects to, can't be fetched.
	ErrBadURL = errors.New("url can't be fetched")
	// ErrUnsupportedContent is returned for a media type without a reader.
	ErrUnsupportedContent = errors.New("content type is not supported")
	// ErrPanicked is returned for a page that makes its reader panic.
	ErrPanicked = errors.New("reading the page panicked")
	// ErrNeedsCredentials is returned if the platform needs credentials that are missing, or refuses the configured ones.
	ErrNeedsCredentials = errors.New("credentials are missing or refused")
	// ErrUnknownAccount is returned if the platform has no such account, or does not show it.
	ErrUnknownAccount = errors.New("there is no such account")
	// ErrPrivateAccount is returned for an account whose posts are not public.
	ErrPrivateAccount = errors.New("account is private")
	// ErrBadAnswer is returned for an incomplete or undocumented answer of a platform.
	ErrBadAnswer = errors.New("answer can't be read")
)

// StatusError is an unsuccessful answer. It matches [ErrHTTPStatus].
type StatusError struct {
	Code int
	// RetryAfter is the pause that the answer asks for, 0 if it names none.
	RetryAfter time.Duration
}

// Error returns a text with the status code.
func (e *StatusError) Error() string { return fmt.Sprintf("http status %d", e.Code) }

// Is reports whether target is ErrHTTPStatus.
func (e *StatusError) Is(target error) bool { return target == ErrHTTPStatus }

// RestError is a host that asks for a pause. It matches [ErrResting].
type RestError struct {
	For time.Duration // from now on
}

// Error returns a text with the length of the pause.
func (e *RestError) Error() string {
	return fmt.Sprintf("%s, for another %s", ErrResting, e.For.Round(time.Second))
}

// Is reports whether target is ErrResting.
func (e *RestError) Is(target error) bool { return target == ErrResting }

// FetchError is a failed fetch with its cause. Place has scheme, host and path only, because queries may have secrets.
type FetchError struct {
	Place string
	Err   error
}

// Error returns the place and the cause.
func (e *FetchError) Error() string { return "fetch " + e.Place + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *FetchError) Unwrap() error { return e.Err }

// Survive calls a reader of foreign input. A panic of it becomes an error that matches [ErrPanicked], with scheme, host
// and path of the page.
func Survive(page *url.URL, read func() error) error {
	err := panics.Catch("reader of pages", read)
	if _, panicked := errors.AsType[*panics.Error](err); panicked {
		return fmt.Errorf("%w: %s", ErrPanicked, &url.URL{Scheme: page.Scheme, Host: page.Host, Path: page.Path})
	}
	return err
}
