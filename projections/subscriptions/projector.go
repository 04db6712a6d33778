// Package subscriptions is the read model of subscriptions: as their organization sees them, and by the feeds that
// they pin.
package subscriptions

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/destination"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/column"
)

//go:embed schema.sql
var schema string

// ReadModel is the read model of subscriptions.
var ReadModel = projections.ReadModel{
	Name:    "subscriptions",
	Version: 1,
	Schema:  schema,
	Filter:  eventstore.Categories(subscription.Aggregate.Category, destination.Aggregate.Category),
	Project: project,
}

// project reads the rows that the batch continues, folds, and writes them back.
func project(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
	f, err := read(ctx, tx, batch)
	if err != nil {
		return err
	}
	for i := range batch {
		recorded := &batch[i]
		if recorded.Category() == destination.Aggregate.Category {
			event, err := destination.Events.Decode(recorded)
			if err != nil {
				return err
			}
			f.applyDestination(recorded.StreamID(), event)
			continue
		}
		event, err := subscription.Events.Decode(recorded)
		if err != nil {
			return err
		}
		f.apply(recorded.StreamID(), int64(recorded.Revision), event)
	}
	return f.write(ctx, tx)
}

// row is a subscription.
type row struct {
	organization uuid.UUID
	destination  uuid.UUID
	declaration  subscription.Settings
	active       bool
	createdAt    time.Time
	updatedAt    time.Time
	revision     int64
	declared     bool // anew, in this batch
}

// fold is what a batch makes of the rows that it concerns.
type fold struct {
	rows         map[uuid.UUID]*row
	deleted      column.UUIDs
	destinations column.UUIDs // deleted ones
}

func (f *fold) apply(id uuid.UUID, revision int64, event subscription.Event) {
	if e, ok := event.(subscription.Created); ok {
		f.rows[id] = &row{
			organization: e.Organization, destination: e.Destination, declaration: e.Settings, active: true,
			createdAt: e.At, updatedAt: e.At, revision: revision, declared: true,
		}
		return
	}
	r := f.rows[id]
	if r == nil {
		return // deleted, alone or with its destination
	}
	r.revision = revision
	switch e := event.(type) {
	case subscription.Created: // see above
	case subscription.Revised:
		r.declaration, r.declared, r.updatedAt = e.Settings, true, e.At
	case subscription.Activated:
		r.active, r.updatedAt = true, e.At
	case subscription.Deactivated:
		r.active, r.updatedAt = false, e.At
	case subscription.Deleted:
		delete(f.rows, id)
		f.deleted = append(f.deleted, id)
	}
}

func (f *fold) applyDestination(destinationID uuid.UUID, event destination.Event) {
	switch event.(type) {
	case destination.Deleted:
		for id, r := range f.rows {
			if r.destination == destinationID {
				delete(f.rows, id)
			}
		}
		f.destinations = append(f.destinations, destinationID)
	case destination.Created, destination.Revised, destination.Enabled, destination.Disabled, destination.AutoDisabled,
		destination.SecretMinted, destination.SecretRotated, destination.SecretExpired: // leave its subscriptions as they are
	}
}

