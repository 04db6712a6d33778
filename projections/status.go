package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore"
)

// Status is how far a projection or a process manager has come.
type Status struct {
	Name      string
	Position  eventstore.Position
	Events    int64 // applied since it was built
	UpdatedAt time.Time
	Stopped   string // why it stopped for good; empty while it does not
}

// Statuses lists every projection and process manager that has a checkpoint, by name.
func Statuses(ctx context.Context, pool *pgxpool.Pool) ([]Status, error) {
	rows, err := pool.Query(ctx, "SELECT name, commit, prepare, events, updated_at, coalesce(stopped, '') FROM carillon.checkpoints ORDER BY name")
	if err != nil {
		return nil, fmt.Errorf("projection status: %w", err)
	}
	statuses, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Status, err error) {
		var commit, prepare int64
		err = row.Scan(&s.Name, &commit, &prepare, &s.Events, &s.UpdatedAt, &s.Stopped)
		s.Position = position(commit, prepare)
		return s, err
	})
	if err != nil {
		return nil, fmt.Errorf("projection status: %w", err)
	}
	return statuses, nil
}
