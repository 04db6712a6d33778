package query

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
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

// RecipientIDs lists the destinations of an organization that something which was published at a moment could have gone to,
// oldest first: those that are there now, and those that have been deleted since then. They may be very many: this reads no
// more of them than their order.
func (q *Queries) RecipientIDs(ctx context.Context, organization uuid.UUID, at time.Time) ([]uuid.UUID, error) {
	// The index has when a change took effect. That is by the clock of who made it, which is not off by a day.
	rows, err := q.Pool.Query(ctx, `
		SELECT id FROM (
			SELECT id, created_at FROM destinations.destinations WHERE organization = $1
			UNION ALL
			SELECT e.destination, c.at FROM audit.entries e JOIN audit.entries c ON c.destination = e.destination AND c.revision = 0
			WHERE e.organization = $1 AND e.at > $2::timestamptz - interval '1 day' AND e.recorded_at > $2 AND e.detail->>'status' = 'deleted'
				AND NOT EXISTS (SELECT FROM destinations.destinations d WHERE d.id = e.destination)) all_of_them
		ORDER BY created_at, id`, organization, at)
	if err != nil {
		return nil, fmt.Errorf("ids of recipients: %w", err)
	}
	ids, err := collectIDs(rows)
	if err != nil {
		return nil, fmt.Errorf("ids of recipients: %w", err)
	}
	return ids, nil
}

// DestinationIDs lists the destinations of an organization. They may be very many: this reads no more of them.
func (q *Queries) DestinationIDs(ctx context.Context, organization uuid.UUID) ([]uuid.UUID, error) {
	rows, err := q.Pool.Query(ctx, "SELECT id FROM destinations.destinations WHERE organization = $1", organization)
	if err != nil {
		return nil, fmt.Errorf("ids of destinations: %w", err)
	}
	ids, err := collectIDs(rows)
	if err != nil {
		return nil, fmt.Errorf("ids of destinations: %w", err)
	}
	return ids, nil
}

// Recipients says of some destinations of an organization how they were at a moment. They come as they are given; those that
// the record does not know yet are left out.
func (q *Queries) Recipients(ctx context.Context, organization uuid.UUID, ids []uuid.UUID, at time.Time) ([]Recipient, error) {
	rows, err := q.Pool.Query(ctx, `
		SELECT c.destination, coalesce(n.name, ''), coalesce(l.status, ''), coalesce(t.status, ''), c.recorded_at,
			CASE WHEN l.status = 'deleted' THEN l.recorded_at END
		FROM unnest($3::uuid[]) WITH ORDINALITY page(id, number)
		JOIN audit.entries c ON c.destination = page.id AND c.revision = 0 AND c.organization = $1
		LEFT JOIN LATERAL (SELECT detail->>'status' AS status, recorded_at FROM audit.entries
			WHERE destination = c.destination AND detail ? 'status' ORDER BY revision DESC LIMIT 1) l ON true
		LEFT JOIN LATERAL (SELECT detail->>'status' AS status FROM audit.entries
			WHERE destination = c.destination AND detail ? 'status' AND recorded_at <= $2 ORDER BY revision DESC LIMIT 1) t ON true
		LEFT JOIN LATERAL (SELECT detail->>'name' AS name FROM audit.entries
			WHERE destination = c.destination AND detail ? 'url' ORDER BY revision DESC LIMIT 1) n ON true
		ORDER BY page.number`, organization, at, ids)
	if err != nil {
		return nil, fmt.Errorf("recipients: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[Recipient])
	if err != nil {
		return nil, fmt.Errorf("recipients: %w", err)
	}
	return list, nil
}

// DeliveriesMade tells which of some deliveries there are. The ids may be very many.
func (q *Queries) DeliveriesMade(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]bool, error) {
	rows, err := q.Pool.Query(ctx, "SELECT id FROM deliveries.deliveries WHERE id = ANY($1)", binaryUUIDs(ids))
	if err != nil {
		return nil, fmt.Errorf("deliveries made: %w", err)
	}
	found, err := collectIDs(rows)
	if err != nil {
		return nil, fmt.Errorf("deliveries made: %w", err)
	}
	made := make(map[uuid.UUID]bool, len(found))
	for _, id := range found {
		made[id] = true
	}
	return made, nil
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

// binaryUUIDs are sent in binary form; by itself pgx would format each as text.
type binaryUUIDs []uuid.UUID

// Dimensions implements pgtype.ArrayGetter.
func (b binaryUUIDs) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(b)), LowerBound: 1}} //nolint:gosec // nobody has so many
}

// Index implements pgtype.ArrayGetter.
func (b binaryUUIDs) Index(i int) any { return binaryUUID(b[i]) }

// IndexType implements pgtype.ArrayGetter.
func (binaryUUIDs) IndexType() any { return pgtype.UUID{} }

// collectIDs reads rows of one id each, as they are sent; by itself pgx would read each as text.
func collectIDs(rows pgx.Rows) ([]uuid.UUID, error) {
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (uuid.UUID, error) {
		values := row.RawValues()
		if len(values) != 1 || len(values[0]) != idSize {
			return uuid.Nil, fmt.Errorf("not an id: %x", values)
		}
		return uuid.UUID(values[0]), nil
	})
}
