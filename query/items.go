package query

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// The orders of an item list.
const (
	OrderByOccurrence = "occurrence" // earliest occurrence in the range first
	OrderByCreated    = "created"    // newest in the feed first
)

// ItemsQuery selects items of a feed. Its fields must be valid.
type ItemsQuery struct {
	Since, Until time.Time // the range that occurrences overlap, both ends included
	Status       string    // of an instance with an occurrence in the range; empty for any
	OrderBy      string
	Limit        int
	Offset       int
	Source       bool      // whether to include the source block
	Legacy       bool      // whether to use the legacy shape, which has no source block
	Now          time.Time // separates completed from upcoming occurrences
}

// ItemsPage is one page of a list.
type ItemsPage struct {
	Items []byte // a JSON array
	Count int    // of the page
	Total int    // of all pages
}

// HasMore reports whether more pages follow the one at an offset.
func (p ItemsPage) HasMore(offset int) bool { return offset+p.Count < p.Total }

// page is a cached page: lists are requested again and again, mostly without changes in between.
type page struct {
	ItemsPage

	version int64 // of the feed's items
	box
	spell

	lasting bool // whether all of it is of that version
}

func (p *page) holds(in ItemsQuery) bool { return p.box.has(in.Since, in.Until) && p.spell.has(in.Now) }

func (p *page) weight() int { return len(p.Items) + 256 }

func (p *page) limits() (ofKind, budget int) {
	if !p.lasting {
		return 4, 0
	}
	return 4, 16 << 20
}

// pageKind is the part of a query that is common to pages at different times.
type pageKind struct {
	outlineKind

	limit, offset  int
	source, legacy bool
}

// walked is the largest offset up to which a page is found by walking from the beginning of the list.
const walked = 1000

// Items lists items of a feed that have an occurrence in a range. It returns ErrNotFound if the organization may not
// read the feed. The caller must not change the bytes of the page.
func (q *Queries) Items(ctx context.Context, organization, feed uuid.UUID, in ItemsQuery) (ItemsPage, error) {
	// Postgres rounds to microseconds: without this, the cached answer would be of another range.
	in.Since, in.Until, in.Now = in.Since.Truncate(time.Microsecond), in.Until.Truncate(time.Microsecond),
		in.Now.Truncate(time.Microsecond)
	kind := pageKind{kindOf(feed, in), in.Limit, in.Offset, in.Source, in.Legacy}
	read := func([]*page) (*page, error) {
		if in.Status != "" || in.OrderBy == OrderByCreated || in.Offset > walked {
			return q.outlined(ctx, organization, feed, in)
		}
		return q.walk(ctx, organization, feed, in)
	}
	for {
		p, fresh, err := q.pages.get(ctx, kind, in, read)
		if err != nil {
			return ItemsPage{}, err
		}
		if fresh {
			return p.ItemsPage, nil
		}
		version, err := q.feedVersion(ctx, organization, feed)
		if err != nil {
			return ItemsPage{}, err
		}
		if version == p.version {
			return p.ItemsPage, nil
		}
		q.pages.forget(kind, func(known *page) bool { return known.version == p.version })
	}
}

// walk reads a page of the list in order of occurrence.
func (q *Queries) walk(ctx context.Context, organization, feed uuid.UUID, in ItemsQuery) (*page, error) {
	read := func() (*page, error) {
		return q.page(ctx, in, firstPages, binaryUUID(feed), binaryUUID(organization), in.Since, in.Until, in.Limit,
			in.Offset)
	}
	p, err := read()
	if err != nil {
		return nil, err
	}
	if p.Count == 0 { // unknown, but at least the version before the read
		version, err := q.feedVersion(ctx, organization, feed)
		if err != nil {
			return nil, err
		}
		if p, err = read(); err != nil {
			return nil, err
		}
		if p.Count == 0 {
			p.version = version
		}
	}
	t, err := q.total(ctx, feed, p.version, in)
	if err != nil {
		return nil, err
	}
	p.Total, p.box, p.lasting = t.items, t.box, t.version == p.version
	if !p.lasting && p.Count < in.Limit && (p.Count > 0 || in.Offset == 0) {
		p.Total = in.Offset + p.Count // the last page determines the total
	}
	return p, nil
}

// page renders the items that a statement reads. It also returns the version of the feed's items if there are any.
func (q *Queries) page(ctx context.Context, in ItemsQuery, sql string, args ...any) (*page, error) {
	p := &page{box: everywhere}
	p.Items = append(make([]byte, 0, 2048*in.Limit), '[')
	r := renderer{
		since:  in.Since,
		until:  in.Until,
		now:    in.Now,
		source: in.Source,
		legacy: in.Legacy,
		same:   always,
	}
	batch := &pgx.Batch{}
	batch.Queue(planGeneric)
	batch.Queue(sql, args...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var body, source, packed pgtype.DriverBytes // not copied: valid until the next row
			var relevance pgtype.Float4
			if err := rows.Scan(&p.version, &body, &source, &packed, &relevance); err != nil {
				return err
			}
			relevance.Valid = relevance.Valid && !q.WithoutRelevance
			if p.Count > 0 {
				p.Items = append(p.Items, ',')
			}
			p.Items = r.item(p.Items, body, source, packed, relevance)
			p.Count++
		}
		return rows.Err()
	})
	if err := q.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, fmt.Errorf("items: %w", err)
	}
	p.Items, p.spell = append(p.Items, ']'), r.same
	return p, nil
}

// binaryUUID sends an id in binary form; pgx would format it as text.
func binaryUUID(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

// feedVersion returns the version of a feed's items, or 0 if it never had any.
func (q *Queries) feedVersion(ctx context.Context, organization, feed uuid.UUID) (int64, error) {
	return value[int64](ctx, q.Pool, "feed", `SELECT coalesce((SELECT version FROM items.feeds WHERE feed_id = $2), 0)
		FROM feeds.feeds f
		WHERE f.id = $2 AND f.feed_type = 'event' AND `+readable, organization, feed)
}

// Item returns one item as a JSON object in the current shape, with all its occurrences; the next one is the first
// that is still to come. It returns ErrNotFound if the organization may not read the feed or the item is not in it.
func (q *Queries) Item(ctx context.Context, organization, feed, item uuid.UUID, source bool,
	now time.Time) ([]byte, error) {
	r := renderer{whole: true, now: now, source: source}
	return one(ctx, q.Pool, "item", func(row pgx.CollectableRow) ([]byte, error) {
		var body, block, packed []byte
		var relevance pgtype.Float4
		if err := row.Scan(&body, &block, &packed, &relevance); err != nil {
			return nil, err
		}
		relevance.Valid = relevance.Valid && !q.WithoutRelevance
		return r.item(nil, body, block, packed, relevance), nil
	}, `SELECT i.current, i.source, i.occurrences, i.relevance FROM items.items i
		JOIN feeds.feeds f ON f.id = i.feed_id
		WHERE i.id = $3 AND i.feed_id = $2 AND f.feed_type = 'event' AND `+readable, organization, feed, item)
}
