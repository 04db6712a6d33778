// Package subscriptions is the read model of subscriptions: as their organization sees them, and by the feeds that they
// pin.
package subscriptions

import (
	_ "embed"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/destination"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
	"carillon/projections"
)

//go:embed schema.sql
var schema string

// ReadModel is the read model of subscriptions.
var ReadModel = projections.ReadModel{
	Name:    "subscriptions",
	Version: 2, // 2: why it is inactive
	Schema:  schema,
	Filter:  eventstore.Categories(subscription.Aggregate.Category, destination.Aggregate.Category),
	Project: projections.Statements(decode, queue),
}

// decode returns the event of a subscription or of a destination.
func decode(recorded *eventstore.Recorded) (any, error) {
	if recorded.Category() == destination.Aggregate.Category {
		return destination.Events.Decode(recorded)
	}
	return subscription.Events.Decode(recorded)
}

const (
	insertSubscription = `INSERT INTO subscriptions (id, organization, destination, external_id, event_types, scope_kind,
		feed_type, feeds, active, created_at, updated_at, revision)
		VALUES ($1, $2, $3, nullif($4, ''), $5, $6, nullif($7, ''), $8, true, $9, $9, $10)`
	reviseSubscription = `UPDATE subscriptions SET external_id = nullif($2, ''), event_types = $3, scope_kind = $4,
		feed_type = nullif($5, ''), feeds = $6, updated_at = $7, revision = $8 WHERE id = $1`
	activate = `UPDATE subscriptions SET active = $2, reason = nullif($3, ''), updated_at = $4, revision = $5
		WHERE id = $1`
	// insertPins adds the pins of a subscription, unless it was deleted with its destination.
	insertPins = `INSERT INTO pins (subscription, feed_id, feed_type)
		SELECT id, pin."feedId", pin."feedType" FROM subscriptions,
			jsonb_to_recordset(feeds) AS pin ("feedId" uuid, "feedType" text) WHERE id = $1 ON CONFLICT DO NOTHING`
	deletePins = "DELETE FROM pins WHERE subscription = $1"
)

// queue adds an event's statements. Events after a deletion, alone or with the destination, find no row.
func queue(batch *pgx.Batch, recorded *eventstore.Recorded, event any) error {
	switch e := event.(type) {
	case subscription.Event:
		queueSubscription(batch, recorded.StreamID(), int64(recorded.Revision), e)
	case destination.Event:
		queueDestination(batch, recorded.StreamID(), e)
	}
	return nil
}

func queueSubscription(batch *pgx.Batch, id uuid.UUID, revision int64, event subscription.Event) {
	switch e := event.(type) {
	case subscription.Created:
		s := e.Settings
		batch.Queue(insertSubscription, id, e.Organization, e.Destination, s.ExternalID, s.EventTypes, s.ScopeKind,
			s.FeedType, pinsOf(s), e.At, revision)
		batch.Queue(insertPins, id)
	case subscription.Revised:
		s := e.Settings
		batch.Queue(reviseSubscription, id, s.ExternalID, s.EventTypes, s.ScopeKind, s.FeedType, pinsOf(s), e.At, revision)
		batch.Queue(deletePins, id)
		batch.Queue(insertPins, id)
	case subscription.Activated:
		batch.Queue(activate, id, true, "", e.At, revision)
	case subscription.Deactivated:
		batch.Queue(activate, id, false, e.Reason, e.At, revision)
	case subscription.Deleted:
		batch.Queue(deletePins, id)
		batch.Queue("DELETE FROM subscriptions WHERE id = $1", id)
	}
}

func queueDestination(batch *pgx.Batch, id uuid.UUID, event destination.Event) {
	switch event.(type) {
	case destination.Deleted:
		batch.Queue("DELETE FROM pins p USING subscriptions s WHERE s.destination = $1 AND p.subscription = s.id", id)
		batch.Queue("DELETE FROM subscriptions WHERE destination = $1", id)
	case destination.Created, destination.Revised, destination.Enabled, destination.Disabled, destination.AutoDisabled,
		destination.SecretMinted, destination.SecretRotated, destination.SecretExpired: // leave its subscriptions as they are
	}
}

// pinsOf returns the pins of a subscription for a column of JSON: an empty array if there are none.
func pinsOf(s subscription.Settings) []subscription.Pin {
	return append([]subscription.Pin{}, s.Feeds...)
}
