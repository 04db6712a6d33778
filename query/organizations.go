package query

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// OrganizationSummary is an organization and its condition, for operators.
type OrganizationSummary struct {
	ID           uuid.UUID
	Name         string
	CreatedAt    time.Time
	Status       string // registered or suspended
	Destinations int
	// Failing counts destinations whose last attempt failed or that were disabled after failures.
	Failing  int
	Outcomes // of the deliveries created today (UTC)
}

// matchesOrganization is the condition that organization o has a text in its name or as a prefix of its id.
const matchesOrganization = "($1 = '' OR strpos(lower(o.name), lower($1)) > 0 OR starts_with(o.id::text, lower($1)))"

// OrganizationSummaries lists organizations, oldest first, and counts all that match a text.
func (q *Queries) OrganizationSummaries(ctx context.Context, text string, now time.Time,
	limit, offset int) ([]OrganizationSummary, int, error) {
	var (
		batch pgx.Batch
		page  []OrganizationSummary
		total int
	)
	batch.Queue(`
		SELECT o.id, o.name, o.created_at, o.status,
			(SELECT count(*) FROM destinations.destinations d WHERE d.organization = o.id),
			(SELECT count(*) FROM destinations.destinations d JOIN health.health h ON h.destination = d.id
				WHERE d.organization = o.id AND (h.consecutive_failures > 0 OR d.status = 'auto_disabled')),
			t.total, t.succeeded, t.failed, t.superseded, t.discarded
		FROM (SELECT * FROM organizations.organizations o WHERE `+matchesOrganization+` ORDER BY created_at, id
			LIMIT $2 OFFSET $3) o
		CROSS JOIN LATERAL (
			SELECT `+sumOfOutcomes+` FROM deliveries.outcomes t WHERE t.organization = o.id AND t.day >= $4) t
		ORDER BY o.created_at, o.id`, text, limit, offset, now.UTC().Truncate(24*time.Hour)).Query(func(rows pgx.Rows) (
		err error) {
		page, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o OrganizationSummary, err error) {
			err = row.Scan(&o.ID, &o.Name, &o.CreatedAt, &o.Status, &o.Destinations, &o.Failing,
				&o.Total, &o.Succeeded, &o.Failed, &o.Superseded, &o.Discarded)
			return o, err
		})
		return err
	})
	batch.Queue("SELECT count(*) FROM organizations.organizations o WHERE "+matchesOrganization, text).
		QueryRow(func(row pgx.Row) error { return row.Scan(&total) })
	if err := q.Pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, 0, fmt.Errorf("organizations: %w", err)
	}
	return page, total, nil
}
