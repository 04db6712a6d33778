package query

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// outline is a whole list: the ids of its items in order, each with the instant that orders it. No index leads to the
// n-th item of a list, to the items of a range in order of addition, or to those of a status: making the list takes
// as long as counting it. So it is made once. When the range has moved, or instances have become completed, only the
// difference is read, and the next outline is derived from this one.
type outline struct {
	made    ItemsQuery // for which it was made
	version int64
	box
	spell

	// items are the ids in order, outlinedSize each: id, then the instant as Postgres sends it.
	items []byte
}

const (
	idSize       = 16
	outlinedSize = idSize + 8
)

func (o *outline) holds(in ItemsQuery) bool {
	return o.box.has(in.Since, in.Until) && o.spell.has(in.Now)
}

func (o *outline) total() int { return len(o.items) / outlinedSize }

func (o *outline) weight() int { return o.total() }

func (o *outline) limits() (ofKind, budget int) { return 4, 1 << 20 }

// page returns the ids of a page.
func (o *outline) page(offset, limit int) binaryUUIDs {
	offset = min(offset, o.total())
	var ids binaryUUIDs
	for item := range slices.Chunk(o.items[offset*outlinedSize:min(offset+limit, o.total())*outlinedSize], outlinedSize) {
		ids = append(ids, uuid.UUID(item[:idSize]))
	}
	return ids
}

// outlineKind is the part of a query that is common to related outlines.
type outlineKind struct {
	feed          uuid.UUID
	order, status string
}

func kindOf(feed uuid.UUID, in ItemsQuery) outlineKind {
	return outlineKind{feed: feed, order: in.OrderBy, status: in.Status}
}

// compare orders two items of an outline. Instants are big-endian and signed: before or after 2000.
func (k outlineKind) compare(a, b []byte) int {
	x, y := micros(a[idSize:]), micros(b[idSize:])
	if k.order == OrderByCreated {
		x, y = y, x
	}
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return bytes.Compare(a[:idSize], b[:idSize])
}

// outlined reads a page by the outline of its list.
func (q *Queries) outlined(ctx context.Context, organization, feed uuid.UUID, in ItemsQuery) (*page, error) {
	// attempts bounds the retries after an item of the page was removed since the outline was made.
	const attempts = 3
	kind := kindOf(feed, in)
	for attempt := 1; ; attempt++ {
		o, fresh, err := q.outlines.get(ctx, kind, in, func(known []*outline) (*outline, error) {
			return q.outline(ctx, organization, kind, in, known)
		})
		if err != nil {
			return nil, err
		}
		ids := o.page(in.Offset, in.Limit)
		p := &page{ItemsPage: ItemsPage{Items: []byte("[]")}, box: everywhere, spell: always}
		if len(ids) == 0 {
			p.version, err = q.feedVersion(ctx, organization, feed)
		} else if p, err = q.page(ctx, in, outlinedPage, binaryUUID(feed), binaryUUID(organization), ids); err == nil &&
			p.Count == 0 {
			_, err = q.feedVersion(ctx, organization, feed) // not readable, or missing
		}
		if err != nil {
			return nil, err
		}
		p.Total, p.box, p.spell = o.total(), o.box, p.both(o.spell)
		if p.version == o.version {
			p.lasting = true
			return p, nil
		}
		if fresh && p.Count == len(ids) || attempt == attempts {
			return p, nil
		}
		q.outlines.forget(kind, func(known *outline) bool { return known.version == o.version })
	}
}

// outline makes an outline of the items that the organization may read, from a cached one if possible.
func (q *Queries) outline(ctx context.Context, organization uuid.UUID, kind outlineKind, in ItemsQuery,
	known []*outline) (*outline, error) {
	version, err := q.feedVersion(ctx, organization, kind.feed)
	if err != nil {
		return nil, err
	}
	var base *outline
	for _, o := range known {
		if o.version == version && (base == nil || movedBetween(o.made, in).far() < movedBetween(base.made, in).far()) {
			base = o
		}
	}
	if base != nil {
		if o, err := q.derive(ctx, kind, base, in); err != nil || o != nil {
			return o, err
		}
	}
	o := &outline{made: in, box: everywhere, spell: always}
	into := append([]any{&o.version}, o.edges()...)
	into = append(append(into, o.instants()...), &o.items)
	batch := &pgx.Batch{}
	batch.Queue(planCustom)
	batch.Queue(outlineSQL(kind), outlineArguments(kind, in)...).QueryRow(func(row pgx.Row) error {
		return row.Scan(into...)
	})
	if err := q.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("outline of items: %w", err)
	}
	return o, nil
}

func outlineArguments(kind outlineKind, in ItemsQuery) []any {
	arguments := []any{binaryUUID(kind.feed), in.Since, in.Until}
	if kind.status != "" {
		arguments = append(arguments, in.Status, in.Now)
	}
	return arguments
}

// derive derives an outline from another one. It returns nil if they differ by too much or the feed has changed.
func (q *Queries) derive(ctx context.Context, kind outlineKind, base *outline, in ItemsQuery) (*outline, error) {
	between := movedBetween(base.made, in)
	arguments := append(outlineArguments(kind, in), between.since[0], between.since[1], between.until[0], between.until[1])
	if kind.status != "" {
		arguments = append(arguments, between.now[0], between.now[1])
	}
	o, seen := &outline{made: in, box: everywhere, spell: always}, 0
	var changed []byte // like items; an item that has left the list has an instant at infinity
	into := append([]any{&o.version}, o.edges()...)
	into = append(append(into, o.instants()...), &seen, &changed)
	batch := &pgx.Batch{}
	batch.Queue(planGeneric)
	batch.Queue(derivedSQL(kind), arguments...).QueryRow(func(row pgx.Row) error { return row.Scan(into...) })
	if err := q.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("outline of items: %w", err)
	}
	if seen > mostMoved || o.version != base.version {
		return nil, nil //nolint:nilnil // see above
	}
	o.items = kind.merge(base.items, changed)
	return o, nil
}

// merge merges changed items into a list.
func (k outlineKind) merge(list, changed []byte) []byte {
	if len(changed) == 0 {
		return list
	}
	looked, coming := make(map[uuid.UUID]struct{}, len(changed)/outlinedSize), make([][]byte, 0, len(changed)/outlinedSize)
	for c := range slices.Chunk(changed, outlinedSize) {
		looked[uuid.UUID(c[:idSize])] = struct{}{}
		if micros(c[idSize:]) != infinity {
			coming = append(coming, c)
		}
	}
	slices.SortFunc(coming, k.compare)
	merged := make([]byte, 0, len(list)+len(changed))
	for old := range slices.Chunk(list, outlinedSize) {
		for len(coming) > 0 && k.compare(coming[0], old) < 0 {
			merged, coming = append(merged, coming[0]...), coming[1:]
		}
		if _, again := looked[uuid.UUID(old[:idSize])]; !again {
			merged = append(merged, old...)
		}
	}
	for _, c := range coming {
		merged = append(merged, c...)
	}
	return merged
}
