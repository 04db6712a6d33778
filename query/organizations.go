package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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
