// Package sources is the read model of sources: the state of their collection, when each is due, and the happenings
// that each shows.
package sources

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/retirement"
	"carillon/aggregates/source"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/column"
)

//go:embed schema.sql
var schema string

const table = "sources"

// ReadModel is the read model of sources.
var ReadModel = projections.ReadModel{
	Name:    "sources",
	Version: 6, // 6: settings
	Schema:  schema,
	Filter: eventstore.Categories(source.Aggregate.Category, happening.Aggregate.Category, feed.Aggregate.Category,
		item.Aggregate.Category, retirement.Aggregate.Category),
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
			err = decode(&events[i], source.Events, func(e source.Event) error { return queueSource(batch, &events[i], e) })
			projections.Changed(batch, table, &events[i])
		case feed.Aggregate.Category:
			err = decode(&events[i], feed.Events, func(e feed.Event) error { queueFeed(batch, fold, &events[i], e); return nil })
		case retirement.Aggregate.Category:
			err = decode(&events[i], retirement.Events, func(e retirement.Event) error {
				queueRetirement(batch, fold, e)
				return nil
			})
		case item.Aggregate.Category:
			err = decode(&events[i], item.Events, func(e item.Event) error { fold.count(e); return nil })
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
	insertSource = `INSERT INTO sources (id, type, url, handle, timezone, host, created_at, revision,
			feeds, state, ended, since, outcome, message, notes, collections, observed, pages, new, revised, stale, failures,
			interval_seconds,
			requested, due_at, paused_by, paused_for)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 0, 'registered', 'registered', $7, '', '', '[]', 0, 0, 0, 0, 0, 0, 0, $9,
		false, $7, '', '')`

	requestCollection = `UPDATE sources SET revision = $2, requested = true, wanted_at = $3 WHERE id = $1`

	// A walk answers the requests that came before it began.
	startCollection = `UPDATE sources SET revision = $2, state = 'collecting', collections = $3, started_at = $4,
		wanted_at = NULL WHERE id = $1`

	endCollection = `UPDATE sources SET revision = $2, state = $3, ended = $3, since = CASE WHEN ended = $3 THEN since
		ELSE $9 END, outcome = $4, message = $5, failures = $6,
			collections = greatest(collections, $7), requested = requested AND wanted_at IS NOT NULL, due_at = $8 WHERE id = $1`

	completeCollection = `UPDATE sources SET notes = CASE WHEN $3 THEN notes ELSE $2 END,
			observed = CASE WHEN $3 THEN observed ELSE $4 END, interval_seconds = $5, completed_at = $6,
			pages = $7, new = $8, revised = $9, stale = $10 WHERE id = $1`

	pauseSource = `UPDATE sources SET revision = $2, paused_at = coalesce(paused_at, $3), paused_by = $4, paused_for = $5
		WHERE id = $1`
	// The wait that a failure asked for ends with the pause.
	resumeSource = `UPDATE sources SET revision = $2, paused_at = NULL, paused_by = '', paused_for = '', resumed_at = $3,
			due_at = least(due_at, $3) WHERE id = $1`

	// A wait ends, as with a pause: the pages are read again.
	reviseSource = `UPDATE sources SET revision = $2, settings = $3, resumed_at = $4, due_at = least(due_at, $4)
		WHERE id = $1`

	// If all of the source is known, no walk is needed.
	attachSource = `WITH attached AS (INSERT INTO attachments (feed_id, source_id, attached_at, backfilling, walking,
		ended_at, added)
			VALUES ($1, $2, $3, NOT $4::boolean, false, CASE WHEN $4 THEN $3::timestamptz END, 0) RETURNING source_id)
		UPDATE sources SET feeds = feeds + 1, changed_sequence = $5, wanted_at = CASE WHEN $4 THEN wanted_at ELSE $3 END
		WHERE id IN (SELECT source_id FROM attached)`
	detachSource = `WITH detached AS (DELETE FROM attachments WHERE feed_id = $1 AND source_id = $2 RETURNING source_id)
		UPDATE sources SET feeds = feeds - 1, changed_sequence = $3 WHERE id IN (SELECT source_id FROM detached)`
	detachAll = `WITH detached AS (DELETE FROM attachments WHERE feed_id = $1 RETURNING source_id)
		UPDATE sources SET feeds = feeds - 1, changed_sequence = $2 WHERE id IN (SELECT source_id FROM detached)`

	beginBackfill = `UPDATE attachments SET walking = true WHERE source_id = $1 AND backfilling`
	pauseBackfill = `UPDATE attachments SET walking = false WHERE source_id = $1 AND walking`
	endBackfill   = `UPDATE attachments SET walking = false, backfilling = false, ended_at = $2 WHERE source_id = $1
		AND walking`
)

