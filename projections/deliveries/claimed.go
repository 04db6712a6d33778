package deliveries

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/publication"
	"carillon/eventstore"
	"carillon/projections/column"
)

// Claimed is a delivery that a worker holds, with all that an attempt needs. Deliveries of one destination share their
// Endpoint, deliveries of one event their Event.
type Claimed struct {
	ID          uuid.UUID
	Endpoint    *Endpoint
	Event       *Event
	Attempts    int                 // made so far
	Automatic   int                 // of those, by the retry schedule
	Revision    eventstore.Revision // of the delivery's stream
	Replay      uuid.UUID           // the replay to make; zero: an automatic attempt
	DueAt       time.Time
	LeasedUntil time.Time
}

// Endpoint is a destination as an attempt needs it.
type Endpoint struct {
	ID           uuid.UUID
	Revision     eventstore.Revision // of the destination's stream
	Organization uuid.UUID
	URL          string
	Headers      []byte           // sealed; nil: none
	Secrets      []EndpointSecret // active ones, newest first
}

// EndpointSecret is a secret that signs until it expires.
type EndpointSecret struct {
	ID        uuid.UUID
	Sealed    []byte
	ExpiresAt time.Time // zero: never
}

// Event is a published event with its id.
type Event struct {
	ID uuid.UUID
	publication.Published
}

// wanted are the destinations and events of claimed deliveries, each read once.
type wanted struct {
	endpoints map[uuid.UUID]*Endpoint
	events    map[uuid.UUID]*Event
}

func (w *wanted) scan(row pgx.CollectableRow) (Claimed, error) {
	var (
		c                  Claimed
		destination, event uuid.UUID
	)
	err := row.Scan(column.UUID(&c.ID), column.UUID(&destination), &c.DueAt, &c.LeasedUntil, column.UUID(&c.Replay), column.UUID(&event),
		&c.Attempts, &c.Automatic, &c.Revision)
	if err != nil {
		return c, err
	}
	c.Endpoint, c.Event = share(w.endpoints, destination), share(w.events, event)
	return c, nil
}

func share[T any](all map[uuid.UUID]*T, id uuid.UUID) *T {
	if all[id] == nil {
		all[id] = new(T)
	}
	return all[id]
}

// load fills them in. Those that aren't found keep a zero id.
func (w *wanted) load(ctx context.Context, pool *pgxpool.Pool, now time.Time) error {
	var batch pgx.Batch
	destinations, events := keys(w.endpoints), keys(w.events)
	batch.Queue("SELECT id, revision, organization, url, headers FROM destinations.destinations WHERE id = ANY($1)", destinations).
		Query(func(rows pgx.Rows) error {
			var e Endpoint
			_, err := pgx.ForEachRow(rows, []any{&e.ID, &e.Revision, &e.Organization, &e.URL, &e.Headers}, func() error {
				*w.endpoints[e.ID] = e
				e = Endpoint{}
				return nil
			})
			return err
		})
	batch.Queue(`SELECT destination, id, sealed, expires_at FROM destinations.secrets
		WHERE destination = ANY($1) AND (expires_at IS NULL OR expires_at > $2)
		ORDER BY destination, revision DESC`, destinations, now).
		Query(func(rows pgx.Rows) error {
			var (
				destination uuid.UUID
				s           EndpointSecret
			)
			_, err := pgx.ForEachRow(rows, []any{&destination, &s.ID, &s.Sealed, column.Time(&s.ExpiresAt)}, func() error {
				e := w.endpoints[destination]
				e.Secrets = append(e.Secrets, s)
				s = EndpointSecret{}
				return nil
			})
			return err
		})
	batch.Queue(`SELECT id, type, source, subject, time, feed_type, feed_id, data
		FROM publications.publications WHERE id = ANY($1)`, events).
		Query(func(rows pgx.Rows) error {
			var e Event
			_, err := pgx.ForEachRow(rows, []any{&e.ID, &e.Type, &e.Source, column.Text(&e.Subject), &e.Time, column.Text(&e.FeedType),
				column.UUID(&e.FeedID), (*[]byte)(&e.Data)}, func() error {
				*w.events[e.ID] = e
				e = Event{}
				return nil
			})
			return err
		})
	if err := pool.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("read claimed deliveries: %w", err)
	}
	return nil
}

func keys[T any](all map[uuid.UUID]*T) column.UUIDs {
	ids := make(column.UUIDs, 0, len(all))
	for id := range all {
		ids = append(ids, id)
	}
	return ids
}
