// Package projections turns stored events into Postgres read models.
//
//	event store ──Follow──▶ Subscriber ──batch──▶ Watermill router ──▶ Projector ──┐
//	                                                                  checkpoint ──┴──▶ one Postgres transaction
//
// Each read model lives in a Postgres schema of its own, named after it, so that it can be built anew beside the one
// that serves and then take its place. One process at a time runs a projection: it holds an advisory lock on the same
// Postgres session that writes, so a runner that lost the lock can't write either.
//
// Process managers (eventstore.ProcessManager) consume the same way; their state is saved in a schema of theirs.
package projections

import (
	"context"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
)

// Projector writes one read model.
type Projector interface {
	// Name is the projection's name, and the name of its Postgres schema: lower case and "_".
	Name() string
	// Filter chooses the events.
	Filter() eventstore.Filter
	// Schema is the DDL of the read model, without schema names. When it changes, the read model is built anew.
	Schema() string
	// Project applies a batch in order. tx has the read model's schema first on its search path; the checkpoint is
	// committed with it. An event that can't be decoded is an error that wraps eventstore.ErrUndecodable.
	Project(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error
}
