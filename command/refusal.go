package command

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"carillon/aggregates/auditor"
	"carillon/aggregates/clientcertificate"
	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/feed"
	"carillon/aggregates/item"
	"carillon/aggregates/operator"
	"carillon/aggregates/organization"
	"carillon/aggregates/publication"
	"carillon/aggregates/source"
	"carillon/aggregates/subscription"
	"carillon/command/sealing"
)

// Kind classifies refusals; the HTTP surfaces map each to a status and a code, in one place.
type Kind int

// There is no kind for a fault of ours: that is an error, and no refusal.
const (
	Malformed Kind = iota + 1 // a field breaks the schema of the input: missing, out of range, of a wrong form
	// the input breaks a rule beyond its schema: an address, a header, a type unknown to the catalog.
	Invalid
	NotFound    // missing, or another organization's
	Exists      // an externalId is taken, or a replay is refused
	Conflict    // the state forbids it now
	RateLimited // too many requests; RetryAfter says when
	Forbidden   // the organization may read it and not change it
	Unavailable // a dependency can't be reached; the request itself was fine
)

// Refusal is a command's "no", fit to be shown to the caller.
type Refusal struct {
	Kind    Kind
	Field   string // JSON path of the offending field, if there is one: "config.url"
	Message string // says what to do
	Err     error  // cause, never shown

	RetryAfter time.Duration // of RateLimited
}

// Error is the message.
func (r *Refusal) Error() string { return r.Message }

// Unwrap returns the cause.
func (r *Refusal) Unwrap() error { return r.Err }

// refusals are the errors by which aggregates decide against a command, and how they are shown.
var refusals = []struct {
	cause   error
	kind    Kind
	field   string
	message string // "" means that of the cause; %v is the error
}{
	{auditor.ErrUnknown, NotFound, "", "auditor not found: name one by the 8 characters after ca_"},
	{auditor.ErrExpired, Malformed, "expiresAt", "expiresAt must be in the future"},
	{clientcertificate.ErrNone, NotFound, "", "client certificate not found: the organization has none"},

	{delivery.ErrInFlight, Exists, "", "%v"},
	{delivery.ErrReplaying, Exists, "", "%v"},
	{delivery.ErrSuperseded, Exists, "", "%v"},
	{delivery.ErrDiscarded, Exists, "", "%v"},
	{delivery.ErrRetired, Exists, "", "%v"},
	{delivery.ErrEnded, Conflict, "", "%v"},
	{delivery.ErrSending, Conflict, "", ""},
	{delivery.ErrOff, Conflict, "", ""},

	{destination.ErrUnknown, NotFound, "", ""},
	{sealing.ErrShredded, NotFound, "", destination.ErrUnknown.Error()}, // deleted right now
	{destination.ErrUnknownSecret, NotFound, "", ""},
	{destination.ErrTooManySecrets, Conflict, "", ""},
	{destination.ErrLastSecret, Conflict, "", ""},
	{destination.ErrRevisedSince, Conflict, "", ""},
	{destination.ErrNeedsHeaders, Invalid, "config.headers", "config.headers is required, because scheme, host or port " +
		"of config.url change and the key has not the scope secrets: send the headers too, {} for none"},

	{feed.ErrUnknown, NotFound, "", "feed not found"},
	{feed.ErrUnknownAssociation, NotFound, "", "source association not found: GET /feeds/events/{id}/sources " +
		"lists those of a feed, each with its id"},
	{feed.ErrForbidden, Forbidden, "", "%v"},
	{feed.ErrRevisedSince, Conflict, "", ""},
	{feed.ErrExists, Exists, "id", "%v"},
	{item.ErrUnknown, NotFound, "", "item not found"},

	{operator.ErrUnknown, NotFound, "", "operator not found: carillon operator list shows the names"},
	{operator.ErrExpired, Malformed, "expiresAt", "expiresAt must be in the future"},
	{operator.ErrTaken, Conflict, "", "%v"},
	{operator.ErrLapsed, Conflict, "", "%v"},
	{operator.ErrTooManyTokens, Conflict, "", "%v"},

	{organization.ErrUnknown, NotFound, "", "organization not found"},
	{organization.ErrUnknownKey, NotFound, "", "key not found: name one by the 8 characters after ck_"},
	{organization.ErrBadScopes, Malformed, "scopes", "scopes must be some of read, write and secrets, each once"},
	{organization.ErrBadLimit, Malformed, "", "limits must be whole numbers from 0 to 1000000000, by their names"},
	{organization.ErrExpired, Malformed, "expiresAt", "expiresAt must be in the future"},

	{publication.ErrNobody, Invalid, "feedId", ""},
	{source.ErrUnknown, NotFound, "", "source not found: carillon source list shows the ids"},
	{source.ErrPaused, Conflict, "", "%v; resume it first"},
	{subscription.ErrUnknown, NotFound, "", ""},
	{subscription.ErrRevisedSince, Conflict, "", ""},
}

// refused returns the Refusal for a decision of an aggregate. Other errors are returned unchanged.
func refused(err error) error {
	if _, done := errors.AsType[*Refusal](err); done {
		return err
	}
	if invalid, ok := errors.AsType[*subscription.InvalidError](err); ok {
		return &Refusal{
			Kind:    Malformed,
			Field:   invalid.Field,
			Message: invalid.Error(),
			Err:     err,
		}
	}
	for _, r := range refusals {
		if errors.Is(err, r.cause) {
			message := cmp.Or(r.message, r.cause.Error())
			return &Refusal{
				Kind:    r.kind,
				Field:   r.field,
				Message: strings.ReplaceAll(message, "%v", err.Error()),
				Err:     err,
			}
		}
	}
	return limitRefusal(err)
}

func refuse(kind Kind, field, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Field: field, Message: fmt.Sprintf(format, args...)}
}
