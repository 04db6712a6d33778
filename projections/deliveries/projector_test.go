package deliveries_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/projecttest"
	"carillon/projections/publications"
)

var (
	org   = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	alpha = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001") // destinations
	beta  = uuid.MustParse("bbbbbbbb-0000-4000-8000-000000000002")
	sub   = uuid.MustParse("55555555-5555-4555-8555-555555555555")
	feed  = uuid.MustParse("66666666-6666-4666-8666-666666666666")
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

// history records what happens to deliveries, for the read models that deliverers use.
type history struct {
	*projecttest.Log
	t testing.TB
}

func newHistory(t testing.TB) history {
	t.Helper()
	return history{projecttest.New(t, destinations.ReadModel, publications.ReadModel, deliveries.ReadModel), t}
}

// pending is the row of a delivery that was scheduled and nothing more.
func pending(subject string) stored {
	return stored{
		Status:        "pending",
		Revision:      -1,
		CreatedAt:     noon,
		Subscriptions: []uuid.UUID{sub},
		Type:          "news.item.added",
		Subject:       subject,
		FeedID:        feed,
		DueAt:         new(noon),
		AvailableAt:   new(noon),
	}
}

func (h history) wants(n int, to uuid.UUID, want stored) {
	h.t.Helper()
	assert.Alike(h.t, h.row(n, to), &want, "delivery of event %d", n)
}

func TestScheduled(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	held, debounced := to(beta), to(alpha)
	held.Worker, held.LeasedUntil = 7, noon.Add(time.Minute)
	debounced.NotBefore = noon.Add(10 * time.Second)
	h.schedule(1, noon, to(alpha), held)
	h.schedule(2, noon, debounced)
	h.Project()

	h.wants(1, alpha, pending("item/1"))
	leased := pending("item/1")
	leased.Worker, leased.AvailableAt = new(int32(7)), new(noon.Add(time.Minute))
	h.wants(1, beta, leased)
	waits := pending("item/2")
	waits.DueAt, waits.AvailableAt = new(noon.Add(10*time.Second)), new(noon.Add(10*time.Second))
	h.wants(2, alpha, waits)
}

func TestFanOutIsLargerThanOneWrite(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	const events, each = 5, 1999
	for n := range events {
		var fanOut []dispatch.Scheduled
		for i := range each {
			fanOut = append(fanOut, to(uuid.NewSHA1(alpha, []byte{byte(i >> 8), byte(i)})))
		}
		h.schedule(n, noon, fanOut...)
		first := fanOut[0].Destination
		h.happens(n, first, succeeded(1, first, noon))
	}
	h.Project()
	assert.Equal(t, h.count("SELECT count(*) FROM deliveries.deliveries"), events*each, "deliveries")
	assert.Equal(t, h.count("SELECT sum(succeeded) FROM deliveries.tallies"), events, "succeeded")
}

// TestSuccess_touchesNoIndex: an update that stays on its page, and changes no indexed column, makes no index entry.
func TestSuccess_touchesNoIndex(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	const events = 2000
	for n := range events {
		h.schedule(n, noon, to(alpha))
	}
	h.Project()
	pages := func() map[uuid.UUID]int {
		rows, err := h.Database.Query(t.Context(), "SELECT id, (ctid::text::point)[0]::integer FROM deliveries.deliveries")
		must.OK(t, err)
		at, id, page := map[uuid.UUID]int{}, uuid.UUID{}, 0
		must.Get(pgx.ForEachRow(rows, []any{&id, &page}, func() error { at[id] = page; return nil }))(t)
		return at
	}
	before := pages()
	for n := range events {
		h.happens(n, alpha, succeeded(1, alpha, noon))
	}
	h.Project()
	moved := 0
	for id, page := range pages() {
		if page != before[id] {
			moved++
		}
	}
	assert.True(t, moved <= 0, "%d of %d rows moved to another page", moved, events)
	changes := "{attempts,attempted_at,automatic,completed_at,duration_micros,response_body,response_status,revision," +
		"status,trigger}"
	assert.Equal(t, h.count(`SELECT count(*) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
		AND (a.attnum = ANY(i.indkey)
			OR pg_get_expr(i.indpred, i.indrelid) LIKE '%' || a.attname || '%')
		WHERE i.indrelid = 'deliveries.deliveries'::regclass AND a.attnum > 0
		AND a.attname = ANY($1::text[])`, changes), 0, "columns that a success changes are in an index")
}

func (h history) destination(id uuid.UUID) {
	projecttest.Stream(h.Log, destination.Aggregate, id, noon)(destination.Created{
		Organization: org, At: noon,
		Settings: destination.Settings{
			Name:    "CRM",
			URL:     "https://example.org/" + id.String(),
			Headers: destination.Sealed{Data: []byte("sealed headers")},
			Plain:   destination.Plain{DebounceWindowSeconds: 5},
		},
	}, destination.SecretMinted{SecretID: secretOf(id), Sealed: []byte("sealed secret"), At: noon})
}

// secretOf names the first secret of a destination.
func secretOf(destination uuid.UUID) uuid.UUID { return uuid.NewSHA1(destination, []byte("secret")) }

// event names the n-th published event.
func event(n int) uuid.UUID { return uuid.NewSHA1(feed, fmt.Append(nil, n)) }

func (h history) publish(n int) { h.publishData(n, fmt.Appendf(nil, `{"title":"No. %d","n":1.50}`, n)) }

func (h history) publishData(n int, data []byte) {
	projecttest.Stream(h.Log, publication.Aggregate, event(n), noon)(publication.Published{
		Organization: org,
		Type:         "news.item.added",
		Source:       "https://example.org/feeds/city",
		Subject:      fmt.Sprintf("item/%d", n),
		Time:         noon,
		FeedType:     "news",
		FeedID:       feed,
		Data:         data,
	})
}

// due publishes the n-th event at noon, with deliveries.
func (h history) due(n int, to ...dispatch.Scheduled) {
	h.publish(n)
	h.schedule(n, noon, to...)
}

// schedule makes deliveries of the n-th event.
func (h history) schedule(n int, at time.Time, to ...dispatch.Scheduled) {
	projecttest.Stream(h.Log, dispatch.Aggregate, event(n), at)(dispatch.DeliveriesScheduled{
		Publication: event(n),
		At:          at,
		Deliveries:  to,
		Event: dispatch.Summary{
			Type:     "news.item.added",
			Source:   "https://example.org/feeds/city",
			Subject:  fmt.Sprintf("item/%d", n),
			Time:     noon,
			FeedType: "news",
			FeedID:   feed,
		},
	})
}

// to schedules a delivery without a lease.
func to(destination uuid.UUID) dispatch.Scheduled {
	return dispatch.Scheduled{Destination: destination, Organization: org, Subscriptions: []uuid.UUID{sub}}
}

// happens records facts about the delivery of the n-th event to a destination.
func (h history) happens(n int, destination uuid.UUID, events ...delivery.Event) {
	projecttest.Stream(h.Log, delivery.Aggregate, dispatch.DeliveryID(event(n), destination), noon)(events...)
}

// failed is an attempt that is to be followed by another one.
func failed(number int, destination uuid.UUID, at, next time.Time) delivery.Attempted {
	return delivery.Attempted{
		Organization: org,
		Destination:  destination,
		Number:       number,
		Trigger:      delivery.Automatic,
		At:           at,
		Outcome: delivery.Outcome{
			ResponseStatus: 500,
			ResponseBody:   fmt.Appendf(nil, "sealed %d", number),
			FailureReason:  "http_status",
			ErrorMessage:   "the endpoint answered 500",
			DurationMicros: 1500,
		},
		Status:        delivery.StatusPending,
		NextAttemptAt: next,
	}
}

// gaveUp is a failed attempt that was the last.
func gaveUp(number int, destination uuid.UUID, at time.Time) delivery.Attempted {
	e := failed(number, destination, at, time.Time{})
	e.Status = delivery.StatusFailed
	return e
}

// succeeded is an attempt that took 2 ms.
func succeeded(number int, destination uuid.UUID, at time.Time) delivery.Attempted {
	return delivery.Attempted{
		Organization: org,
		Destination:  destination,
		Number:       number,
		Trigger:      delivery.Automatic,
		At:           at,
		Status:       delivery.StatusSucceeded,
		Outcome:      delivery.Outcome{ResponseStatus: 200, ResponseBody: []byte("sealed"), DurationMicros: 2000},
	}
}

// replayWanted is the request of a replay.
func replayWanted(destination, replay uuid.UUID, at time.Time) delivery.ReplayRequested {
	return delivery.ReplayRequested{
		Organization: org,
		Destination:  destination,
		Replay:       replay,
		At:           at,
	}
}

// replayed makes an attempt one of a replay.
func replayed(e delivery.Attempted) delivery.Attempted {
	e.Trigger = delivery.ManualReplay
	return e
}

// stored is a row of deliveries with its due row.
type stored struct {
	Status        string
	Attempts      int
	Automatic     int
	Revision      int64
	CreatedAt     time.Time
	CompletedAt   *time.Time
	Subscriptions []uuid.UUID
	Type          string
	Subject       string
	FeedID        uuid.UUID
	DueAt         *time.Time
	AvailableAt   *time.Time
	Worker        *int32
	Replay        *uuid.UUID
}

// row reads the delivery of the n-th event to a destination; nil means there is none.
func (h history) row(n int, destination uuid.UUID) *stored {
	h.t.Helper()
	if found := h.rows(dispatch.DeliveryID(event(n), destination)); len(found) > 0 {
		return found[0]
	}
	return nil
}

// rows reads those of some deliveries that there are, in order.
func (h history) rows(ids ...uuid.UUID) []*stored {
	h.t.Helper()
	rows, err := h.Database.Query(h.t.Context(), `
		SELECT d.status, d.attempts, d.automatic, d.revision, d.created_at, d.completed_at, d.subscriptions, d.type,
		d.subject, d.feed_id,
			u.due_at, u.available_at, u.worker, u.replay
		FROM deliveries.deliveries d LEFT JOIN deliveries.due u ON u.id = d.id AND u.replay IS NOT DISTINCT FROM d.replay
		WHERE d.id = ANY($1) ORDER BY array_position($1, d.id)`, ids)
	must.OK(h.t, err)
	found := must.Get(pgx.CollectRows(rows, pgx.RowToAddrOfStructByPos[stored]))(h.t)
	for _, row := range found {
		for _, at := range []*time.Time{&row.CreatedAt, row.CompletedAt, row.DueAt, row.AvailableAt} {
			if at != nil {
				*at = at.UTC()
			}
		}
	}
	return found
}

// count runs a query that counts.
func (h history) count(sql string, args ...any) int {
	h.t.Helper()
	var n int
	must.OK(h.t, h.Database.QueryRow(h.t.Context(), sql, args...).Scan(&n))
	return n
}
