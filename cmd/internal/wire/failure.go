package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"carillon/command"
	"carillon/eventstore"
	"carillon/query"
)

// Kind classifies what can go wrong with a request. Each has a status and, for each surface, a code: see statuses.
type Kind int

// The zero value is Internal, so that a failure whose kind was forgotten shows nothing to the caller.
const (
	Internal         Kind = iota // a fault of ours; its text is never shown
	BadBody                      // the body is not what the route's schema says
	TooLarge                     // the body is over the limit
	UnsupportedMedia             // the body is not JSON, or encoded
	BadParam                     // a path parameter is malformed
	BadQuery                     // a query parameter is malformed, or unknown
	Invalid                      // a rule that is checked after the schema
	Unauthenticated              // no key or token, or one that is not valid
	Forbidden                    // the caller may see it and not change it
	NotFound
	MethodNotAllowed
	Exists
	Conflict
	RateLimited
	Unavailable // a dependency can't be reached
	Misdirected // asked for under a name that this server does not have
)

// Failure is an answer other than success, fit to be shown to the caller.
type Failure struct {
	Kind       Kind
	Field      string // its place: "config.url", "limit"; empty if none in particular
	Issue      string // the remedy, to be read after the field: "must be a UUID"
	Message    string // the whole sentence; empty means field and issue
	RetryAfter time.Duration
	Cause      error // logged, never shown
}

// Error is the message that the caller gets.
func (f *Failure) Error() string {
	switch {
	case f.Message != "":
		return f.Message
	case f.Field != "":
		return f.Field + " " + f.Issue
	}
	return f.Issue
}

// Status is the HTTP status that the failure is answered with.
func (f *Failure) Status() int { return statuses[f.Kind].status }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Cause }

// Fail makes a failure that is about one field: the message is the field followed by the issue.
func Fail(kind Kind, field, issue string, args ...any) *Failure {
	return &Failure{Kind: kind, Field: field, Issue: fmt.Sprintf(issue, args...)}
}

// Limited makes a refusal of one request too many, which names the limit.
func Limited(limit string, most int, wait time.Duration, what string) *Failure {
	return &Failure{
		Kind:       RateLimited,
		RetryAfter: wait,
		Issue:      fmt.Sprintf("limit %s: %d %s; try again in %d s", limit, most, what, int(math.Ceil(wait.Seconds()))),
	}
}

// NotFoundError names the missing thing if err is query.ErrNotFound. Any other error, nil too, is returned unchanged.
func NotFoundError(err error, what string) error {
	if errors.Is(err, query.ErrNotFound) {
		return &Failure{Kind: NotFound, Issue: what + " not found", Cause: err}
	}
	return err
}

// FailureOf translates any error into its answer. Unknown errors are Internal.
func FailureOf(err error) *Failure {
	var failure *Failure
	if errors.As(err, &failure) {
		return failure
	}
	var refusal *command.Refusal
	switch {
	case errors.As(err, &refusal):
		return ofRefusal(refusal)
	case errors.Is(err, query.ErrNotFound):
		return &Failure{Kind: NotFound, Issue: "not found", Cause: err}
	case errors.Is(err, eventstore.ErrWrongRevision): // again and again, until patience ended
		return &Failure{
			Kind:  Unavailable,
			Issue: "others are changing the same thing at this moment; the request itself was fine, try it again",
			Cause: err,
		}
	case errors.Is(err, eventstore.ErrRefused):
		return &Failure{
			Kind: Unavailable,
			Issue: "the event store refuses this server's credentials, or its certificate is not trusted: " +
				"an operator has to correct that; the request itself was fine",
			Cause: err,
		}
	case unreachable(err):
		return &Failure{
			Kind:  Unavailable,
			Issue: "a service that this request needs can't be reached; the request itself was fine, try it again",
			Cause: err,
		}
	}
	return &Failure{Kind: Internal, Cause: err}
}

var refusals = map[command.Kind]Kind{
	command.Malformed: BadBody, command.Invalid: Invalid, command.NotFound: NotFound, command.Forbidden: Forbidden,
	command.Exists: Exists, command.Conflict: Conflict, command.RateLimited: RateLimited, command.Unavailable: Unavailable,
}

func ofRefusal(r *command.Refusal) *Failure {
	return &Failure{
		Kind:       refusals[r.Kind],
		Field:      r.Field,
		Issue:      strings.TrimPrefix(r.Message, r.Field+" "),
		Message:    r.Message,
		RetryAfter: r.RetryAfter,
		Cause:      r.Err,
	}
}

// unreachable reports whether an error comes from a dependency that is gone or does not answer: the event store, or
// Postgres. Postgres's own answer to a statement is a fault of ours, apart from "shutting down" and the like.
func unreachable(err error) bool {
	return errors.Is(err, eventstore.ErrUnavailable) || errors.Is(err, command.ErrUnavailable) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || postgresGone(err)
}

// answer is a row of the table of failures.
type answer struct {
	status        int
	events, feeds string // the code on each surface
}

