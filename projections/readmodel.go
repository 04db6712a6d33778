// Package projections turns stored events into Postgres read models.
//
//	event store ──Follow──▶ Subscriber ──batch──▶ Watermill router ──▶ ReadModel ──┐
//	                                                                  checkpoint ──┴──▶ one Postgres transaction
//
// Each read model lives in a Postgres schema of its own, named after it, so that it can be built anew beside the one
// that serves and then take its place. One process at a time runs a projection: it holds an advisory lock, on the one
// session that a process has for that. Who takes the lock moves the checkpoint's epoch first, and every transaction
// compares it, so a runner that was taken over from can't write.
//
// Process managers (eventstore.ProcessManager) consume the same way; their state is saved in a schema of theirs.
package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
)

// ReadModel is one read model, as a value: what it is called, which events it is made of, and how.
//
// It can be made anew at any time: a rebuild makes everything in its schema from the first event on, beside the one
// that serves. A new build of the program does so by itself where Schema or Version are others than those that the
// read model was made with.
type ReadModel struct {
	Name    string // also the name of its Postgres schema: lower case and "_"
	Version int    // from 1 on; raise it where Project makes other rows of the same events
	Schema  string // the DDL, without schema names
	Filter  eventstore.Filter

	// Project applies a batch in order. tx has the read model's schema first on its search path; the checkpoint is
	// committed with it. An event that can't be decoded is an error that wraps eventstore.ErrUndecodable.
	Project func(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error

	// Ahead is Project in two steps: it does what needs no rows, and returns what does the rest. So a build can begin with
	// a batch while the one before is being written. Nil: there is nothing to begin with.
	Ahead func(batch []eventstore.Recorded) func(ctx context.Context, tx pgx.Tx) error

	// Later are indexes that Project doesn't read by: a rebuild makes them when all rows are there, which takes a fraction
	// of the time.
	Later []string

	// Carry takes over from the tables of the schema from what no event tells, when a rebuild takes their place. tx has
	// the new tables first on its search path. Nil: events tell all.
	Carry func(ctx context.Context, tx pgx.Tx, from string) error
}

// begin does what needs no rows, and returns what does the rest.
func (m ReadModel) begin(batch []eventstore.Recorded) func(context.Context, pgx.Tx) error {
	if m.Ahead != nil {
		return m.Ahead(batch)
	}
	return func(ctx context.Context, tx pgx.Tx) error { return m.Project(ctx, tx, batch) }
}

// ddl makes the tables. Its fingerprint tells a read model that another version of the program has made.
func (m ReadModel) ddl() string {
	if m.Version <= 1 {
		return m.Schema
	}
	return fmt.Sprintf("-- version %d\n%s", m.Version, m.Schema)
}