// read begins a fold with the stored subscriptions that the batch names.
func read(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) (*fold, error) {
	f := &fold{rows: map[uuid.UUID]*row{}}
	var ids column.UUIDs
	for i := range batch {
		if batch[i].Category() == subscription.Aggregate.Category {
			ids = append(ids, batch[i].StreamID())
		}
	}
	if len(ids) == 0 {
		return f, nil
	}
	rows, err := tx.Query(ctx, `SELECT id, organization, destination, coalesce(external_id, ''), event_types, scope_kind,
			coalesce(feed_type, ''), feeds, active, created_at, updated_at, revision
		FROM subscriptions WHERE id = ANY($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("read subscriptions: %w", err)
	}
	for rows.Next() {
		var (
			id    uuid.UUID
			r     row
			feeds []byte
		)
		d := &r.declaration
		if err := rows.Scan(&id, &r.organization, &r.destination, &d.ExternalID, &d.EventTypes, &d.ScopeKind, &d.FeedType, &feeds,
			&r.active, &r.createdAt, &r.updatedAt, &r.revision); err != nil {
			rows.Close()
			return nil, fmt.Errorf("read subscriptions: %w", err)
		}
		if err := json.Unmarshal(feeds, &d.Feeds); err != nil {
			rows.Close()
			return nil, fmt.Errorf("read subscriptions: pins of %s: %w", id, err)
		}
		f.rows[id] = &r
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read subscriptions: %w", err)
	}
	return f, nil
}

// write stores the fold.
func (f *fold) write(ctx context.Context, tx pgx.Tx) error {
	var statements pgx.Batch
	if len(f.destinations) > 0 {
		statements.Queue("DELETE FROM pins p USING subscriptions s WHERE s.destination = ANY($1) AND p.subscription = s.id", f.destinations)
		statements.Queue("DELETE FROM subscriptions WHERE destination = ANY($1)", f.destinations)
	}
	if len(f.deleted) > 0 {
		statements.Queue("DELETE FROM pins WHERE subscription = ANY($1)", f.deleted)
		statements.Queue("DELETE FROM subscriptions WHERE id = ANY($1)", f.deleted)
	}
	if err := f.writeRows(&statements); err != nil {
		return err
	}
	f.writePins(&statements)
	if statements.Len() == 0 {
		return nil
	}
	if err := tx.SendBatch(ctx, &statements).Close(); err != nil {
		return fmt.Errorf("write subscriptions: %w", err)
	}
	return nil
}

func (f *fold) writeRows(statements *pgx.Batch) error {
	var (
		id, organization, destinations column.UUIDs
		externalID, feedType           column.NullTexts
		eventTypes, scopeKind, feeds   []string
		active                         []bool
		createdAt, updatedAt           column.Times
		revision                       []int64
	)
	for rowID, r := range f.rows {
		d := &r.declaration
		types, err := json.Marshal(d.EventTypes)
		if err != nil {
			return fmt.Errorf("write subscriptions: %w", err)
		}
		pins, err := json.Marshal(d.Feeds, json.FormatNilSliceAsNull(false))
		if err != nil {
			return fmt.Errorf("write subscriptions: %w", err)
		}
		id, organization, destinations = append(id, rowID), append(organization, r.organization), append(destinations, r.destination)
		externalID, feedType = append(externalID, d.ExternalID), append(feedType, d.FeedType)
		eventTypes, scopeKind, feeds = append(eventTypes, string(types)), append(scopeKind, d.ScopeKind), append(feeds, string(pins))
		active, revision = append(active, r.active), append(revision, r.revision)
		createdAt, updatedAt = append(createdAt, r.createdAt), append(updatedAt, r.updatedAt)
	}
	if len(id) == 0 {
		return nil
	}
	// The types of one subscription are a list themselves; unnest would flatten a list of lists.
	statements.Queue(`
		INSERT INTO subscriptions (id, organization, destination, external_id, event_types, scope_kind, feed_type, feeds, active,
			created_at, updated_at, revision)
		SELECT id, organization, destination, external_id, ARRAY(SELECT jsonb_array_elements_text(event_types::jsonb)), scope_kind,
			feed_type, feeds::jsonb, active, created_at, updated_at, revision
		FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::boolean[],
			$10::timestamptz[], $11::timestamptz[], $12::bigint[])
		AS u (id, organization, destination, external_id, event_types, scope_kind, feed_type, feeds, active, created_at, updated_at, revision)
		ON CONFLICT (id) DO UPDATE SET external_id = excluded.external_id, event_types = excluded.event_types,
			scope_kind = excluded.scope_kind, feed_type = excluded.feed_type, feeds = excluded.feeds, active = excluded.active,
			updated_at = excluded.updated_at, revision = excluded.revision`,
		id, organization, destinations, externalID, eventTypes, scopeKind, feedType, feeds, active, createdAt, updatedAt, revision)
	return nil
}

func (f *fold) writePins(statements *pgx.Batch) {
	var (
		declared, feedID, subscriptions column.UUIDs
		feedType                        []string
	)
	for id, r := range f.rows {
		if !r.declared {
			continue
		}
		declared = append(declared, id)
		for _, pin := range r.declaration.Feeds {
			feedID, feedType, subscriptions = append(feedID, pin.FeedID), append(feedType, pin.FeedType), append(subscriptions, id)
		}
	}
	if len(declared) > 0 {
		statements.Queue("DELETE FROM pins WHERE subscription = ANY($1)", declared)
	}
	if len(feedID) > 0 {
		statements.Queue(`INSERT INTO pins (feed_id, feed_type, subscription)
			SELECT * FROM unnest($1::uuid[], $2::text[], $3::uuid[]) ON CONFLICT DO NOTHING`, feedID, feedType, subscriptions)
	}
}
