// Package command changes things: each exported method of Commands is one use case. Its input is the struct of the same
// name. A use case checks its input, calls one aggregate through the load–decide–append loop, and returns a Result, so
// that the caller can answer at once, or wait until readers see it.
//
// Background work (collecting, dispatching, delivering) is in the packages below this one.
package command

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/command/catalog"
	"carillon/command/egress"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
)

// Commands has a method for each use case that changes something.
type Commands struct {
	Store   eventstore.Store
	Now     func() time.Time
	Vault   *sealing.Vault
	Guard   egress.Guard
	Prober  Prober
	Catalog *catalog.Catalog
	Access  Access
	History History
	Backlog Backlog
	Walks   Walks
	Quotas  Quotas // nil means nothing is counted

	// Retain is how long deliveries are kept after they have ended; 0 means forever. Older ones can't be sent again,
	// whether they are removed yet or not.
	Retain time.Duration
	// RetainHappenings is how long happenings are kept after they are over; 0 means forever.
	RetainHappenings time.Duration

	// OrganizationSources reports whether organizations may register sources by their addresses.
	OrganizationSources bool

	disclosed recentTimes[disclosed]
	known     recentTimes[uuid.UUID]
}

// Prober asks whether an endpoint is there, for an organization's deliveries; facts.Prober is one.
type Prober interface {
	Probe(ctx context.Context, organization uuid.UUID, url string) webhook.Reachability
}

// Access knows which feeds an organization may read: its own and those shared with it.
type Access interface {
	Readable(ctx context.Context, organization uuid.UUID, feedType string, feed uuid.UUID) (bool, error)
}

// Walks knows sources, and how collecting from them goes.
type Walks interface {
	// SourceIsKnown reports whether the last walk through a source was complete, and the next one is not overdue, or
	// whether the source is paused.
	SourceIsKnown(ctx context.Context, source uuid.UUID) (bool, error)
	// SourceAt returns the source of a type at an address, uuid.Nil if there is none. An empty time zone means any.
	SourceAt(ctx context.Context, sourceType, url, timezone string) (uuid.UUID, error)
}

// ErrUnavailable: something that a command needs besides the event store can't be reached now; the same may work later.
var ErrUnavailable = errors.New("a dependency is unavailable")

// Caller is the actor of a command, and its organization.
type Caller struct {
	Organization uuid.UUID
	Actor        string    // "key:<id>", "operator", or a process manager's name
	RequestID    uuid.UUID // correlates what follows from one request
	ReadsSecrets bool      // may read secrets and header values
	Reason       string    // Optional. Free text for auditors, checked by CheckReason
}

// Result holds the value that a use case recorded in the event store, independent of the read models.
type Result[T any] struct {
	Value    T                   // the state of the aggregate, or what is known only now, such as a new key
	Position eventstore.Position // readers at or past it see the value; Start means that nothing was recorded

	// Of what was made or changed; zero where Value is no state.
	ID       uuid.UUID
	Revision eventstore.Revision // of the aggregate
	Created  bool                // of an upsert: it is new
}

// resultOf returns the result of a use case that made or changed id.
func resultOf[S any](id uuid.UUID, known eventstore.Loaded[S]) Result[S] {
	return Result[S]{
		Value:    known.State,
		Position: known.Position,
		ID:       id,
		Revision: known.Revision,
	}
}

// expiry is an instant in the form that events keep; nil means never.
func expiry(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	kept := at.UTC().Truncate(time.Microsecond)
	return &kept
}

// metadata is the origin in the events of the caller's commands.
func (c Caller) metadata() eventstore.Metadata {
	return eventstore.Metadata{
		Organization:  c.Organization,
		CorrelationID: c.RequestID,
		CausationID:   c.RequestID,
		Actor:         c.Actor,
		Reason:        c.Reason,
	}
}

// because returns the caller with the reason that a use case takes as input, unless the caller has given another one.
func (c Caller) because(reason string) Caller {
	if c.Reason == "" {
		c.Reason = reason
	}
	return c
}

// retiredBefore is the time before which deliveries are retired; zero means none is.
func (c *Commands) retiredBefore() time.Time {
	if c.Retain == 0 {
		return time.Time{}
	}
	return c.now().Add(-c.Retain)
}

// now is the time in the form that events keep: UTC, microseconds as in Postgres.
func (c *Commands) now() time.Time { return c.Now().UTC().Truncate(time.Microsecond) }
