package query

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// inSnapshot runs the statements of a list of deliveries in one snapshot. Postgres resolves names by the newest
// catalog and not by the snapshot, so after the swap of a rebuild, statements would find the new tables without their
// newest rows. The statements are then run again, in a new snapshot. Lists take no locks and wait for no rebuild.
func inSnapshot(ctx context.Context, pool *pgxpool.Pool, list func(pgx.Tx) error) error {
	snapshot := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
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
