package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/projections/deliveries/deliverystate"
)

// InstallationTotals are counts over all organizations, for metrics.
type InstallationTotals struct {
	Outcomes                   // of deliveries, with those that are retired
	Overdue      time.Duration // of the delivery that has been due for longest; 0 if none is due
	AutoDisabled int           // destinations
	// By has the pending deliveries by state. nil if there are very many.
	By map[deliverystate.State]int `db:"-"`
}

// mostSorted is the number of pending deliveries up to which InstallationTotals reads their states.
const mostSorted = 20_000

// InstallationTotals returns the counts over all organizations. Deliveries of disabled destinations and suspended
// organizations are pending, but not overdue.
func (q *Queries) InstallationTotals(ctx context.Context, now time.Time) (InstallationTotals, error) {
	totals, err := one(ctx, q.Pool, "totals", pgx.RowToStructByPos[InstallationTotals], "SELECT "+sumOfOutcomes+`,
		(SELECT coalesce(greatest(clock_timestamp() - min(due.at), interval '0'), interval '0')
			FROM destinations.destinations d
			LEFT JOIN organizations.organizations o ON o.id = d.organization
			CROSS JOIN LATERAL (SELECT u.available_at AS at FROM deliveries.due u
				WHERE u.destination = d.id AND u.worker IS NULL AND u.replay IS NULL ORDER BY u.available_at LIMIT 1) due
			WHERE d.status = 'enabled' AND o.status IS DISTINCT FROM 'suspended'),
		(SELECT count(*) FROM destinations.destinations WHERE status = 'auto_disabled')
		FROM deliveries.outcomes`)
	if err != nil || totals.Pending() > mostSorted {
		return totals, err
	}
	backlog, err := q.countPending(ctx, "true", mostSorted, now)
	totals.By = backlog.By
	return totals, err
}

// In returns the number of deliveries in a state, and whether it is known.
func (t InstallationTotals) In(state deliverystate.State) (n int, known bool) {
	switch state {
	case deliverystate.Succeeded:
		return t.Succeeded, true
	case deliverystate.Failed:
		return t.Failed, true
	case deliverystate.Superseded:
		return t.Superseded, true
	case deliverystate.Discarded:
		return t.Discarded, true
	case deliverystate.Waiting, deliverystate.Retrying, deliverystate.Delivering:
	}
	n, known = t.By[state]
	return n, known
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
