// Package command changes things: each exported method of Commands is one use case. Its input is the struct of the same
// name. A use case checks its input, calls one aggregate through the load–decide–append loop, and returns what it
// recorded with its position, so that the caller can answer at once, or wait until readers see it.
//
// What goes on by itself (collecting, dispatching, delivering) is in the packages below this one.
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

// Commands is the table of contents of what can be changed.
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
	Quotas  Quotas // nil: nothing is counted

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

// Walks knows how collecting from a source goes.
type Walks interface {
	// SourceIsKnown says that the last walk through a source went through, and that the next one is not overdue, or that
	// the source is paused.
	SourceIsKnown(ctx context.Context, source uuid.UUID) (bool, error)
}

// ErrUnavailable: something that a command needs besides the event store can't be reached now; the same may work later.
var ErrUnavailable = errors.New("a dependency is unavailable")

// Caller says who acts, and for which organization.
type Caller struct {
	Organization uuid.UUID
	Actor        string    // "key:<id>", "operator", or a process manager's name
	RequestID    uuid.UUID // correlates what follows from one request
	ReadsSecrets bool      // may read secrets and header values
}

// Written is a thing as a use case has left it: what the event store holds, whatever the read models show by now.
type Written[S any] struct {
	ID      uuid.UUID
	Created bool // of an upsert: it is new
	eventstore.Loaded[S]
}

// metadata is what the events of the caller's commands say about their origin.
func (c Caller) metadata() eventstore.Metadata {
	return eventstore.Metadata{
		Organization: c.Organization, CorrelationID: c.RequestID, CausationID: c.RequestID, Actor: c.Actor,
	}
}

// now is the time in the form that events keep: UTC, microseconds as in Postgres.
func (c *Commands) now() time.Time { return c.Now().UTC().Truncate(time.Microsecond) }
