package query

import (
	"context"
	"iter"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Feed is an event feed.
type Feed struct {
	ID            uuid.UUID `json:"id"`
	Name          string    `json:"name"`
	Description   string    `json:"description"`
	Enabled       bool      `json:"enabled"`
	EnabledSource string    `json:"enabledSource"`
	EnabledReason *string   `json:"-"` // answers differ in whether they have it while it is nil
	FeedConfig    `json:"config"`
	CreatedAt     time.Time `json:"createdAt"`
	UpdatedAt     time.Time `json:"updatedAt"`
}

// FeedConfig is the configuration of a feed.
type FeedConfig struct {
	Version float64 `json:"version"`
}

// Association is a source attached to a feed.
type Association struct {
	ID         uuid.UUID `json:"id"`
	FeedID     uuid.UUID `json:"eventFeedId"`
	SourceType string    `json:"sourceType"`
	SourceID   uuid.UUID `json:"sourceId"`
	CreatedAt  time.Time `json:"createdAt"`
}

const feedColumns = `f.id, f.name, f.description, f.enabled, f.enabled_source, f.enabled_reason, f.config_version,
	f.created_at, f.updated_at`

// readable is the condition that organization $1 may read feed f.
const readable = `(f.organization = $1 OR EXISTS (SELECT FROM feeds.shares s WHERE s.feed_id = f.id
	AND s.organization = $1))`

// feedsAtOnce is the number of feeds that Feeds reads at a time: each may have a long description.
const feedsAtOnce = 10

// Feeds lists the event feeds that an organization may read, oldest first: its own and those shared with it. It reads
// them in parts and holds no connection between them, because the consumer may be slow.
func (q *Queries) Feeds(ctx context.Context, organization uuid.UUID) iter.Seq2[Feed, error] {
	return func(yield func(Feed, error) bool) {
		var last Feed
		for more := true; more; {
			part, err := q.feedsAfter(ctx, organization, last)
			if err != nil {
				yield(Feed{}, err)
				return
			}
			for _, feed := range part {
				if !yield(feed, nil) {
					return
				}
				last = feed
			}
			more = len(part) == feedsAtOnce
		}
	}
}

// feedsAfter returns the next part of the list of feeds. The zero value stands before the first feed.
func (q *Queries) feedsAfter(ctx context.Context, organization uuid.UUID, last Feed) ([]Feed, error) {
	return many(ctx, q.Pool, "feeds", pgx.RowToStructByPos[Feed], `(SELECT `+feedColumns+` FROM feeds.feeds f
			WHERE f.organization = $1 AND f.feed_type = 'event' AND (f.created_at, f.id) > ($2, $3) ORDER BY f.created_at, f.id
			LIMIT $4)
		UNION ALL
		(SELECT `+feedColumns+` FROM feeds.shares s JOIN feeds.feeds f ON f.id = s.feed_id
			WHERE s.organization = $1 AND f.organization <> $1 AND f.feed_type = 'event' AND (f.created_at, f.id) > ($2, $3)
			ORDER BY f.created_at, f.id LIMIT $4)
		ORDER BY created_at, id LIMIT $4`, organization, last.CreatedAt, last.ID, feedsAtOnce)
}

// Feed finds an event feed that an organization may read, or returns ErrNotFound.
func (q *Queries) Feed(ctx context.Context, organization, id uuid.UUID) (Feed, error) {
	return one(ctx, q.Pool, "feed", pgx.RowToStructByPos[Feed], `SELECT `+feedColumns+` FROM feeds.feeds f
		WHERE f.id = $2 AND f.feed_type = 'event' AND `+readable, organization, id)
}

// Associations lists the sources of a feed, oldest first. It returns ErrNotFound if the organization may not read the
// feed.
func (q *Queries) Associations(ctx context.Context, organization, feed uuid.UUID) ([]Association, error) {
	type maybe struct { // a feed without sources has one row without them
		ID         *uuid.UUID
		SourceType *string
		SourceID   *uuid.UUID
		CreatedAt  *time.Time
	}
	rows, err := many(ctx, q.Pool, "associations", pgx.RowToStructByPos[maybe],
		`SELECT a.id, a.source_type, a.source_id, a.created_at
		FROM feeds.feeds f LEFT JOIN feeds.associations a ON a.feed_id = f.id
		WHERE f.id = $2 AND f.feed_type = 'event' AND `+readable+` ORDER BY a.created_at, a.id`, organization, feed)
	if err == nil && len(rows) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	found := []Association{}
	for _, a := range rows {
		if a.ID != nil {
			found = append(found, Association{*a.ID, feed, *a.SourceType, *a.SourceID, *a.CreatedAt})
		}
	}
	return found, nil
}

// Readable reports whether an organization may read a feed, either an event feed or one owned elsewhere.
func (q *Queries) Readable(ctx context.Context, organization uuid.UUID, feedType string, feed uuid.UUID) (bool, error) {
	return value[bool](ctx, q.Pool, "readable",
		`SELECT EXISTS (SELECT FROM feeds.feeds f WHERE f.id = $2 AND f.feed_type = $3 AND `+readable+`)`,
		organization, feed, feedType)
}
