package query

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Failing is a destination whose last attempt failed or that was disabled after failures.
type Failing struct {
	ID               uuid.UUID
	Organization     uuid.UUID
	OrganizationName string
	Name             string
	Status           string
	Failures         int        // consecutive ones
	Since            *time.Time // time of the first one
	Message          string     // of the last one
}

// FailingDestinations lists the failing destinations of all organizations, longest streak first, and counts them all.
func (q *Queries) FailingDestinations(ctx context.Context, limit int) ([]Failing, int, error) {
	rows, err := q.Pool.Query(ctx, `
		SELECT d.id, d.organization, coalesce(o.name, ''), d.name, d.status, h.consecutive_failures, h.streak_started_at,
		coalesce(h.last_error_message, ''),
			count(*) OVER ()
		FROM health.health h JOIN destinations.destinations d ON d.id = h.destination
		LEFT JOIN organizations.organizations o ON o.id = d.organization
		WHERE h.consecutive_failures > 0 OR d.status = 'auto_disabled' ORDER BY h.consecutive_failures DESC, d.id LIMIT $1`,
		limit)
	if err != nil {
		return nil, 0, fmt.Errorf("failing destinations: %w", err)
	}
	total := 0
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (f Failing, err error) {
		err = row.Scan(&f.ID, &f.Organization, &f.OrganizationName, &f.Name, &f.Status, &f.Failures, &f.Since, &f.Message,
			&total)
		return f, err
	})
	if err != nil {
		return nil, 0, fmt.Errorf("failing destinations: %w", err)
	}
	return list, total, nil
}

// DatabaseSize returns the size of the database on disk, in bytes.
func (q *Queries) DatabaseSize(ctx context.Context) (bytes int64, err error) {
	if err := q.Pool.QueryRow(ctx, "SELECT pg_database_size(current_database())").Scan(&bytes); err != nil {
		return 0, fmt.Errorf("size of the database: %w", err)
	}
	return bytes, nil
}
