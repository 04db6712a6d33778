package query

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"carillon/projections/deliveries/deliverystate"
)

// Recipient is a destination that an event could have gone to, in its state at the time of publication.
type Recipient struct {
	ID        uuid.UUID
	Name      string // the last one
	Status    string // current: enabled, disabled, auto_disabled, deleted
	Then      string // status at that time; empty if it was created later
	CreatedAt time.Time
	EndedAt   *time.Time // when it was deleted
}

// RecipientIDs lists the destinations of an organization that an event published at a moment could have gone to,
// oldest first: current ones, and those deleted since. There may be very many: only ids are read, in order.
func (q *Queries) RecipientIDs(ctx context.Context, organization uuid.UUID, at time.Time) ([]uuid.UUID, error) {
	// The index is on the time of effect, by the writer's clock, which is less than a day off.
	return many(ctx, q.Pool, "ids of recipients", scanID, `
		SELECT id FROM (
			SELECT id, created_at FROM destinations.destinations WHERE organization = $1
			UNION ALL
			SELECT e.destination, c.at FROM audit.entries e JOIN audit.entries c ON c.destination = e.destination
			AND c.revision = 0
			WHERE e.organization = $1 AND e.at > $2::timestamptz - interval '1 day' AND e.recorded_at > $2
			AND e.detail->>'status' = 'deleted'
				AND NOT EXISTS (SELECT FROM destinations.destinations d WHERE d.id = e.destination)) all_of_them
		ORDER BY created_at, id`, organization, at)
}

// DestinationIDs lists the ids of an organization's destinations. There may be very many.
func (q *Queries) DestinationIDs(ctx context.Context, organization uuid.UUID) ([]uuid.UUID, error) {
	return many(ctx, q.Pool, "ids of destinations", scanID,
		"SELECT id FROM destinations.destinations WHERE organization = $1", organization)
}

// Recipients returns the state of some destinations of an organization at a moment, in the given order. Those that the
// audit trail does not have yet are as they are now.
func (q *Queries) Recipients(ctx context.Context, organization uuid.UUID, ids []uuid.UUID,
	at time.Time) ([]Recipient, error) {
	return many(ctx, q.Pool, "recipients", pgx.RowToStructByPos[Recipient], `
		SELECT page.id, coalesce(n.name, d.name, ''), coalesce(l.status, d.status, ''),
			coalesce(t.status, CASE WHEN c.destination IS NULL AND d.created_at <= $2 THEN d.status END, ''),
			coalesce(c.recorded_at, d.created_at), CASE WHEN l.status = 'deleted' THEN l.recorded_at END
		FROM unnest($3::uuid[]) WITH ORDINALITY page(id, number)
		LEFT JOIN audit.entries c ON c.destination = page.id AND c.revision = 0 AND c.organization = $1
		LEFT JOIN destinations.destinations d ON d.id = page.id AND d.organization = $1
		LEFT JOIN LATERAL (SELECT detail->>'status' AS status, recorded_at FROM audit.entries
			WHERE destination = c.destination AND detail ? 'status' ORDER BY revision DESC LIMIT 1) l ON true
		LEFT JOIN LATERAL (SELECT detail->>'status' AS status FROM audit.entries
			WHERE destination = c.destination AND detail ? 'status' AND recorded_at <= $2 ORDER BY revision DESC
			LIMIT 1) t ON true
		LEFT JOIN LATERAL (SELECT detail->>'name' AS name FROM audit.entries
			WHERE destination = c.destination AND detail ? 'url' ORDER BY revision DESC LIMIT 1) n ON true
		WHERE c.destination IS NOT NULL OR d.id IS NOT NULL
		ORDER BY page.number`, organization, at, ids)
}

// DeliveriesMade returns the states of the existing ones of some deliveries. There may be very many ids.
func (q *Queries) DeliveriesMade(ctx context.Context, ids []uuid.UUID, now time.Time) (
	map[uuid.UUID]deliverystate.State, error) {
	type made struct {
		ID       uuid.UUID
		Status   string
		Held     bool
		Attempts int
	}
	found, err := many(ctx, q.Pool, "deliveries made", pgx.RowToStructByPos[made], `SELECT d.id, d.status,
		coalesce(`+isHeld+`, false), d.attempts
		FROM deliveries.deliveries d LEFT JOIN deliveries.due u ON u.id = d.id WHERE d.id = ANY($2)`, now, binaryUUIDs(ids))
	return keyed(found, func(d made) (uuid.UUID, deliverystate.State) {
		return d.ID, deliverystate.Of(d.Status, d.Held, d.Attempts)
	}), err
}

// SubscriptionsOf lists the subscriptions of many destinations of an organization, by destination.
func (q *Queries) SubscriptionsOf(ctx context.Context, organization uuid.UUID, destinations []uuid.UUID) (
	map[uuid.UUID][]Subscription, error) {
	all, err := many(ctx, q.Pool, "subscriptions of many", pgx.RowToStructByPos[Subscription], selectSubscription+
		" WHERE s.organization = $1 AND s.destination = ANY($2) ORDER BY s.created_at, s.id", organization, destinations)
	return grouped(all, func(s Subscription) uuid.UUID { return s.Destination }), err
}

// binaryUUIDs sends ids in binary form; pgx would format each as text.
type binaryUUIDs []uuid.UUID

// Dimensions implements pgtype.ArrayGetter.
func (b binaryUUIDs) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(b)), LowerBound: 1}} //nolint:gosec // bounded by memory
}

// Index implements pgtype.ArrayGetter.
func (b binaryUUIDs) Index(i int) any { return binaryUUID(b[i]) }

// IndexType implements pgtype.ArrayGetter.
func (binaryUUIDs) IndexType() any { return pgtype.UUID{} }

// scanID reads a row of one id in binary form; pgx would read it as text.
func scanID(row pgx.CollectableRow) (uuid.UUID, error) {
	values := row.RawValues()
	if len(values) != 1 || len(values[0]) != idSize {
		return uuid.Nil, fmt.Errorf("not an id: %x", values)
	}
	return uuid.UUID(values[0]), nil
}
