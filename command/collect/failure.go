package collect

import (
	"errors"
	"fmt"
	"net/url"
	"runtime/debug"
	"time"
)

// Why a collection failed. Match with errors.Is; the typed errors of this file tell more with errors.As.
var (
	// ErrRobotsDisallowed: the site's robots.txt asks us to stay away, or could not be had because the site is in
	// trouble.
	ErrRobotsDisallowed = errors.New("robots.txt disallows it")
	// ErrTooLarge: the answer exceeds the size cap.
	ErrTooLarge = errors.New("answer is too large")
	// ErrTooComplex: reading the page would cost more than any page may.
	ErrTooComplex = errors.New("page is too complex")
	// ErrTimeout: the answer took longer than the time cap.
	ErrTimeout = errors.New("no answer in time")
	// ErrHTTPStatus: the answer is not a success, see [StatusError].
	ErrHTTPStatus = errors.New("unexpected http status")
	// ErrResting: the host has asked to be left alone for a while, see [RestError].
	ErrResting = errors.New("the host asked to be left alone for now")
	// ErrUnavailable: something that collecting needs can't be reached, through no fault of the source's.
	ErrUnavailable = errors.New("collecting is not possible now")
	// ErrTooManyRedirects: more redirects than are followed, or a loop.
	ErrTooManyRedirects = errors.New("too many redirects")
	// ErrBlockedAddress: the address is private or reserved.
	ErrBlockedAddress = errors.New("address is blocked")
	// ErrConnection: no answer, for DNS, TCP or TLS reasons.
	ErrConnection = errors.New("connection failed")
	// ErrBadURL: the source's URL, or one it redirects to, can't be fetched.
	ErrBadURL = errors.New("url can't be fetched")
	// ErrUnsupportedContent: the answer is of a media type that isn't read.
	ErrUnsupportedContent = errors.New("content type is not supported")
	// ErrPanicked: a mistake of ours that a page brought to light, see [PanicError].
	ErrPanicked = errors.New("page can't be coped with")
	// ErrNeedsCredentials: the platform wants credentials that aren't configured, or refuses those that are.
	ErrNeedsCredentials = errors.New("credentials are missing or refused")
	// ErrUnknownAccount: the platform has no such account, or shows it to nobody.
	ErrUnknownAccount = errors.New("there is no such account")
	// ErrPrivateAccount: the account shows what it posts to those alone whom it admits.
	ErrPrivateAccount = errors.New("account is private")
	// ErrBadAnswer: the platform's answer was cut short, or is none that its documentation has.
	ErrBadAnswer = errors.New("answer can't be read")
)

// StatusError is an answer other than success. It matches [ErrHTTPStatus].
type StatusError struct {
	Code int
	// RetryAfter is what the answer asks for, 0 if it asks for nothing.
	RetryAfter time.Duration
}

// Error names the status code.
func (e *StatusError) Error() string { return fmt.Sprintf("http status %d", e.Code) }

// Is makes errors.Is(err, ErrHTTPStatus) true.
func (e *StatusError) Is(target error) bool { return target == ErrHTTPStatus }

// RestError is a host that wants to be left alone. It matches [ErrResting].
type RestError struct {
	For time.Duration // from now on
}

// Error names how long.
func (e *RestError) Error() string {
	return fmt.Sprintf("%s, for another %s", ErrResting, e.For.Round(time.Second))
}

// Is makes errors.Is(err, ErrResting) true.
func (e *RestError) Is(target error) bool { return target == ErrResting }

// FetchError says which fetch failed, and wraps why. Place is scheme, host and path only: queries may carry secrets.
type FetchError struct {
	Place string
	Err   error
}

// Error names the place and the reason.
func (e *FetchError) Error() string { return "fetch " + e.Place + ": " + e.Err.Error() }

// Unwrap gives the reason.
func (e *FetchError) Unwrap() error { return e.Err }

// PanicError is a panic of a reader. It matches [ErrPanicked]. Place is scheme, host and path of the page only.
type PanicError struct {
	Place string
	Value any
	Stack []byte
}

// Error names the page.
func (e *PanicError) Error() string { return ErrPanicked.Error() + ": " + e.Place }

// Is makes errors.Is(err, ErrPanicked) true.
func (e *PanicError) Is(target error) bool { return target == ErrPanicked }

// Survive calls a reader of what strangers wrote in a page. A panic of it becomes a [PanicError].
func Survive(page *url.URL, read func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			place := (&url.URL{Scheme: page.Scheme, Host: page.Host, Path: page.Path}).String()
			err = &PanicError{Place: place, Value: p, Stack: debug.Stack()}
		}
	}()
	return read()
}
