// Package subscriptions is the read model of subscriptions: as their organization sees them, and by the feeds that they
// pin.
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
	Version: 2, // 2: why it is inactive
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
	reason       string // why it is inactive, unless its owner switched it off
	createdAt    time.Time
	updatedAt    time.Time
	revision     int64
	declared     bool // again, in this batch
}

// fold holds the changes of a batch to the rows that it concerns.
type fold struct {
	rows         map[uuid.UUID]*row
	deleted      column.UUIDs
	destinations column.UUIDs // deleted ones
}

func (f *fold) apply(id uuid.UUID, revision int64, event subscription.Event) {
	if e, ok := event.(subscription.Created); ok {
		f.rows[id] = &row{
			organization: e.Organization,
			destination:  e.Destination,
			declaration:  e.Settings,
			active:       true,
			createdAt:    e.At,
			updatedAt:    e.At,
			revision:     revision,
			declared:     true,
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
		r.active, r.reason, r.updatedAt = true, "", e.At
	case subscription.Deactivated:
		r.active, r.reason, r.updatedAt = false, e.Reason, e.At
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
			coalesce(feed_type, ''), feeds, active, coalesce(reason, ''), created_at, updated_at, revision
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
		if err := rows.Scan(&id, &r.organization, &r.destination, &d.ExternalID, &d.EventTypes, &d.ScopeKind,
			&d.FeedType, &feeds,
			&r.active, &r.reason, &r.createdAt, &r.updatedAt, &r.revision); err != nil {
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
		statements.Queue("DELETE FROM pins p USING subscriptions s WHERE s.destination = ANY($1) AND p.subscription = s.id",
			f.destinations)
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

// stored is a row under its id, with its lists as JSON.
type stored struct {
	id uuid.UUID
	*row
	eventTypes, feeds string
}

// The types of one subscription are a list themselves; unnest would flatten a list of lists.
var upsertRows = column.Upsert("subscriptions", []string{"id"}, []string{"organization", "destination", "created_at"},
	column.New[column.UUIDs]("id", "uuid", func(s stored) uuid.UUID { return s.id }),
	column.New[column.UUIDs]("organization", "uuid", func(s stored) uuid.UUID { return s.organization }),
	column.New[column.UUIDs]("destination", "uuid", func(s stored) uuid.UUID { return s.destination }),
	column.New[column.NullTexts]("external_id", "text", func(s stored) string { return s.declaration.ExternalID }),
	column.New[[]string]("event_types", "text", func(s stored) string { return s.eventTypes }).
		As("ARRAY(SELECT jsonb_array_elements_text(event_types::jsonb))"),
	column.New[[]string]("scope_kind", "text", func(s stored) string { return s.declaration.ScopeKind }),
	column.New[column.NullTexts]("feed_type", "text", func(s stored) string { return s.declaration.FeedType }),
	column.New[[]string]("feeds", "text", func(s stored) string { return s.feeds }).As("feeds::jsonb"),
	column.New[[]bool]("active", "boolean", func(s stored) bool { return s.active }),
	column.New[column.NullTexts]("reason", "text", func(s stored) string { return s.reason }),
	column.New[column.Times]("created_at", "timestamptz", func(s stored) time.Time { return s.createdAt }),
	column.New[column.Times]("updated_at", "timestamptz", func(s stored) time.Time { return s.updatedAt }),
	column.New[[]int64]("revision", "bigint", func(s stored) int64 { return s.revision }),
)

func (f *fold) writeRows(statements *pgx.Batch) error {
	rows := make([]stored, 0, len(f.rows))
	for id, r := range f.rows {
		types, err := json.Marshal(r.declaration.EventTypes)
		if err != nil {
			return fmt.Errorf("write subscriptions: %w", err)
		}
		pins, err := json.Marshal(r.declaration.Feeds, json.FormatNilSliceAsNull(false))
		if err != nil {
			return fmt.Errorf("write subscriptions: %w", err)
		}
		rows = append(rows, stored{id, r, string(types), string(pins)})
	}
	upsertRows.Queue(statements, rows)
	return nil
}

// pin is a feed that a subscription is about.
type pin struct {
	subscription uuid.UUID
	subscription.Pin
}

var insertPins = column.SQL("INSERT INTO pins (feed_id, feed_type, subscription) SELECT * FROM %s "+
	"ON CONFLICT DO NOTHING",
	column.New[column.UUIDs]("feed_id", "uuid", func(p pin) uuid.UUID { return p.FeedID }),
	column.New[[]string]("feed_type", "text", func(p pin) string { return p.FeedType }),
	column.New[column.UUIDs]("subscription", "uuid", func(p pin) uuid.UUID { return p.subscription }),
)

func (f *fold) writePins(statements *pgx.Batch) {
	var (
		declared column.UUIDs
		pins     []pin
	)
	for id, r := range f.rows {
		if !r.declared {
			continue
		}
		declared = append(declared, id)
		for _, p := range r.declaration.Feeds {
			pins = append(pins, pin{id, p})
		}
	}
	if len(declared) > 0 {
		statements.Queue("DELETE FROM pins WHERE subscription = ANY($1)", declared)
	}
	insertPins.Queue(statements, pins)
}
