// Package command changes things: each exported method of Commands is one use case. Its input is the struct of the same
// name. A use case checks its input, calls one aggregate through the load–decide–append loop, and returns what it
// recorded with its position, so that the caller can answer at once, or wait until readers see it.
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
	Walks   Walks
	Quotas  Quotas // nil means nothing is counted

	// OrganizationSources reports whether organizations may register sources by their addresses.
	OrganizationSources bool

	disclosed disclosures
	known     knownOrganizations
}

// Prober asks whether an endpoint is there, for an organization's deliveries; delivery.Prober is one.
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

// Written is the result of a use case: the state in the event store, independent of the read models.
type Written[S any] struct {
	ID      uuid.UUID
	Created bool // of an upsert: it is new
	eventstore.Loaded[S]
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

// now is the time in the form that events keep: UTC, microseconds as in Postgres.
func (c *Commands) now() time.Time { return c.Now().UTC().Truncate(time.Microsecond) }
