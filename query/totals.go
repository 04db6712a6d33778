package query

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	boxesOfFeed  = 8      // remembered totals of one feed
	feedsOfTotal = 10_000 // remembered feeds
)

// totals remembers how many items of a feed have an occurrence in a range. Counting a large feed takes longer than
// reading a page of it, but the count stays the same while neither the feed changes nor an end of the range moves past
// the start of an occurrence, which is how the default range moves: with the clock. The zero value is ready to use.
type totals struct {
	mu    sync.Mutex
	feeds map[uuid.UUID]feedTotals
}

// feedTotals are the totals that hold for one version of a feed's items.
type feedTotals struct {
	version int64
	boxes   []box // the last ones, newest last
}

// box is a total and the ranges for which it holds: since after sinceAfter up to sinceTo, until from untilFrom to
// before untilBefore.
type box struct {
	total                  int
	sinceAfter, sinceTo    time.Time
	untilFrom, untilBefore time.Time
}

func (b box) holds(since, until time.Time) bool {
	return since.After(b.sinceAfter) && !since.After(b.sinceTo) && !until.Before(b.untilFrom) && until.Before(b.untilBefore)
}

func (t *totals) get(feed uuid.UUID, version int64, since, until time.Time) (int, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.feeds[feed]
	if !ok || known.version != version {
		return 0, false
	}
	for _, b := range known.boxes {
		if b.holds(since, until) {
			return b.total, true
		}
	}
	return 0, false
}

func (t *totals) put(feed uuid.UUID, version int64, b box) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known := t.feeds[feed]
	if known.version != version {
		known = feedTotals{version: version}
	}
	if len(known.boxes) == boxesOfFeed {
		known.boxes = append([]box(nil), known.boxes[1:]...)
	}
	known.boxes = append(known.boxes, b)
	if t.feeds == nil || len(t.feeds) >= feedsOfTotal {
		t.feeds = map[uuid.UUID]feedTotals{}
	}
	t.feeds[feed] = known
}

// The bounds of what timestamps can be, for a box without occurrences on one side.
var (
	ever  = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	never = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
)

// everywhere holds for any range.
var everywhere = box{sinceAfter: ever, sinceTo: never, untilFrom: ever, untilBefore: never}

// knownTime leaves a time as it is where the column is NULL.
type knownTime struct{ at *time.Time }

// ScanTimestamptz implements pgtype.TimestamptzScanner.
func (k knownTime) ScanTimestamptz(v pgtype.Timestamptz) error {
	if v.Valid {
		*k.at = v.Time
	}
	return nil
}

// edges is where the edges of a range go that Postgres tells.
func (b *box) edges() []any {
	return []any{knownTime{&b.sinceAfter}, knownTime{&b.sinceTo}, knownTime{&b.untilFrom}, knownTime{&b.untilBefore}}
}

// total counts the items of any status that match, on all pages.
func (q *Queries) total(ctx context.Context, feed uuid.UUID, version int64, in ItemsQuery) (int, error) {
	if total, known := q.totals.get(feed, version, in.Since, in.Until); known {
		return total, nil
	}
	b, counted := everywhere, int64(0)
	into := append(append([]any{&counted}, b.edges()...), &b.total)
	if err := q.Pool.QueryRow(ctx, countAll, feed, in.Since, in.Until).Scan(into...); err != nil {
		return 0, fmt.Errorf("count items: %w", err)
	}
	q.totals.put(feed, counted, b)
	return b.total, nil
}
