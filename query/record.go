package query

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// RecordFilter selects destinations of the audit trail, deleted ones included. Zero fields don't restrict.
type RecordFilter struct {
	Organization uuid.UUID
	// Text is a part of a current or former name or address, or a prefix of the id.
	Text   string
	Status string // current: "deleted", or "there" for all others
	Limit  int
	Offset int
}

// RecordedDestination is an existing or deleted destination.
type RecordedDestination struct {
	ID               uuid.UUID
	Organization     uuid.UUID
	OrganizationName string // empty if the organization is gone
	CreatedAt        time.Time
	ChangedAt        time.Time // of its last change
	Changes          int64
	Status           string
	Name             string
	URL              string
}

// Record lists existing and deleted destinations, newest first, and counts all that match.
func (q *Queries) Record(ctx context.Context, f RecordFilter) ([]RecordedDestination, int, error) {
	args := arguments{}
	where := "e.revision = 0"
	if f.Organization != uuid.Nil {
		where += " AND e.organization = " + args.add(f.Organization)
	}
	if f.Text != "" {
		text := args.add(f.Text)
		where += " AND (starts_with(e.destination::text, lower(" + text + ")) OR EXISTS (SELECT FROM audit.entries g WHERE " +
			"g.destination = e.destination AND (strpos(lower(g.detail->>'name'), lower(" +
			text + ")) > 0 OR strpos(lower(g.detail->>'url'), lower(" + text + ")) > 0)))"
	}
	const deleted = "EXISTS (SELECT FROM audit.entries g WHERE g.destination = e.destination" +
		" AND g.detail->>'status' = 'deleted')"
	switch f.Status {
	case "deleted":
		where += " AND " + deleted
	case "there":
		where += " AND NOT " + deleted
	}
	count := statement{"SELECT count(*) FROM audit.entries e WHERE " + where, slices.Clone(args)}
	page := `SELECT e.destination, coalesce(e.organization, '00000000-0000-0000-0000-000000000000'),
		coalesce(o.name, ''), e.at,
			l.recorded_at, l.revision + 1, coalesce(t.status, ''), coalesce(n.name, ''), coalesce(n.url, '')
		FROM (SELECT * FROM audit.entries e WHERE ` + where + " ORDER BY e.at DESC, e.destination LIMIT " +
		args.add(f.Limit) + " OFFSET " + args.add(f.Offset) + `) e
		LEFT JOIN organizations.organizations o ON o.id = e.organization
		CROSS JOIN LATERAL (SELECT revision, recorded_at FROM audit.entries g WHERE g.destination = e.destination
		ORDER BY g.revision DESC LIMIT 1) l
		LEFT JOIN LATERAL (SELECT detail->>'status' AS status FROM audit.entries g
			WHERE g.destination = e.destination AND g.detail ? 'status' ORDER BY g.revision DESC LIMIT 1) t ON true
		LEFT JOIN LATERAL (SELECT detail->>'name' AS name, detail->>'url' AS url FROM audit.entries g
			WHERE g.destination = e.destination AND g.detail ? 'url' ORDER BY g.revision DESC LIMIT 1) n ON true
		ORDER BY e.at DESC, e.destination`
	return counted(ctx, q.Pool, "record", pgx.RowToStructByPos[RecordedDestination], statement{page, args}, count)
}

// WholeRecord calls each for the histories of all destinations, or of those of one organization, one after the other,
// and then for their disclosures, as inPages does.
func (q *Queries) WholeRecord(ctx context.Context, organization uuid.UUID, each func(AuditEntry) error) error {
	err := inPages(func(after AuditEntry) ([]AuditEntry, error) {
		if after.Destination == uuid.Nil {
			after.Revision = -1
		}
		return q.auditRows(ctx, "record", "entries", "(destination, revision) > ($1, $2) AND ($3::uuid IS NULL OR "+
			"organization = $3) ORDER BY destination, revision LIMIT $4",
			after.Destination, after.Revision, nullable(organization), historyPage)
	}, each)
	if err != nil {
		return err
	}
	return q.eachDisclosure(ctx, "($1::uuid IS NULL OR organization = $1)", nullable(organization), each)
}

// NamedDestination is a destination on record, deleted or not, with its last name.
type NamedDestination struct {
	ID           uuid.UUID `json:"id"`
	Organization uuid.UUID `json:"organization"`
	Name         string    `json:"name"`
}

// NamedOnRecord lists destinations, deleted ones included, by the beginning of their ids or by an external id that they
// have or had.
func (q *Queries) NamedOnRecord(
	ctx context.Context, ref string, organization uuid.UUID, most int,
) ([]NamedDestination, error) {
	return many(ctx, q.Pool, "destinations on record", pgx.RowToStructByPos[NamedDestination], `
		SELECT e.destination, coalesce(e.organization, '00000000-0000-0000-0000-000000000000'), n.name
		FROM audit.entries e
		CROSS JOIN LATERAL (SELECT detail->>'name' AS name FROM audit.entries g WHERE g.destination = e.destination
			AND detail ? 'name' ORDER BY revision DESC LIMIT 1) n
		WHERE e.revision = 0 AND ($2::uuid IS NULL OR e.organization = $2)
			AND (starts_with(e.destination::text, lower($1)) OR EXISTS (SELECT FROM audit.entries g
				WHERE g.destination = e.destination AND g.detail->>'externalId' = $1))
		ORDER BY e.at, e.destination LIMIT $3`, ref, nullable(organization), most)
}

// ThingsOnRecord lists the ids of the things of a kind that begin with a text.
func (q *Queries) ThingsOnRecord(
	ctx context.Context, kind, start string, organization uuid.UUID, most int,
) ([]string, error) {
	return many(ctx, q.Pool, "things on record", pgx.RowTo[string], `
		SELECT DISTINCT thing FROM audit.record WHERE kind = $1 AND starts_with(thing, lower($2))
			AND ($3::uuid IS NULL OR organization = $3) ORDER BY thing LIMIT $4`, kind, start, nullable(organization), most)
}

// StreamsOfDestination lists the streams of a destination's subscriptions and disclosures, deleted ones included.
func (q *Queries) StreamsOfDestination(ctx context.Context, destination uuid.UUID) ([]string, error) {
	return many(ctx, q.Pool, "streams of a destination", pgx.RowTo[string], `SELECT stream FROM audit.record
		WHERE kind = 'destination' AND thing = $1::uuid::text AND main AND stream NOT LIKE 'destination-%'
		GROUP BY stream ORDER BY min(commit_position), stream`, destination)
}

// nullable returns nil for a zero value.
func nullable[T comparable](value T) *T {
	var zero T
	if value == zero {
		return nil
	}
	return &value
}
