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
	Outcomes                                 // of deliveries, with those that are retired
	Overdue      time.Duration               // of the delivery that has been due for longest; 0 if none is due
	AutoDisabled int                         // destinations
	By           map[deliverystate.State]int `db:"-"` // deliveries in each state
}

// InstallationTotals returns the counts over all organizations. Deliveries of disabled destinations and suspended
// organizations are pending, but not overdue.
func (q *Queries) InstallationTotals(ctx context.Context, now time.Time) (InstallationTotals, error) {
	totals, err := one(ctx, q.Pool, "totals", pgx.RowToStructByPos[InstallationTotals], "SELECT "+sumOfOutcomes+`,
		(SELECT coalesce(greatest(clock_timestamp() - min(due.at), interval '0'), interval '0')
			FROM destinations.destinations d
			LEFT JOIN organizations.organizations o ON o.id = d.organization
			CROSS JOIN LATERAL (SELECT u.available_at AS at FROM deliveries.due u
				WHERE u.destination = d.id AND `+deliverystate.Free+` ORDER BY u.available_at LIMIT 1) due
			WHERE d.status = 'enabled' AND o.status IS DISTINCT FROM 'suspended'),
		(SELECT count(*) FROM destinations.destinations WHERE status = 'auto_disabled')
		FROM deliveries.outcomes`)
	if err != nil {
		return totals, err
	}
	totals.By, err = q.pendingStates(ctx, totals.Pending(), "true", now)
	totals.By[deliverystate.Succeeded], totals.By[deliverystate.Failed] = totals.Succeeded, totals.Failed
	totals.By[deliverystate.Superseded], totals.By[deliverystate.Discarded] = totals.Superseded, totals.Discarded
	return totals, err
}

// Failing is a destination that fails, see failingDestination.
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
	page := statement{`SELECT d.id, d.organization, coalesce(o.name, ''), d.name, d.status,
		coalesce(h.consecutive_failures, 0), h.streak_started_at, coalesce(h.last_error_message, '')
		FROM destinations.destinations d LEFT JOIN health.health h ON h.destination = d.id
		LEFT JOIN organizations.organizations o ON o.id = d.organization
		WHERE ` + failingDestination + " ORDER BY h.consecutive_failures DESC NULLS LAST, d.id LIMIT $1", []any{limit}}
	return counted(ctx, q.Pool, "failing destinations", pgx.RowToStructByPos[Failing], page,
		statement{"SELECT count(*) FROM destinations.destinations d WHERE " + failingDestination, nil})
}

// DatabaseSize returns the size of the database on disk, in bytes.
func (q *Queries) DatabaseSize(ctx context.Context) (bytes int64, err error) {
	return value[int64](ctx, q.Pool, "size of the database", "SELECT pg_database_size(current_database())")
}
