package platform

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"carillon/command/collect"
)

// Error is a failure in a sentence for whoever runs the server. It never holds a secret.
type Error struct {
	Sentence string
	Cause    error // one of package collect
}

// Error is the sentence.
func (e *Error) Error() string { return e.Sentence }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// NoCredentials says that a platform can't be asked before a variable is set.
func (c *Client) NoCredentials(variables ...string) error {
	with := make([]string, len(variables))
	for i, v := range variables {
		with[i] = v
		if strings.HasSuffix(v, "_TOKEN") {
			with[i] += " or " + v + "_FILE"
		}
	}
	return &Error{
		Sentence: fmt.Sprintf("%s lets nobody read without credentials: set %s and start the server anew", c.Name,
			strings.Join(with, ", and ")),
		Cause: collect.ErrNeedsCredentials,
	}
}

// Refused says that the platform does not take the token, and why if it says so.
func (c *Client) Refused(why string) error {
	return &Error{
		Sentence: fmt.Sprintf("%s refuses the token in %s%s: make a new one and start the server anew", c.Name, c.Variable,
			c.quoted(why)),
		Cause: collect.ErrNeedsCredentials,
	}
}

// NotPermitted says that the token is good, but not for this.
func (c *Client) NotPermitted(what, needed string) error {
	return &Error{
		Sentence: fmt.Sprintf("%s does not let the token in %s read %s: it needs %s", c.Name, c.Variable, what, needed),
		Cause:    collect.ErrNeedsCredentials,
	}
}

// Unknown says that there is no such account.
func (c *Client) Unknown(handle, hint string) error {
	return &Error{Sentence: fmt.Sprintf("%s knows no account %q%s", c.Name, handle, hint),
		Cause: collect.ErrUnknownAccount}
}

// Private says that an account shows its posts to those only whom it lets.
func (c *Client) Private(handle string) error {
	return &Error{Sentence: fmt.Sprintf("the account %q is private on %s: only those it admits may read it", handle,
		c.Name), Cause: collect.ErrPrivateAccount}
}

// Failed says that the platform answered with a failure of its own.
func (c *Client) Failed(status int, code, why string) error {
	if status < 400 {
		status = http.StatusBadGateway
	}
	cause, then := status, "the next visit asks again"
	if cause == http.StatusNotFound || cause == http.StatusGone {
		// It is the address of the API that is wrong. Nothing of the account is gone by that.
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

// longestWhy is how much of a platform's own words is repeated, in bytes.
const longestWhy = 160

// quoted repeats the platform's words, on one line, unless they could hold a secret.
func (c *Client) quoted(why string) string {
	for _, secret := range c.secrets {
		if secret != "" && strings.Contains(why, secret) {
			return ""
		}
	}
	why = strings.Join(strings.Fields(strings.ToValidUTF8(why, "")), " ")
	for _, word := range strings.Fields(why) {
		if len(word) > longestWord {
			return "" // a token may be repeated in it
		}
	}
	if why == "" {
		return ""
	}
	if len(why) > longestWhy {
		why = strings.ToValidUTF8(why[:longestWhy], "") + "…"
	}
	return " (“" + strings.TrimSuffix(why, ".") + "”)"
}

// longestWord is longer than any word of a message, and shorter than any token.
const longestWord = 32

// Retry reads Retry-After, in seconds or as a time of the platform's clock; 0 if there is none.
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

// Clock is what the platform's clock showed when it answered, by which it tells until when to wait: one of the two may
// be wrong. An answer without a date was given now.
func Clock(header http.Header, now time.Time) time.Time {
	if at, err := http.ParseTime(header.Get("Date")); err == nil {
		return at
	}
	return now
}

// Lacks says that an answer has not got what the documentation promises, be it empty. Then nothing is gone by that.
func (c *Client) Lacks(what string) error {
	return &Error{Sentence: fmt.Sprintf("%s's answer has neither %s nor an error; the next visit asks again", c.Name,
		what), Cause: collect.ErrBadAnswer}
}
