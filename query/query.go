// Package query reads the read models: SQL in, typed rows out. It changes and decides nothing.
package query

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Queries has a method for each question. Its methods change nothing.
type Queries struct {
	Pool *pgxpool.Pool
	// WithoutRelevance omits the relevance of items.
	WithoutRelevance bool
	// AwaitPublished waits until the read model has all that was published before: publishing waits for no reader. An
	// error is that of ctx, or says that the rows are old. Optional.
	AwaitPublished func(context.Context) error

	pages    memory[pageKind, *page] // of item lists
	totals   memory[uuid.UUID, *total]
	outlines memory[outlineKind, *outline]
}

// seePublished waits for AwaitPublished. Old rows are shown.
func (q *Queries) seePublished(ctx context.Context) {
	if q.AwaitPublished != nil {
		_ = q.AwaitPublished(ctx)
	}
}

// ErrNotFound is returned if there is no such row, or if it belongs to another organization.
var ErrNotFound = errors.New("not found")

var snapshot = pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}

// inSnapshot runs the statements of a list of deliveries in one snapshot. Postgres resolves names by the newest
// catalog and not by the snapshot, so after the swap of a rebuild, statements would find the new tables without their
// newest rows. The statements are then run again, in a new snapshot. Lists take no locks and wait for no rebuild.
func inSnapshot(ctx context.Context, pool *pgxpool.Pool, list func(pgx.Tx) error) error {
	for {
		current := false
		err := pgx.BeginTxFunc(ctx, pool, snapshot, func(tx pgx.Tx) (err error) {
			if current, err = isCurrent(ctx, tx); err != nil || !current {
				return err
			}
			if err := list(tx); err != nil {
				return err
			}
			current, err = isCurrent(ctx, tx)
			return err
		})
		if current || err != nil {
			return err
		}
	}
}

// isCurrent reports whether the names of the read models mean the same in the snapshot of a transaction as outside.
func isCurrent(ctx context.Context, tx pgx.Tx) (current bool, err error) {
	err = tx.QueryRow(ctx, `
		SELECT bool_and(to_regnamespace(name)::oid IS NOT DISTINCT FROM
			(SELECT oid FROM pg_namespace WHERE nspname = name::name))
		FROM unnest(ARRAY['deliveries', 'destinations', 'publications']) name`).Scan(&current)
	return current, err
}
