package query

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
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

// total counts the items that match, on all pages.
func (q *Queries) total(ctx context.Context, feed uuid.UUID, version int64, in ItemsQuery) (int, error) {
	if in.Status != "" {
		var total int
		err := q.Pool.QueryRow(ctx, countStatus, feed, in.Since, in.Until, in.Status, in.Now).Scan(&total)
		if err != nil {
			return 0, fmt.Errorf("count items: %w", err)
		}
		return total, nil
	}
	if total, known := q.totals.get(feed, version, in.Since, in.Until); known {
		return total, nil
	}
	b := box{sinceAfter: ever, sinceTo: never, untilFrom: ever, untilBefore: never}
	var counted int64
	var bounds [4]*time.Time
	err := q.Pool.QueryRow(ctx, countAll, feed, in.Since, in.Until).
		Scan(&counted, &b.total, &bounds[0], &bounds[1], &bounds[2], &bounds[3])
	if err != nil {
		return 0, fmt.Errorf("count items: %w", err)
	}
	for i, bound := range []*time.Time{&b.sinceAfter, &b.sinceTo, &b.untilFrom, &b.untilBefore} {
		if bounds[i] != nil {
			*bound = *bounds[i]
		}
	}
	q.totals.put(feed, counted, b)
	return b.total, nil
}
