package query

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Sighting is the account of a happening by one source. JSON values are as stored.
type Sighting struct {
	SourceID uuid.UUID
	// Of is the happening as which it was observed before a merge. Zero if it was not merged.
	Of          uuid.UUID
	Details     []byte
	Source      []byte // the source block
	Origins     []byte
	PublishedAt *time.Time
	Standing    int
	StaleAt     *time.Time // since when the source no longer shows it; nil while it does
	Since       time.Time
	DatedAt     time.Time // since when its dates and statuses are as they are
	ToldAt      time.Time // since when everything is as it is
	URL, Handle *string   // of the source
}

// ShownItem is an item that shows a happening.
type ShownItem struct {
	ID       uuid.UUID `json:"id"`
	FeedID   uuid.UUID `json:"feedId"`
	SourceID uuid.UUID `json:"sourceId"` // of the feed's sources the one that it is shown from
	AddedAt  time.Time `json:"addedAt"`
}

// Comparison is the result of comparing two happenings.
type Comparison struct {
	With uuid.UUID `json:"with"`
	Same bool      `json:"same"`
	// Reason is evidence, match; start, place, room, title, qualifier, noPlace, sideBySide, split or sharedKey.
	Reason     string    `json:"reason"`
	Score      float64   `json:"score"` // how alike the titles are, from 0 to 1, in hundredths
	ComparedAt time.Time `json:"at"`
}

// Likeness returns the happening into which one was merged, the ones merged into it, and those compared with it,
// latest first.
func (q *Queries) Likeness(ctx context.Context,
	happening uuid.UUID) (into uuid.UUID, from []uuid.UUID, compared []Comparison, err error) {
	const limit = 100
	merges, err := many(ctx, q.Pool, "likeness", pgx.RowToStructByPos[pair[uuid.UUID, uuid.UUID]],
		"SELECT happening_id, into_id FROM items.merged WHERE happening_id = $1 OR into_id = $1 ORDER BY happening_id",
		happening)
	if err != nil {
		return uuid.Nil, nil, nil, err
	}
	for _, m := range merges {
		if m.Key == happening {
			into = m.Value
		} else {
			from = append(from, m.Key)
		}
	}
	compared, err = many(ctx, q.Pool, "likeness", pgx.RowToStructByPos[Comparison],
		`SELECT CASE WHEN a = $1 THEN b ELSE a END, same, reason, (round((score::float8 * 100)::numeric) / 100)::float8,
		compared_at FROM feed_curation.comparisons
		WHERE a = $1 OR b = $1 ORDER BY same DESC, score DESC, compared_at DESC LIMIT $2`, happening, limit)
	const undefinedTable = "42P01"
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == undefinedTable {
		return into, from, nil, nil // no process has curated feeds yet
	}
	return into, from, compared, err
}

// Sightings lists what all sources publish about a happening, and its items. It returns ErrNotFound if no source does.
func (q *Queries) Sightings(ctx context.Context, happening uuid.UUID) (sightings []Sighting, items []ShownItem,
	err error) {
	sightings, err = many(ctx, q.Pool, "tellings", pgx.RowToStructByPos[Sighting], `SELECT t.source_id, t.of_id, t.details,
		t.source, t.origins, t.published_at, t.standing, t.stale, t.since, t.dated_at, t.told_at, s.url, s.handle
		FROM items.shown t LEFT JOIN sources.sources s ON s.id = t.source_id WHERE t.happening_id = $1
		ORDER BY t.since, t.source_id, t.of_id`, happening)
	if err == nil && len(sightings) == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return nil, nil, err
	}
	items, err = many(ctx, q.Pool, "items of a happening", pgx.RowToStructByPos[ShownItem],
		"SELECT id, feed_id, source_id, added_at FROM items.items WHERE happening_id = $1 ORDER BY added_at, id", happening)
	return sightings, items, err
}
