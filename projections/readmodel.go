// Package projections turns stored events into Postgres read models.
//
//	event store ──Follow──▶ Subscriber ──batch──▶ Watermill router ──▶ ReadModel ──┐
//	                                                                  checkpoint ──┴──▶ one Postgres transaction
//
// Each read model lives in a separate Postgres schema, named after it, so that it can be rebuilt beside the one that
// serves and then take its place. One process at a time runs a projection: it holds an advisory lock, on the one
// session that a process has for that. Its holder moves the checkpoint's epoch first, and every transaction compares
// it, so a replaced runner can't write.
//
// Process managers (eventstore.ProcessManager) consume the same way; their state is saved in a separate schema.
package projections

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
)

// ReadModel is one read model, as a value: its name, its events, and its projection.
//
// It can be made again at any time: a rebuild makes everything in its schema from the first event on, beside the one
// that serves. A new version of the program does so by itself if Schema or Version have changed since the read model
// was made.
type ReadModel struct {
	Name    string // also the name of its Postgres schema: lower case and "_"
	Version int    // from 1 on; raise it where Project makes other rows of the same events
	Schema  string // the DDL, without schema names
	Filter  eventstore.Filter

	// Project applies a batch in order. tx has the read model's schema first on its search path; the checkpoint is
	// committed with it. An event that can't be decoded is an error that wraps eventstore.ErrUndecodable.
	Project func(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error

	// Prepare is Project in two steps: it does what needs no rows, and returns what does the rest. So a build can begin
	// with a batch while the one before is being written. Optional.
	Prepare func(batch []eventstore.Recorded) func(ctx context.Context, tx pgx.Tx) error

	// DeferredIndexes are indexes that Project doesn't read by: a rebuild makes them when all rows are there, which takes
	// a fraction of the time.
	DeferredIndexes []string

	// CarryOver copies the data that no event has from the tables of the schema from, when a rebuild takes their place. tx
	// has the new tables first on its search path. nil means that events have all data.
	CarryOver func(ctx context.Context, tx pgx.Tx, from string) error

	// Unverified are columns, by table, that don't follow from the events alone. Optional.
	Unverified map[string][]string
}

// begin does what needs no rows, and returns what does the rest.
func (m ReadModel) begin(batch []eventstore.Recorded) func(context.Context, pgx.Tx) error {
	if m.Prepare != nil {
		return m.Prepare(batch)
	}
	return func(ctx context.Context, tx pgx.Tx) error { return m.Project(ctx, tx, batch) }
}

// made reports whether the tables with this fingerprint are those of this version of the read model.
func (m ReadModel) made(tables string) bool { return tables == fingerprint(m.ddl()) }

// ddl makes the tables. Its fingerprint identifies read models made by another version of the program.
func (m ReadModel) ddl() string {
	if m.Version <= 1 {
		return m.Schema
	}
	return fmt.Sprintf("-- version %d\n%s", m.Version, m.Schema)
}

// checkpoint is how far a consumer has come, as Postgres has it.
type checkpoint struct {
	fingerprint string
	epoch       int64
	position    eventstore.Position
	anchor      anchor
	store       string // that the position is of; "" while it is not known
	outdated    string // why the rows are not made of the present store; "" if they are
	incomplete  bool   // begun from nothing, and not at the head of that time yet
}

// querier is a connection, a pool or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, arguments ...any) pgx.Row
}

// loadCheckpoint reads the checkpoint of a consumer; there is false if it has none.
func loadCheckpoint(ctx context.Context, from querier, name string) (c checkpoint, there bool, err error) {
	return readCheckpoint(ctx, from, name, "")
}

// settledCheckpoint is loadCheckpoint for callers that go by it and then read the rows on another connection. Postgres
// shows what is committed a moment before its other sessions hear that a schema has another name, in which they would
// find the old rows. The lock of the swap is held until they hear it.
func settledCheckpoint(ctx context.Context, from querier, name string) (c checkpoint, there bool, err error) {
	return readCheckpoint(ctx, from, name, fmt.Sprintf(" AND pg_advisory_xact_lock_shared(%d) IS NOT NULL", swapKey(name)))
}

// swapKey is the lock of a transaction that puts a read model in the place of another one.
func swapKey(name string) int64 { return lockKey("swap of " + name) }

// lockCheckpoint is loadCheckpoint; no one else changes the checkpoint until the transaction ends.
func lockCheckpoint(ctx context.Context, tx pgx.Tx, name string) (c checkpoint, there bool, err error) {
	return readCheckpoint(ctx, tx, name, " FOR UPDATE")
}

func readCheckpoint(
	ctx context.Context, from querier, name, lock string,
) (c checkpoint, there bool, err error) {
	var commit, prepare int64
	err = from.QueryRow(ctx, `SELECT fingerprint, epoch, commit, prepare, store, coalesce(last_stream, ''),
		coalesce(last_revision, 0),
		coalesce(last_event, '00000000-0000-0000-0000-000000000000'), coalesce(outdated, ''), incomplete
		FROM carillon.checkpoints WHERE name = $1`+lock, name).
		Scan(&c.fingerprint, &c.epoch, &commit, &prepare, &c.store, &c.anchor.stream, &c.anchor.revision, &c.anchor.event,
			&c.outdated, &c.incomplete)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return checkpoint{}, false, nil
	case err != nil:
		return checkpoint{}, false, fmt.Errorf("read checkpoint: %w", err)
	}
	c.position = position(commit, prepare)
	return c, true, nil
}
