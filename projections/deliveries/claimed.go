package deliveries

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/publication"
	"carillon/eventstore"
	"carillon/projections/column"
)

// Claimed is a delivery that a worker holds. Deliveries of one event share their Event.
type Claimed struct {
	ID            uuid.UUID
	Destination   uuid.UUID
	Organization  uuid.UUID
	Event         *Event
	Subscriptions []uuid.UUID         // subscriptions that matched
	Attempts      int                 // made so far
	Automatic     int                 // of those, by the retry schedule
	Revision      eventstore.Revision // of the delivery's stream
	Replay        uuid.UUID           // the replay to make; zero: an automatic attempt
	DueAt         time.Time
	LeasedUntil   time.Time
}

// Event is a published event with its id.
type Event struct {
	ID uuid.UUID
	publication.Published

	RecordedAt time.Time
}

// events are those of claimed deliveries, each once.
type events map[uuid.UUID]*Event

// scan reads a delivery whose event has nothing but its id.
func (e events) scan(row pgx.CollectableRow) (Claimed, error) {
	var (
		c     Claimed
		event uuid.UUID
	)
	err := row.Scan(column.UUID(&c.ID), column.UUID(&c.Destination), &c.DueAt, &c.LeasedUntil, column.UUID(&c.Replay),
		column.UUID(&c.Organization), column.UUID(&event), &c.Attempts, &c.Automatic, &c.Revision, &c.Subscriptions)
	if err != nil {
		return c, err
	}
	if e[event] == nil {
		e[event] = &Event{ID: event}
	}
	c.Event = e[event]
	return c, nil
}

// smallData is the size in bytes up to which an event's data is read before the others' sizes are known.
const smallData = 2 << 10

// load fills in events. Those that aren't found lose their id. It returns the sizes of those whose data is not filled
// in, because it is large.
func load(ctx context.Context, pool *pgxpool.Pool, claimed []Claimed) (large map[*Event]int, err error) {
	wanted := events{}
	for _, c := range claimed {
		wanted[c.Event.ID] = c.Event
	}
	for _, e := range wanted {
		e.ID = uuid.Nil
	}
	rows, err := pool.Query(ctx, `SELECT id, type, source, subject, time, published_at, feed_type, feed_id,
			octet_length(data), CASE WHEN octet_length(data) <= $2 THEN data END
		FROM publications.publications WHERE id = ANY($1)`, keys(wanted), smallData)
	if err == nil {
		large = map[*Event]int{}
		var (
			e    Event
			size int
		)
		into := []any{
			&e.ID, &e.Type, &e.Source, column.Text(&e.Subject), &e.Time, &e.RecordedAt, column.Text(&e.FeedType),
			column.UUID(&e.FeedID), &size, (*[]byte)(&e.Data),
		}
		_, err = pgx.ForEachRow(rows, into, func() error {
			event := wanted[e.ID]
			if *event = e; size > smallData {
				large[event] = size
			}
			e = Event{}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read claimed deliveries: %w", err)
	}
	return large, nil
}

// fit keeps what there is memory for. Destinations take turns, so that one with much to come leaves room to others.
func (ask Ask) fit(claimed []Claimed, large map[*Event]int) (kept, surplus []Claimed) {
	rank, before := make(map[uuid.UUID]int, len(claimed)), map[uuid.UUID]int{}
	for _, c := range claimed {
		rank[c.ID] = before[c.Destination]
		before[c.Destination]++
	}
	slices.SortStableFunc(claimed, func(a, b Claimed) int { return rank[a.ID] - rank[b.ID] })
	type use struct {
		event        *Event
		organization uuid.UUID
	}
	var (
		all  int
		here = map[*Event]bool{}
		by   = map[uuid.UUID]int{}
		used = map[use]bool{}
	)
	for _, c := range claimed {
		size, organization := large[c.Event], c.Organization
		if size == 0 || used[use{c.Event, organization}] {
			kept = append(kept, c)
			continue
		}
		more := size
		if here[c.Event] { // for another organization
			more = 0
		}
		left, known := ask.BytesOf[organization]
		if !known {
			left = ask.Bytes
		}
		if all > 0 && all+more > ask.Bytes || by[organization] > 0 && by[organization]+size > left {
			surplus = append(surplus, c)
			continue
		}
		all += more
		by[organization] += size
		here[c.Event], used[use{c.Event, organization}] = true, true
		kept = append(kept, c)
	}
	return kept, surplus
}

// loadData fills in the data that load has left out.
func loadData(ctx context.Context, pool *pgxpool.Pool, claimed []Claimed, large map[*Event]int) error {
	events := map[uuid.UUID]*Event{}
	for _, c := range claimed {
		if large[c.Event] > 0 {
			events[c.Event.ID] = c.Event
		}
	}
	rows, err := pool.Query(ctx, "SELECT id, data FROM publications.publications WHERE id = ANY($1)", keys(events))
	if err == nil {
		var (
			id   uuid.UUID
			data []byte
		)
		_, err = pgx.ForEachRow(rows, []any{column.UUID(&id), &data}, func() error {
			events[id].Data, data = data, nil
			return nil
		})
	}
	if err != nil {
		return fmt.Errorf("read data of claimed deliveries: %w", err)
	}
	return nil
}

func keys[T any](all map[uuid.UUID]T) column.UUIDs {
	ids := make(column.UUIDs, 0, len(all))
	for id := range all {
		ids = append(ids, id)
	}
	return ids
}