func queueSource(batch *pgx.Batch, recorded *eventstore.Recorded, event source.Event) error {
	id, revision := recorded.StreamID(), int64(recorded.Revision) //nolint:gosec // no stream is that long
	end := func(state, message string, failures, number int, next, at time.Time) {
		batch.Queue(endCollection, id, revision, state, clean(source.OutcomeOf(event)), clean(message), failures,
			number, next, at)
	}
	switch e := event.(type) {
	case source.Registered:
		batch.Queue(insertSource, id, e.Type, e.URL, e.Handle, e.Timezone, hostOf(e), e.At, revision,
			int(source.FirstInterval/time.Second))
	case source.CollectionRequested:
		batch.Queue(requestCollection, id, revision, e.At)
	case source.CollectionStarted:
		batch.Queue(startCollection, id, revision, e.Number, e.At)
		batch.Queue(beginBackfill, id)
	case source.CollectionCompleted:
		notes, err := marshalNotes(e.Notes)
		if err != nil {
			return err
		}
		batch.Queue(completeCollection, id, notes, e.NotModified, e.Counts.Observed, e.IntervalSeconds, e.At,
			e.Counts.Pages, e.Counts.New, e.Counts.Revised, e.Counts.WentStale)
		batch.Queue(endBackfill, id, e.At)
		end("ok", "", 0, e.Number, e.NextAt, e.At)
	case source.CollectionFailed:
		batch.Queue(pauseBackfill, id)
		end("failing", e.Reason+": "+e.Message, e.Failures, e.Number, e.NextAt, e.At)
	case source.CredentialsMissing:
		batch.Queue(pauseBackfill, id)
		end("needs_credentials", e.Message, 0, e.Number, e.NextAt, e.At)
	case source.JavaScriptNeeded:
		batch.Queue(pauseBackfill, id)
		end("needs_javascript", e.Message, 0, e.Number, e.NextAt, e.At)
	case source.Paused:
		by, err := eventstore.ParseMetadata(recorded.Metadata)
		if err != nil {
			return fmt.Errorf("who paused source %s: %w", id, err)
		}
		batch.Queue(pauseSource, id, revision, e.At, clean(by.Actor), clean(e.Reason))
	case source.Resumed:
		batch.Queue(resumeSource, id, revision, e.At)
	case source.Revised:
		batch.Queue(reviseSource, id, revision, e.Settings, e.At)
	}
	return nil
}

// hostOf returns the host whose pace a walk of a source has to keep, as fetchers do: the same for http and https, while
// each other port is a separate server.
func hostOf(e source.Registered) string {
	u, err := url.Parse(e.URL)
	if err != nil || u.Hostname() == "" {
		return e.Type
	}
	name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	switch port := u.Port(); port {
	case "", "80", "443":
	default:
		name = net.JoinHostPort(name, port)
	}
	return clean(name)
}

func queueFeed(batch *pgx.Batch, fold fold, recorded *eventstore.Recorded, event feed.Event) {
	id, sequence := recorded.StreamID(), projections.Sequence(recorded)
	fold.queueAdded(batch) // they belong to the attachments as they were
	switch e := event.(type) {
	case feed.SourceAttached:
		batch.Queue(attachSource, id, e.SourceID, e.At, e.Known, sequence)
	case feed.SourceDetached:
		batch.Queue(detachSource, id, e.SourceID, sequence)
	case feed.Deleted:
		batch.Queue(detachAll, id, sequence)
		// attach nothing
	case feed.Created, feed.Registered, feed.Revised, feed.Enabled, feed.Disabled, feed.Shared, feed.Unshared:
	}
}

// backfill is a backfill some of whose items are retired.
type backfill struct {
	feed uuid.UUID
	retirement.Backfill
}

var (
	addRetired = column.SQL("INSERT INTO retired AS r (source_id, happenings) SELECT u.source_id, u.happenings FROM %s "+
		"ON CONFLICT (source_id) DO UPDATE SET happenings = r.happenings + excluded.happenings",
		column.New[column.UUIDs]("source_id", "uuid", func(s retirement.Shown) uuid.UUID { return s.SourceID }),
		column.New[[]int64]("happenings", "bigint", func(s retirement.Shown) int64 { return s.Happenings }))
	// A rebuild from a log that has lost the retired items counts fewer.
	keepBackfills = column.SQL("UPDATE attachments AS a SET added = greatest(a.added, u.added) FROM %s "+
		"WHERE a.feed_id = u.feed_id AND a.source_id = u.source_id AND a.attached_at = u.attached_at",
		column.New[column.UUIDs]("feed_id", "uuid", func(b backfill) uuid.UUID { return b.feed }),
		column.New[column.UUIDs]("source_id", "uuid", func(b backfill) uuid.UUID { return b.SourceID }),
		column.New[[]time.Time]("attached_at", "timestamptz", func(b backfill) time.Time { return b.AttachedAt }),
		column.New[[]int]("added", "integer", func(b backfill) int { return b.Added }))
)

// queueRetirement drops what sources have shown of retired happenings, and keeps the counts.
func queueRetirement(batch *pgx.Batch, fold fold, event retirement.Event) {
	var e retirement.HappeningsRetired
	switch event := event.(type) {
	case retirement.HappeningsRetired:
		e = event
	case retirement.Retired, retirement.Removed: // no happenings
		return
	}
	fold.queue(batch)
	ids, by := make(column.UUIDs, len(e.Happenings)), make(column.UUIDs, len(e.Shown))
	for i, h := range e.Happenings {
		ids[i] = h.ID
	}
	for i, s := range e.Shown {
		by[i] = s.SourceID
	}
	backfills := make([]backfill, len(e.Backfills))
	for i, b := range e.Backfills {
		backfills[i] = backfill{e.Feeds[b.In], b}
	}
	batch.Queue("DELETE FROM shown WHERE source_id = ANY($1) AND happening_id = ANY($2)", by, ids)
	addRetired.Queue(batch, e.Shown)
	keepBackfills.Queue(batch, backfills)
}
