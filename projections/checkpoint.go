package projections

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
)

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
