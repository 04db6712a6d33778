package query

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
)

const (
	outlinesOfKind = 4       // remembered outlines of one feed, order and status
	outlinedItems  = 1 << 20 // remembered ids, of 16 bytes each
)

// outline is a whole list: the ids of its items in order. No index gives the n-th item of a list, nor one in order of
// addition of those that take place in a range, nor those of a status: making the list takes as long as counting it. So
// it is made once, and holds like a total does: while neither the feed changes, nor an end of the range moves past the
// start of an occurrence, nor, in a list of a status, an instance becomes completed.
type outline struct {
	version int64
	box
	nowFrom, nowBefore time.Time
	ids                []byte // 16 each
}

func (o *outline) holds(in ItemsQuery) bool {
	return o.box.holds(in.Since, in.Until) && !in.Now.Before(o.nowFrom) && in.Now.Before(o.nowBefore)
}

// page are the ids of a page.
func (o *outline) page(offset, limit int) pageIDs {
	offset = min(offset, o.total)
	return pageIDs(o.ids[offset*16 : min(offset+limit, o.total)*16])
}

// pageIDs carries ids to Postgres as they came from it.
type pageIDs []byte

// Dimensions implements pgtype.ArrayGetter.
func (p pageIDs) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(len(p) / 16), LowerBound: 1}} //nolint:gosec // a page is short
}

// Index implements pgtype.ArrayGetter.
func (p pageIDs) Index(i int) any { return binaryUUID(uuid.UUID(p[i*16 : i*16+16])) }

// IndexType implements pgtype.ArrayGetter.
func (pageIDs) IndexType() any { return pgtype.UUID{} }

// outlineKind is what outlines may have in common.
type outlineKind struct {
	feed          uuid.UUID
	order, status string
}

func kindOf(feed uuid.UUID, in ItemsQuery) outlineKind {
	return outlineKind{feed: feed, order: in.OrderBy, status: in.Status}
}

// outlines remembers the outlines that were made last. The zero value is ready to use.
type outlines struct {
	mu     sync.Mutex
	kinds  map[outlineKind][]*outline // newest last
	inTurn []outlineKind              // of every outline, oldest first
	items  int                        // ids in all of them
	made   map[outlineKind]chan struct{}
}

// get returns an outline that holds for a query, unless the feed has changed. Where somebody is making one of the kind,
// it waits for that. Where there is none the caller makes it, and calls done.
func (c *outlines) get(ctx context.Context, kind outlineKind, in ItemsQuery) (o *outline, done func(*outline), err error) {
	for waited := false; ; waited = true {
		c.mu.Lock()
		for _, o := range slices.Backward(c.kinds[kind]) {
			if o.holds(in) {
				c.mu.Unlock()
				return o, nil, nil
			}
		}
		making := c.made[kind]
		if making == nil || waited { // what others make is of another range
			if making == nil {
				making = make(chan struct{})
				if c.made == nil {
					c.made = map[outlineKind]chan struct{}{}
				}
				c.made[kind] = making
			}
			c.mu.Unlock()
			return nil, func(o *outline) { c.put(kind, o, making) }, nil
		}
		c.mu.Unlock()
		select {
		case <-making:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

// put remembers an outline; nil: it could not be made.
func (c *outlines) put(kind outlineKind, o *outline, making chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made[kind] == making {
		delete(c.made, kind)
		close(making)
	}
	if o == nil || o.total > outlinedItems {
		return
	}
	if c.kinds == nil {
		c.kinds = map[outlineKind][]*outline{}
	}
	if len(c.kinds[kind]) == outlinesOfKind {
		c.drop(slices.Index(c.inTurn, kind))
	}
	c.kinds[kind] = append(slices.Clip(c.kinds[kind]), o)
	c.inTurn = append(c.inTurn, kind)
	for c.items += o.total; c.items > outlinedItems; {
		c.drop(0)
	}
}

// forget drops an outline of a version that is gone.
func (c *outlines) forget(kind outlineKind, o *outline) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := slices.Index(c.kinds[kind], o)
	if at < 0 {
		return
	}
	turn := -1
	for range at + 1 {
		turn += 1 + slices.Index(c.inTurn[turn+1:], kind)
	}
	c.inTurn = slices.Delete(c.inTurn, turn, turn+1)
	c.remove(kind, at)
}

// drop forgets the oldest outline of the kind that is in that turn.
func (c *outlines) drop(turn int) {
	kind := c.inTurn[turn]
	c.inTurn = slices.Delete(c.inTurn, turn, turn+1)
	c.remove(kind, 0)
}

func (c *outlines) remove(kind outlineKind, at int) {
	c.items -= c.kinds[kind][at].total
	if c.kinds[kind] = slices.Delete(slices.Clone(c.kinds[kind]), at, at+1); len(c.kinds[kind]) == 0 {
		delete(c.kinds, kind)
	}
}

// outlined reads a page by the outline of its list.
func (q *Queries) outlined(ctx context.Context, organization, feed uuid.UUID, in ItemsQuery) (ItemsPage, error) {
	const attempts = 3 // an item of the page was removed after the outline was made; then it is made again
	kind := kindOf(feed, in)
	for attempt := 1; ; attempt++ {
		o, fresh, err := q.outline(ctx, organization, kind, in)
		if err != nil {
			return ItemsPage{}, err
		}
		ids := o.page(in.Offset, in.Limit)
		if len(ids) == 0 {
			version, err := q.feedVersion(ctx, organization, feed)
			if err != nil {
				return ItemsPage{}, err
			}
			if fresh || version == o.version {
				return ItemsPage{Items: []byte("[]"), Total: o.total}, nil
			}
			q.outlines.forget(kind, o)
			continue
		}
		page, version, err := q.page(ctx, in, outlinedPageSQL(in), binaryUUID(feed), binaryUUID(organization), ids)
		if err != nil {
			return ItemsPage{}, err
		}
		if page.Count == 0 { // not to be read, or gone
			if _, err := q.feedVersion(ctx, organization, feed); err != nil {
				return ItemsPage{}, err
			}
		}
		page.Total = o.total
		if version == o.version || fresh && page.Count == len(ids)/16 || attempt == attempts {
			return page, nil
		}
		q.outlines.forget(kind, o)
	}
}

// outline finds the outline of a list or makes it. It is fresh where it was made just now, of what the organization may
// read.
func (q *Queries) outline(ctx context.Context, organization uuid.UUID, kind outlineKind, in ItemsQuery) (o *outline, fresh bool, err error) {
	o, done, err := q.outlines.get(ctx, kind, in)
	if err != nil || o != nil {
		return o, false, err
	}
	defer func() { done(o) }()
	if _, err := q.feedVersion(ctx, organization, kind.feed); err != nil {
		return nil, false, err
	}
	args := []any{binaryUUID(kind.feed), in.Since, in.Until}
	if kind.status != "" {
		args = append(args, in.Status, in.Now)
	}
	made := &outline{box: everywhere, nowFrom: ever, nowBefore: never}
	into := append([]any{&made.version}, made.edges()...)
	into = append(into, knownTime{&made.nowFrom}, knownTime{&made.nowBefore}, &made.ids)
	if err := q.Pool.QueryRow(ctx, outlineSQL(kind), args...).Scan(into...); err != nil {
		return nil, false, fmt.Errorf("outline of items: %w", err)
	}
	made.total = len(made.ids) / 16
	return made, true, nil
}
