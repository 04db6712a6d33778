// Package sources is the read model of sources: how their collection goes, when each is due, and what each shows.
package sources

import (
	"context"
	_ "embed"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/eventstore"
	"carillon/projections"
)

//go:embed schema.sql
var schema string

// ReadModel is the read model of sources.
var ReadModel = projections.ReadModel{
	Name:    "sources",
	Version: 1,
	Schema:  schema,
	Filter:  eventstore.Categories(source.Aggregate.Category, happening.Aggregate.Category, feed.Aggregate.Category),
	Project: project,
}

// project applies a batch. Events of sources and feeds are rare: each is a statement. Those of happenings come in
// thousands: they are folded first.
func project(ctx context.Context, tx pgx.Tx, events []eventstore.Recorded) error {
	batch, fold := &pgx.Batch{}, newFold()
	for i := range events {
		id := events[i].StreamID()
		var err error
		switch events[i].Category() {
		case source.Aggregate.Category:
			err = decode(&events[i], source.Events, func(e source.Event) error { return queueSource(batch, id, e) })
		case feed.Aggregate.Category:
			err = decode(&events[i], feed.Events, func(e feed.Event) error { queueFeed(batch, id, e); return nil })
		default:
			err = decode(&events[i], happening.Events, func(e happening.Event) error { return fold.add(id, e) })
		}
		if err != nil {
			return err
		}
	}
	fold.queue(batch)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("sources: %w", err)
	}
	return nil
}

func decode[E any](recorded *eventstore.Recorded, codec eventstore.Codec[E], then func(E) error) error {
	event, err := codec.Decode(recorded)
	if err != nil {
		return err
	}
	return then(event)
}

const (
	insertSource = `INSERT INTO sources (id, type, url, handle, timezone, created_at,
			feeds, state, message, notes, collections, observed, failures, requested)
		VALUES ($1, $2, $3, $4, $5, $6, 0, 'registered', '', '[]', 0, 0, 0, false)`

	requestCollection = `UPDATE sources SET requested = true, wanted_at = greatest(wanted_at, $2), due_at = least(due_at, $2) WHERE id = $1`

	// A collection that never ends was cut off with its process. It is due again soon, not at once: it may have been
	// what cut the process off.
	startCollection = `UPDATE sources SET state = 'collecting', collections = $2, started_at = $3,
			due_at = $3::timestamptz + interval '1 minute' WHERE id = $1`

	// What was asked for while a collection was under way is due at once.
	endCollection = `UPDATE sources SET state = $2, message = $3, failures = $4,
			requested = requested AND wanted_at > started_at,
			due_at = CASE WHEN wanted_at > started_at THEN wanted_at ELSE $5 END WHERE id = $1`

	completeCollection = `UPDATE sources SET notes = CASE WHEN $3 THEN notes ELSE $2 END, observed = CASE WHEN $3 THEN observed ELSE $4 END, cursor = $5, completed_at = $6 WHERE id = $1`

	attachSource = `WITH attached AS (INSERT INTO attachments (feed_id, source_id) VALUES ($1, $2) RETURNING source_id)
		UPDATE sources SET feeds = feeds + 1, wanted_at = greatest(wanted_at, $3), due_at = least(due_at, $3)
		WHERE id IN (SELECT source_id FROM attached)`
	detachSource = `WITH detached AS (DELETE FROM attachments WHERE feed_id = $1 AND source_id = $2 RETURNING source_id)
		UPDATE sources SET feeds = feeds - 1 WHERE id IN (SELECT source_id FROM detached)`
	detachAll = `WITH detached AS (DELETE FROM attachments WHERE feed_id = $1 RETURNING source_id)
		UPDATE sources SET feeds = feeds - 1 WHERE id IN (SELECT source_id FROM detached)`
)

func queueSource(batch *pgx.Batch, id uuid.UUID, event source.Event) error {
	switch e := event.(type) {
	case source.Registered:
		batch.Queue(insertSource, id, e.Type, e.URL, e.Handle, e.Timezone, e.At)
	case source.CollectionRequested:
		batch.Queue(requestCollection, id, e.At)
	case source.CollectionStarted:
		batch.Queue(startCollection, id, e.Number, e.At)
	case source.CollectionCompleted:
		notes, err := marshalNotes(e.Notes)
		if err != nil {
			return err
		}
		batch.Queue(completeCollection, id, notes, e.NotModified, e.Counts.Observed, []byte(e.Cursor), e.At)
		batch.Queue(endCollection, id, "ok", "", 0, e.NextAt)
	case source.CollectionFailed:
		batch.Queue(endCollection, id, "failing", clean(e.Reason+": "+e.Message), e.Failures, e.NextAt)
	case source.CredentialsMissing:
		batch.Queue(endCollection, id, "needs_credentials", clean(e.Message), 0, e.NextAt)
	case source.JavaScriptNeeded:
		batch.Queue(endCollection, id, "needs_javascript", clean(e.Message), 0, e.NextAt)
	}
	return nil
}

func queueFeed(batch *pgx.Batch, id uuid.UUID, event feed.Event) {
	switch e := event.(type) {
	case feed.SourceAttached:
		batch.Queue(attachSource, id, e.SourceID, e.At)
	case feed.SourceDetached:
		batch.Queue(detachSource, id, e.SourceID)
	case feed.Deleted:
		batch.Queue(detachAll, id)
	case feed.Created, feed.Registered, feed.Revised, feed.Enabled, feed.Disabled, feed.Shared, feed.Unshared: // attach nothing
	}
}
