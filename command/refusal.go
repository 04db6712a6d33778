package command

import (
	"fmt"
	"time"
)

// Kind classifies refusals; the HTTP surfaces map each to a status and a code, in one place.
type Kind int

// There is no kind for a fault of ours: that is an error, and no refusal.
const (
	Malformed   Kind = iota + 1 // a field breaks the schema of the input: missing, out of range, of a wrong form
	Invalid                     // the input breaks a rule beyond its schema: an address, a header, a type unknown to the catalog
	NotFound                    // missing, or another organization's
	Exists                      // an externalId is taken, or a replay is refused
	Conflict                    // the state forbids it now
	RateLimited                 // too many requests; RetryAfter says when
	Forbidden                   // the organization may read it and not change it
	Unavailable                 // a dependency can't be reached; the request itself was fine
)

// Refusal is a command's "no", fit to be shown to the caller.
type Refusal struct {
	Kind    Kind
	Field   string // JSON path of the offending field, where there is one: "config.url"
	Message string // says what to do
	Err     error  // cause, never shown

	RetryAfter time.Duration // of RateLimited
}

// Error is the message.
func (r *Refusal) Error() string { return r.Message }

// Unwrap gives the cause.
func (r *Refusal) Unwrap() error { return r.Err }

func refuse(kind Kind, field, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Field: field, Message: fmt.Sprintf(format, args...)}
}
