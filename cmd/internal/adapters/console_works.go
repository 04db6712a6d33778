package adapters

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/console"
)

// ConsoleWorks is console.Works in Postgres.
type ConsoleWorks struct{ Pool *pgxpool.Pool }

var _ console.Works = ConsoleWorks{}

const (
	workColumns = "id, organization, destination, kind, status, type, since, until, actor, total, done, refused, " +
		"after_at, after_id, state, message, beat_at, reason"
	// Each new one removes some of those that ended long ago.
	beginWork = `
		WITH old AS (DELETE FROM carillon.console_work WHERE id IN (
			SELECT id FROM carillon.console_work WHERE beat_at < $17::timestamptz - interval '30 days' LIMIT 100))
		INSERT INTO carillon.console_work (` + workColumns +
		`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18)`
	// Only who was heard of last goes on: another process may have taken over.
	advanceWork = `UPDATE carillon.console_work SET done = $3, refused = $4, after_at = $5, after_id = $6, state = $7,
		message = $8, beat_at = $9
		WHERE id = $1 AND beat_at = $2`
	takeWork = `UPDATE carillon.console_work SET state = 'running', message = '', beat_at = $3
		WHERE id = $1 AND organization = $2 AND (state = 'stopped' OR state = 'running' AND beat_at < $4)
		RETURNING ` + workColumns
	findWork = `SELECT ` + workColumns + ` FROM carillon.console_work WHERE id = $1 AND organization = $2`
)

// Begin implements console.Works.
func (w ConsoleWorks) Begin(ctx context.Context, work console.Work) error {
	_, err := w.Pool.Exec(ctx, beginWork, work.ID, work.Organization, work.Destination, work.Kind, work.Status, work.Type,
		work.Since, work.Until,
		work.Actor, work.Total, work.Done, work.Refused, work.AfterAt, work.AfterID, work.State, work.Message, work.Beat,
		work.Reason)
	return wrap("begin work", err)
}

// Advance implements console.Works.
func (w ConsoleWorks) Advance(ctx context.Context, work console.Work, now time.Time) error {
	changed, err := w.Pool.Exec(ctx, advanceWork, work.ID, work.Beat, work.Done, work.Refused, work.AfterAt, work.AfterID,
		work.State, work.Message, now)
	if err == nil && changed.RowsAffected() == 0 {
		err = pgx.ErrNoRows
	}
	return missing("work", err)
}

// Take implements console.Works.
func (w ConsoleWorks) Take(
	ctx context.Context, organization, id uuid.UUID, now, heard time.Time,
) (console.Work, error) {
	return w.one(ctx, takeWork, id, organization, now, heard)
}

// Find implements console.Works.
func (w ConsoleWorks) Find(ctx context.Context, organization, id uuid.UUID) (console.Work, error) {
	return w.one(ctx, findWork, id, organization)
}

func (w ConsoleWorks) one(ctx context.Context, statement string, args ...any) (console.Work, error) {
	rows, _ := w.Pool.Query(ctx, statement, args...)
	work, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[console.Work])
	return work, missing("work", err)
}