func (a answer) code(on Surface) string {
	if on == Events {
		return a.events
	}
	return a.feeds
}

// statuses is the one table that says how each kind of failure is answered.
var statuses = map[Kind]answer{
	Internal:         {http.StatusInternalServerError, "INTERNAL_ERROR", "INTERNAL_SERVER_ERROR"},
	BadBody:          {http.StatusBadRequest, "INVALID_BODY", "BAD_REQUEST"},
	TooLarge:         {http.StatusRequestEntityTooLarge, "INVALID_BODY", "BAD_REQUEST"},
	UnsupportedMedia: {http.StatusUnsupportedMediaType, "INVALID_BODY", "BAD_REQUEST"},
	BadParam:         {http.StatusBadRequest, "INVALID_PARAMS", "BAD_REQUEST"},
	BadQuery:         {http.StatusBadRequest, "INVALID_QUERY", "BAD_REQUEST"},
	Invalid:          {http.StatusBadRequest, "VALIDATION_FAILED", "BAD_REQUEST"},
	Unauthenticated:  {http.StatusUnauthorized, "AUTHENTICATION_FAILED", "UNAUTHORIZED"},
	Forbidden:        {http.StatusForbidden, "", "FORBIDDEN"}, // on Events it is NotFound
	NotFound:         {http.StatusNotFound, "NOT_FOUND", "NOT_FOUND"},
	MethodNotAllowed: {http.StatusNotFound, "NOT_FOUND", "NOT_FOUND"}, // neither surface has a separate code for it
	Exists:           {http.StatusConflict, "ALREADY_EXISTS", "CONFLICT"},
	Conflict:         {http.StatusConflict, "CONFLICT", "CONFLICT"},
	RateLimited:      {http.StatusTooManyRequests, "RATE_LIMITED", "RATE_LIMITED"},
	Misdirected:      {http.StatusMisdirectedRequest, "MISDIRECTED", "MISDIRECTED"},
	Unavailable:      {http.StatusServiceUnavailable, "SERVICE_UNAVAILABLE", "SERVICE_UNAVAILABLE"},
}

// Codes returns the codes of failures on a surface, but for that of a request to another host, which no route has.
func Codes(of Surface) (codes []string) {
	for kind, a := range statuses {
		if code := a.code(of); code != "" && kind != Misdirected {
			codes = append(codes, code)
		}
	}
	return codes
}

// unexpected is all that a caller learns of a fault of ours.
const unexpected = "something went wrong on our side; try again, and quote the request id if it stays so"

// noKey is the feed surface's answer to every request without a valid key, as its clients expect. The log has the
// cause.
const noKey = "Invalid or missing API key"

// Surface is one of the two families of error codes.
type Surface int

// Feeds is the zero value: a path that belongs to neither surface gets its codes.
const (
	Feeds  Surface = iota // everything but /events; errors of fields carry details
	Events                // /events and below, and the admin API
)

type errorEnvelope struct {
	Success bool      `json:"success"`
	Error   errorBody `json:"error"`
}

type errorBody struct {
	Code    string        `json:"code"`
	Message string        `json:"message"`
	Details *errorDetails `json:"details,omitempty"`
}

type errorDetails struct {
	Field string `json:"field"`
	Issue string `json:"issue"`
}

// WriteError answers with the envelope of the surface.
func (s Surface) WriteError(w http.ResponseWriter, r *http.Request, err error) {
	f := FailureOf(err)
	if f.Kind == Forbidden && s == Events {
		f = &Failure{Kind: NotFound, Issue: "not found", Cause: f}
	}
	row := statuses[f.Kind]
	body := errorBody{Code: row.code(s), Message: f.Error()}
	switch {
	case f.Kind == Internal:
		body.Message = unexpected
	case f.Kind == Unauthenticated && s == Feeds:
		body.Message = noKey
	}
	if s == Feeds && row.feeds == statuses[BadBody].feeds {
		body.Details = &errorDetails{Field: cmp.Or(f.Field, "body"), Issue: cmp.Or(f.Issue, body.Message)}
	}
	if f.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(f.RetryAfter.Seconds()))))
	}
	if f.Kind == Unauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="carillon"`)
	}
	NoteFailure(r.Context(), f)
	writeJSON(w, row.status, errorEnvelope{Error: body})
}

// postgresGone reports whether an error says that Postgres can't be reached or is going away, rather than that it
// refuses a statement.
func postgresGone(err error) bool {
	var answer *pgconn.PgError
	if errors.As(err, &answer) {
		for _, class := range goneClasses {
			if strings.HasPrefix(answer.Code, class) {
				return true
			}
		}
		return false
	}
	var connect *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, io.ErrUnexpectedEOF) ||
		pgconn.SafeToRetry(err)
}

// goneClasses are beginnings of SQLSTATEs.
var goneClasses = []string{
	"08",             // connection exception
	"53",             // insufficient resources
	"57P",            // operator intervention: shutting down, starting up
	"3F000", "42P01", // no such schema or table: a read model that was never built so far
}
