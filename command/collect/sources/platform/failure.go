package platform

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"carillon/command/collect"
)

// Error is a failure in a sentence for operators. It never contains a secret.
type Error struct {
	Sentence string
	Cause    error // one of package collect
}

// Error returns the sentence.
func (e *Error) Error() string { return e.Sentence }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Setting is the variable that lists the tokens of all platforms.
const Setting = "CARILLON_PLATFORM_TOKENS"

// NoCredentials returns the error of a platform whose entry, such as facebook=TOKEN, is missing in Setting.
func (c *Client) NoCredentials(entry string) error {
	return &Error{
		Sentence: fmt.Sprintf("%s allows no reading without credentials: add %s to %s, or to the file in %[3]s_FILE, and "+
			"restart the server", c.Name, entry, Setting),
		Cause: collect.ErrNeedsCredentials,
	}
}

// Refused returns the error of a rejected token, with the platform's reason if there is one.
func (c *Client) Refused(why string) error {
	return &Error{
		Sentence: fmt.Sprintf("%s refuses the token in %s%s: make a new one and restart the server", c.Name, Setting,
			c.quoted(why)),
		Cause: collect.ErrNeedsCredentials,
	}
}

// NotPermitted returns the error of a valid token that lacks a permission.
func (c *Client) NotPermitted(what, needed string) error {
	return &Error{
		Sentence: fmt.Sprintf("%s does not let the token in %s read %s: it needs %s", c.Name, Setting, what, needed),
		Cause:    collect.ErrNeedsCredentials,
	}
}

// Unknown returns the error of a missing account.
func (c *Client) Unknown(handle, hint string) error {
	return &Error{Sentence: fmt.Sprintf("%s knows no account %q%s", c.Name, handle, hint),
		Cause: collect.ErrUnknownAccount}
}

// Private returns the error of an account whose posts are not public.
func (c *Client) Private(handle string) error {
	return &Error{Sentence: fmt.Sprintf("the account %q is private on %s: only those it admits may read it", handle,
		c.Name), Cause: collect.ErrPrivateAccount}
}

// Failed returns the error of a failure of the platform itself.
func (c *Client) Failed(status int, code, why string) error {
	if status < 400 {
		status = http.StatusBadGateway
	}
	cause, then := status, "the next visit asks again"
	if cause == http.StatusNotFound || cause == http.StatusGone {
		// The address of the API is wrong. The account is not gone.
		cause, then = http.StatusBadGateway, "a newer version of Carillon may know the platform's current API"
	}
	if code != "" {
		code = " " + code
	}
	return &Error{
		Sentence: fmt.Sprintf("%s answers with status %d%s%s; %s", c.Name, status, code, c.quoted(why), then),
		Cause:    &collect.StatusError{Code: cause},
	}
}

// maxReason limits how much of a platform's reason is repeated, in bytes.
const maxReason = 160

// quoted returns the platform's reason on one line, or "" if it could contain a secret.
func (c *Client) quoted(why string) string {
	for _, secret := range c.secrets {
		if secret != "" && strings.Contains(why, secret) {
			return ""
		}
	}
	why = strings.Join(strings.Fields(strings.ToValidUTF8(why, "")), " ")
	for _, word := range strings.Fields(why) {
		if len(word) > maxWord {
			return "" // it may contain a token
		}
	}
	if why == "" {
		return ""
	}
	if len(why) > maxReason {
		why = strings.ToValidUTF8(why[:maxReason], "") + "…"
	}
	return " (“" + strings.TrimSuffix(why, ".") + "”)"
}

// maxWord is longer than any word of a message, and shorter than any token.
const maxWord = 32

// Retry returns the pause that Retry-After asks for, in seconds or as a time of the platform's clock; 0 if there is
// none.
func Retry(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	var wait time.Duration
	if seconds, err := strconv.Atoi(text); err == nil {
		wait = time.Duration(min(max(seconds, 0), int(longestRetry/time.Second))) * time.Second
	} else if at, err := http.ParseTime(text); err == nil {
		wait = at.Sub(Clock(header, now))
	}
	return min(max(wait, 0), longestRetry)
}

const longestRetry = 24 * time.Hour

// Clock returns the time of the platform's clock when it answered, because the times of its limits are relative to
// that. An answer without a date counts as given at now.
func Clock(header http.Header, now time.Time) time.Time {
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		return at
	}
	return now
}

// Lacks returns the error of an answer that lacks what the documentation promises. Nothing counts as gone because of
// it.
func (c *Client) Lacks(what string) error {
	return &Error{Sentence: fmt.Sprintf("%s's answer has neither %s nor an error; the next visit asks again", c.Name,
		what), Cause: collect.ErrBadAnswer}
}
