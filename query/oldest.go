package query

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// PublishedAt is a published event, and when the store recorded it.
type PublishedAt struct {
	ID uuid.UUID
	At time.Time
}

// HealthState is how a destination has answered.
type HealthState struct {
	ConsecutiveFailures int
	StreakStartedAt     time.Time
	LastSuccessAt       time.Time
	LastFailureAt       time.Time
	LastErrorMessage    string
}

// HealthOf returns how destinations have answered.
func (q *Queries) HealthOf(ctx context.Context, destinations []uuid.UUID) (map[uuid.UUID]HealthState, error) {
	rows, err := q.Pool.Query(ctx, `SELECT destination, consecutive_failures, streak_started_at, last_success_at,
		last_failure_at, coalesce(last_error_message, '') FROM health.health WHERE destination = ANY($1)`, destinations)
	if err != nil {
		return nil, fmt.Errorf("health: %w", err)
	}
	all := make(map[uuid.UUID]HealthState, len(destinations))
	var (
		id                    uuid.UUID
		h                     HealthState
		streak, good, failure *time.Time
	)
	into := []any{&id, &h.ConsecutiveFailures, &streak, &good, &failure, &h.LastErrorMessage}
	if _, err = pgx.ForEachRow(rows, into, func() error {
		h.StreakStartedAt, h.LastSuccessAt, h.LastFailureAt = orZero(streak), orZero(good), orZero(failure)
		all[id] = h
		return nil
	}); err != nil {
		return nil, fmt.Errorf("health: %w", err)
	}
	return all, nil
}

func orZero(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.UTC()
}

// Oldest lists events that were published before a time, in the order of their publishing, after one of them (the zero
// value: from the first). revision is that of the last retirement that these rows have applied, -1 before the first.
func (q *Queries) Oldest(
	ctx context.Context, before time.Time, after PublishedAt, limit int,
) (page []PublishedAt, revision int64, err error) {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, q.Pool, options, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "SELECT revision FROM publications.retirement").Scan(&revision)
		if errors.Is(err, pgx.ErrNoRows) {
			revision, err = -1, nil
		}
		if err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `SELECT id, published_at FROM publications.publications
			WHERE published_at < $1 AND (published_at, id) > ($2, $3) ORDER BY published_at, id LIMIT $4`,
			before, after.At, after.ID, limit)
		if err != nil {
			return err
		}
		page, err = pgx.CollectRows(rows, pgx.RowToStructByPos[PublishedAt])
		return err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("oldest events: %w", err)
	}
	return page, revision, nil
}
