package query

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Recipient is a destination that an event could have gone to, as it was when that was published.
type Recipient struct {
	ID        uuid.UUID
	Name      string // as it was called last
	Status    string // now: enabled, disabled, auto_disabled, deleted
	Then      string // its status at the moment; "": it was made later
	CreatedAt time.Time
	EndedAt   *time.Time // when it was deleted
}

// Recipients lists the destinations of an organization, oldest first, as they were at a moment: those that are there now,
// and those that have been deleted since then.
func (q *Queries) Recipients(ctx context.Context, organization uuid.UUID, at time.Time) ([]Recipient, error) {
	rows, err := q.Pool.Query(ctx, `
		SELECT c.destination, coalesce(n.name, ''), coalesce(l.status, ''), coalesce(t.status, ''), c.recorded_at,
			CASE WHEN l.status = 'deleted' THEN l.recorded_at END
		FROM (SELECT destination, min(recorded_at) AS recorded_at FROM audit.entries WHERE organization = $1 GROUP BY destination) c
		LEFT JOIN LATERAL (SELECT detail->>'status' AS status, recorded_at FROM audit.entries
			WHERE destination = c.destination AND detail ? 'status' ORDER BY revision DESC LIMIT 1) l ON true
		LEFT JOIN LATERAL (SELECT detail->>'status' AS status FROM audit.entries
			WHERE destination = c.destination AND detail ? 'status' AND recorded_at <= $2 ORDER BY revision DESC LIMIT 1) t ON true
		LEFT JOIN LATERAL (SELECT detail->>'name' AS name FROM audit.entries
			WHERE destination = c.destination AND detail ? 'url' ORDER BY revision DESC LIMIT 1) n ON true
		WHERE NOT (l.status = 'deleted' AND l.recorded_at <= $2) ORDER BY c.recorded_at, c.destination`, organization, at)
	if err != nil {
		return nil, fmt.Errorf("recipients: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Recipient])
	if err != nil {
		return nil, fmt.Errorf("recipients: %w", err)
	}
	return list, nil
}

// SubscriptionsOf lists the subscriptions of many destinations of an organization, by destination.
func (q *Queries) SubscriptionsOf(ctx context.Context, organization uuid.UUID, destinations []uuid.UUID) (map[uuid.UUID][]Subscription, error) {
	rows, err := q.Pool.Query(ctx, selectSubscription+" WHERE s.organization = $1 AND s.destination = ANY($2) ORDER BY s.created_at, s.id", organization, destinations)
	if err != nil {
		return nil, fmt.Errorf("subscriptions of many: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanSubscription)
	if err != nil {
		return nil, fmt.Errorf("subscriptions of many: %w", err)
	}
	found := map[uuid.UUID][]Subscription{}
	for _, s := range list {
		found[s.Destination] = append(found[s.Destination], s)
	}
	return found, nil
}
