package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// InstallationTotals are counts over all organizations, for metrics.
type InstallationTotals struct {
	Pending      int           // deliveries that have no final status
	Failed       int           // deliveries whose retries are used up
	Overdue      time.Duration // of the delivery that has been due for longest; 0 if none is due
	AutoDisabled int           // destinations
}

// InstallationTotals returns the counts over all organizations. Deliveries of disabled destinations and suspended
// organizations are pending, but not overdue.
func (q *Queries) InstallationTotals(ctx context.Context) (InstallationTotals, error) {
	return one(ctx, q.Pool, "totals", pgx.RowToStructByPos[InstallationTotals], `SELECT coalesce(sum(`+tally["pending"]+
		`), 0)::bigint, coalesce(sum(failed), 0)::bigint,
		(SELECT coalesce(greatest(clock_timestamp() - min(due.at), interval '0'), interval '0')
			FROM destinations.destinations d
			LEFT JOIN organizations.organizations o ON o.id = d.organization
			CROSS JOIN LATERAL (SELECT u.available_at AS at FROM deliveries.due u
				WHERE u.destination = d.id AND u.worker IS NULL AND u.replay IS NULL ORDER BY u.available_at LIMIT 1) due
			WHERE d.status = 'enabled' AND o.status IS DISTINCT FROM 'suspended'),
		(SELECT count(*) FROM destinations.destinations WHERE status = 'auto_disabled')
		FROM deliveries.outcomes`)
}

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
	const failing = ` FROM health.health h JOIN destinations.destinations d ON d.id = h.destination
		LEFT JOIN organizations.organizations o ON o.id = d.organization
		WHERE h.consecutive_failures > 0 OR d.status = 'auto_disabled'`
	page := statement{`SELECT d.id, d.organization, coalesce(o.name, ''), d.name, d.status, h.consecutive_failures,
		h.streak_started_at, coalesce(h.last_error_message, '')` + failing +
		" ORDER BY h.consecutive_failures DESC, d.id LIMIT $1", []any{limit}}
	return counted(ctx, q.Pool, "failing destinations", pgx.RowToStructByPos[Failing], page,
		statement{"SELECT count(*)" + failing, nil})
}

// DatabaseSize returns the size of the database on disk, in bytes.
func (q *Queries) DatabaseSize(ctx context.Context) (bytes int64, err error) {
	return value[int64](ctx, q.Pool, "size of the database", "SELECT pg_database_size(current_database())")
}
