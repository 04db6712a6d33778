package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// AuditEssentials returns the changes of a destination from which its state at a time follows by AuditStateAt: the
// first one, those of secrets, and the last ones of settings and status. There may be thousands of others. It returns
// ErrNotFound if the destination never existed.
func (q *Queries) AuditEssentials(ctx context.Context, destination uuid.UUID, at time.Time) ([]AuditEntry, error) {
	entries, err := q.auditRows(ctx, "audit", "entries", `destination = $1 AND (revision = 0 OR revision < (
			SELECT coalesce(min(revision), 9223372036854775807) FROM audit.entries WHERE destination = $1 AND at > $2)
		AND (detail ? 'secretId' OR detail ? 'expiring' OR revision IN (
			SELECT max(revision) FILTER (WHERE detail ? part) FROM audit.entries, unnest(ARRAY['url', 'status']) part
			WHERE destination = $1 AND revision < (
				SELECT coalesce(min(revision), 9223372036854775807) FROM audit.entries WHERE destination = $1 AND at > $2)
			GROUP BY part
			UNION ALL SELECT max(revision) FROM audit.entries WHERE destination = $1 AND revision < (
				SELECT coalesce(min(revision), 9223372036854775807) FROM audit.entries WHERE destination = $1 AND at > $2))))
		ORDER BY revision`, destination, at)
	if err == nil && len(entries) == 0 {
		err = ErrNotFound
	}
	return entries, err
}

// AddSubscriptions completes the state of a destination at a time with its subscriptions then. A deleted destination
// has none.
func (q *Queries) AddSubscriptions(ctx context.Context, destination uuid.UUID, to *AuditState, at time.Time) error {
	if to == nil || to.Status == "deleted" {
		return nil
	}
	subscriptions, err := many(ctx, q.Pool, "subscriptions on record", pgx.RowToStructByPos[AuditSubscription], `
		SELECT right(c.stream, 36)::uuid, d.settings->>'externalId',
			ARRAY(SELECT jsonb_array_elements_text(d.settings->'eventTypes')), d.settings->>'scopeKind',
			d.settings->>'feedType', coalesce(d.settings->'feeds', '[]'),
			coalesce(s.type LIKE 'subscription.activated.%', true), nullif(s.reason, ''), c.at, greatest(d.at, s.at),
			greatest(d.revision, s.revision)
		FROM audit.record c
		CROSS JOIN LATERAL (SELECT detail->'declaration' AS settings, at, revision FROM audit.record r
			WHERE r.stream = c.stream AND main AND at <= $2 AND detail ? 'declaration' ORDER BY revision DESC LIMIT 1) d
		LEFT JOIN LATERAL (SELECT type, detail->>'reason' AS reason, at, revision FROM audit.record r
			WHERE r.stream = c.stream AND main AND at <= $2 AND NOT detail ? 'declaration' ORDER BY revision DESC LIMIT 1) s
			ON true
		WHERE c.kind = 'destination' AND c.thing = $1::uuid::text AND c.revision = 0 AND c.stream LIKE 'subscription-%'
			AND s.type IS DISTINCT FROM 'subscription.deleted.v1'
		ORDER BY c.at, c.stream`, destination, at)
	for i := range subscriptions {
		s := &subscriptions[i]
		s.CreatedAt, s.UpdatedAt = s.CreatedAt.UTC(), s.UpdatedAt.UTC()
	}
	to.Subscriptions = append(to.Subscriptions, subscriptions...)
	return err
}
