package query

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// total is the number of items of a feed with an occurrence in a range. Counting a large feed takes longer than
// reading a page of it. So a total is counted once; when the range has moved, only the difference is counted.
type total struct {
	made    ItemsQuery // for which it was counted
	version int64
	box
	items int
}

func (t *total) holds(in ItemsQuery) bool { return t.has(in.Since, in.Until) }

func (t *total) weight() int { return 1 }

func (t *total) limits() (ofKind, budget int) { return 8, 80_000 }

// mostMoved is the maximum number of occurrences by which a list may differ from the one it is derived from. Beyond
// it, the list is made again.
const mostMoved = 1000

// total counts the items of any status that match, on all pages, for a version of the feed's items or a later one.
func (q *Queries) total(ctx context.Context, feed uuid.UUID, version int64, in ItemsQuery) (*total, error) {
	t, fresh, err := q.totals.get(ctx, feed, in, q.counting(ctx, feed, version, in))
	if err != nil || fresh || t.version == version {
		return t, err
	}
	q.totals.forget(feed, func(t *total) bool { return t.version != version })
	t, _, err = q.totals.get(ctx, feed, in, q.counting(ctx, feed, version, in))
	return t, err
}

// counting counts, from a cached total if possible.
func (q *Queries) counting(ctx context.Context, feed uuid.UUID, version int64, in ItemsQuery) func([]*total) (
	*total, error) {
	return func(known []*total) (*total, error) {
		var base *total
		for _, t := range known {
			if t.version == version && (base == nil || movedBetween(t.made, in).far() < movedBetween(base.made, in).far()) {
				base = t
			}
		}
		if base != nil {
			if t, err := q.recount(ctx, feed, base, in); err != nil || t != nil {
				return t, err
			}
		}
		t := &total{made: in, box: everywhere}
		into := append(append([]any{&t.version}, t.edges()...), &t.items)
		if err := q.Pool.QueryRow(ctx, countAll, feed, in.Since, in.Until).Scan(into...); err != nil {
			return nil, fmt.Errorf("count items: %w", err)
		}
		return t, nil
	}
}

// recount derives a total from another one. It returns nil if they differ by too much or the feed has changed.
func (q *Queries) recount(ctx context.Context, feed uuid.UUID, base *total, in ItemsQuery) (*total, error) {
	between := movedBetween(base.made, in)
	t, seen, more := &total{made: in, box: everywhere}, 0, 0
	into := append(append([]any{&t.version}, t.edges()...), &seen, &more)
	batch := &pgx.Batch{}
	batch.Queue(planGeneric)
	batch.Queue(countMoved, binaryUUID(feed), in.Since, in.Until, between.since[0], between.since[1], between.until[0],
		between.until[1],
		base.made.Since, base.made.Until).QueryRow(func(row pgx.Row) error { return row.Scan(into...) })
	if err := q.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("recount items: %w", err)
	}
	if seen > mostMoved || t.version != base.version {
		return nil, nil //nolint:nilnil // see above
	}
	t.items = base.items + more
	return t, nil
}
