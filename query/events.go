package query

import (
	"context"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// EventFilter selects published events. Zero fields don't restrict.
type EventFilter struct {
	Subject string
	ID      uuid.UUID // with Subject, matches either
	Types   []string  // exact ones; non-nil and empty matches nothing
	Feed    uuid.UUID // to which it was published
	Since   time.Time // of the event's time, inclusive
	Until   time.Time // inclusive
	Before  EventMark // of the last event on the page before
	Limit   int
}

// EventMark is a position in a list of events, newest first.
type EventMark struct {
	Time time.Time
	ID   uuid.UUID
}

// PublishedEvent is a published event.
type PublishedEvent struct {
	EventSummary

	PublishedAt time.Time  `json:"publishedAt"`
	FeedName    string     `json:"-"` // current name; empty without a feed or a name
	Data        []byte     `json:"-"` // nil in lists
	SeenSince   *time.Time `json:"-"` // when the feed was shared; nil if the organization owns it
}

// visibleFeeds selects the feeds that organization $1 can see, with the time they were shared with it.
const visibleFeeds = `
	SELECT f.id, f.feed_type, f.name, NULL::timestamptz AS since FROM feeds.feeds f WHERE f.organization = $1
	UNION ALL
	SELECT f.id, f.feed_type, f.name, s.created_at FROM feeds.shares s JOIN feeds.feeds f ON f.id = s.feed_id
	WHERE s.organization = $1 AND f.organization <> $1`

// PublishedEvents lists the events that an organization can see now, newest time first. Each part of the list is a
// walk along an index: by feed and time, by feed, type and time, or by subject and time.
func (q *Queries) PublishedEvents(ctx context.Context, organization uuid.UUID,
	f EventFilter) ([]PublishedEvent, error) {
	q.seePublished(ctx)
	args := arguments{organization}
	var parts []string
	if f.Subject != "" {
		subject := args.add(f.Subject)
		named := "hashtextextended(p.subject, 0) = hashtextextended(" + subject + "::text, 0) AND p.subject = " + subject
		parts = append(parts, f.part(ofVisibleFeed, named, &args), f.part(noFeed, named, &args))
	}
	if f.ID != uuid.Nil {
		is := "p.id = " + args.add(f.ID)
		parts = append(parts, f.part(ofVisibleFeed, is, &args), f.part(noFeed, is, &args))
	}
	if len(parts) == 0 {
		kinds, ofKind := "", "true"
		if f.Types != nil {
			kinds, ofKind = " CROSS JOIN unnest("+args.add(f.Types)+"::text[]) kind(type)", "p.type = kind.type"
		}
		of := f
		of.Types = nil // one walk per type
		parts = append(parts,
			"SELECT p.* FROM visible"+kinds+" CROSS JOIN LATERAL ("+of.part("publications.publications p",
				"p.feed_id = visible.id AND p.feed_type = visible.feed_type AND "+ofKind, &args)+") p",
			"SELECT p.* FROM (SELECT 1) one"+kinds+" CROSS JOIN LATERAL ("+of.part(noFeed, ofKind, &args)+") p")
	}
	sql := "WITH visible AS NOT MATERIALIZED (SELECT * FROM (" + visibleFeeds + ") v" + f.ofFeed(&args) +
		") SELECT * FROM (" +
		strings.Join(parts, ") a UNION ALL SELECT * FROM (") + ") b ORDER BY time DESC, id DESC LIMIT " + args.add(f.Limit)
	return many(ctx, q.Pool, "events", func(row pgx.CollectableRow) (PublishedEvent, error) {
		return scanEvent(row)
	}, sql, args...)
}

// ofVisibleFeed selects the events of visible feeds, noFeed the events without a feed.
const ofVisibleFeed = "visible JOIN publications.publications p ON p.feed_id = visible.id AND p.feed_type = " +
	"visible.feed_type"
const noFeed = "publications.publications p LEFT JOIN (SELECT NULL::text AS name, NULL::timestamptz AS since) " +
	"visible ON true"

const eventColumns = "p.id, p.type, p.source, p.subject, p.time, p.feed_type, p.feed_id, p.published_at"

func (f EventFilter) ofFeed(args *arguments) string {
	if f.Feed == uuid.Nil {
		return ""
	}
	return " WHERE v.id = " + args.add(f.Feed)
}

// part returns the statement of one walk.
func (f EventFilter) part(from, where string, args *arguments) string {
	if from == noFeed {
		where += " AND p.feed_id IS NULL AND p.organization = $1"
		if f.Feed != uuid.Nil {
			where += " AND false"
		}
	}
	if f.Types != nil {
		where += " AND p.type = ANY(" + args.add(f.Types) + ")"
	}
	if !f.Since.IsZero() {
		where += " AND p.time >= " + args.add(f.Since)
	}
	if !f.Until.IsZero() {
		where += " AND p.time <= " + args.add(f.Until)
	}
	if !f.Before.Time.IsZero() {
		where += " AND (p.time, p.id) < (" + args.add(f.Before.Time) + ", " + args.add(f.Before.ID) + ")"
	}
	return "SELECT " + eventColumns + ", coalesce(visible.name, '') AS feed_name, visible.since AS seen_since FROM " +
		from + " WHERE " + where +
		" ORDER BY p.time DESC, p.id DESC LIMIT " + args.add(f.Limit)
}

// scanEvent reads the columns of an event and any that follow them.
func scanEvent(row pgx.CollectableRow, more ...any) (e PublishedEvent, err error) {
	err = row.Scan(append([]any{&e.ID, &e.Type, &e.Source, &e.Subject, &e.Time, &e.FeedType, &e.FeedID, &e.PublishedAt,
		&e.FeedName, &e.SeenSince}, more...)...)
	e.Time = e.Time.UTC()
	e.recorded(e.PublishedAt)
	return e, err
}

// PublishedEvent finds an event with its data, or returns ErrNotFound if the organization can't see it now.
func (q *Queries) PublishedEvent(ctx context.Context, organization, id uuid.UUID) (PublishedEvent, error) {
	q.seePublished(ctx)
	return one(ctx, q.Pool, "event", func(row pgx.CollectableRow) (PublishedEvent, error) {
		var data []byte
		found, err := scanEvent(row, &data)
		found.Data = data
		return found, err
	}, "WITH visible AS ("+visibleFeeds+") SELECT "+eventColumns+`, coalesce(v.name, ''), v.since, p.data
		FROM publications.publications p LEFT JOIN visible v ON v.id = p.feed_id AND v.feed_type = p.feed_type
		WHERE p.id = $2 AND (v.id IS NOT NULL OR p.feed_id IS NULL AND p.organization = $1)`, organization, id)
}

// FeedName is a visible feed and its name.
type FeedName struct {
	ID   uuid.UUID
	Type string // event, news
	Name string
}

// FeedNames lists feeds of any type that an organization can see, its own first, by name.
func (q *Queries) FeedNames(ctx context.Context, organization uuid.UUID, limit int) ([]FeedName, error) {
	return many(ctx, q.Pool, "feed names", pgx.RowToStructByPos[FeedName],
		"SELECT id, feed_type, name FROM ("+visibleFeeds+
			") v ORDER BY since IS NOT NULL, lower(name), id LIMIT $2", organization, limit)
}

// History calls each for the published events that an organization can see now, by time, oldest first, both ends
// included, without those that were published before a time, as inPages does.
func (q *Queries) History(ctx context.Context, organization uuid.UUID, since, until, publishedSince time.Time,
	each func(EventSummary) error) error {
	return inPages(func(after EventSummary) ([]EventSummary, error) {
		if after.ID == uuid.Nil {
			after.Time = since
		}
		return many(ctx, q.Pool, "history", func(row pgx.CollectableRow) (e EventSummary, err error) {
			err = row.Scan(&e.ID, &e.Type, &e.Source, &e.Subject, &e.Time, &e.FeedType, &e.FeedID)
			return e, err
		}, `
			SELECT id, type, source, subject, time, feed_type, feed_id FROM (
				SELECT p.id, p.type, p.source, p.subject, p.time, p.feed_type, p.feed_id
				FROM (SELECT id, feed_type FROM feeds.feeds WHERE organization = $1
					UNION SELECT f.id, f.feed_type FROM feeds.shares s JOIN feeds.feeds f ON f.id = s.feed_id
					WHERE s.organization = $1) visible
				CROSS JOIN LATERAL (SELECT * FROM publications.publications p
					WHERE p.feed_id = visible.id AND (p.time, p.id) > ($2, $3) AND p.time <= $4 AND p.published_at >= $6
					ORDER BY p.time, p.id LIMIT $5) p
				WHERE p.feed_type = visible.feed_type
				UNION ALL
				(SELECT p.id, p.type, p.source, p.subject, p.time, NULL, NULL::uuid FROM publications.publications p
				WHERE p.feed_id IS NULL AND p.organization = $1 AND (p.time, p.id) > ($2, $3) AND p.time <= $4
					AND p.published_at >= $6
				ORDER BY p.time, p.id LIMIT $5)) seen
			ORDER BY time, id LIMIT $5`, organization, after.Time, after.ID, until, historyPage, publishedSince)
	}, each)
}
