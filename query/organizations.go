package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/projections/deliveries/deliverystate"
)

// Organization is an organization in the operators' list.
type Organization struct {
	ID        uuid.UUID        `json:"id"`
	Name      string           `json:"name"`
	CreatedAt time.Time        `json:"createdAt"`
	Status    string           `json:"status"` // registered or suspended
	Limits    map[string]int64 `json:"-"`      // explicitly set ones, by name
}

const organizationColumns = "id, name, created_at, status, limits"

// Organization finds an organization, or returns ErrNotFound.
func (q *Queries) Organization(ctx context.Context, id uuid.UUID) (Organization, error) {
	return one(ctx, q.Pool, "organization", pgx.RowToStructByPos[Organization],
		"SELECT "+organizationColumns+" FROM organizations.organizations WHERE id = $1", id)
}

// SuspendedOrganizations lists the suspended organizations.
func (q *Queries) SuspendedOrganizations(ctx context.Context) ([]uuid.UUID, error) {
	return many(ctx, q.Pool, "suspended organizations", pgx.RowTo[uuid.UUID],
		"SELECT id FROM organizations.organizations WHERE status = 'suspended'")
}

// Organizations lists all organizations, oldest first.
func (q *Queries) Organizations(ctx context.Context) ([]Organization, error) {
	return many(ctx, q.Pool, "organizations", pgx.RowToStructByPos[Organization],
		"SELECT "+organizationColumns+" FROM organizations.organizations ORDER BY "+
			"created_at, id")
}

// OrganizationSummary is an organization and its condition, for operators.
type OrganizationSummary struct {
	ID           uuid.UUID
	Name         string
	CreatedAt    time.Time
	Status       string // registered or suspended
	Destinations int
	Failing      int // destinations, see failingDestination
	Outcomes         // of the deliveries created today (UTC)
}

// matchesOrganization is the condition that organization o has a text in its name or as a prefix of its id.
const matchesOrganization = "($1 = '' OR strpos(lower(o.name), lower($1)) > 0 OR starts_with(o.id::text, lower($1)))"

// OrganizationSummaries lists organizations, oldest first, and counts all that match a text.
func (q *Queries) OrganizationSummaries(ctx context.Context, text string, now time.Time,
	limit, offset int) ([]OrganizationSummary, int, error) {
	page := statement{`
		SELECT o.id, o.name, o.created_at, o.status,
			(SELECT count(*) FROM destinations.destinations d WHERE d.organization = o.id),
			(SELECT count(*) FROM destinations.destinations d WHERE d.organization = o.id AND ` + failingDestination + `),
			t.total, t.succeeded, t.failed, t.superseded, t.discarded
		FROM (SELECT * FROM organizations.organizations o WHERE ` + matchesOrganization + ` ORDER BY created_at, id
			LIMIT $2 OFFSET $3) o
		CROSS JOIN LATERAL (
			SELECT ` + sumOfOutcomes + ` FROM deliveries.outcomes t WHERE t.organization = o.id AND t.day >= $4) t
		ORDER BY o.created_at, o.id`, []any{text, limit, offset, now.UTC().Truncate(24 * time.Hour)}}
	count := statement{"SELECT count(*) FROM organizations.organizations o WHERE " + matchesOrganization, []any{text}}
	return counted(ctx, q.Pool, "organizations", pgx.RowToStructByPos[OrganizationSummary], page, count)
}

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
