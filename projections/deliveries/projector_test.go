package deliveries_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/dispatch"
)

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
	if diff := cmp.Diff(&want, h.row(n, to)); diff != "" {
		h.t.Errorf("delivery of event %d (-want +got):\n%s", n, diff)
	}
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
		all := make([]uuid.UUID, 0, each)
		for i := range each {
			all = append(all, uuid.NewSHA1(alpha, []byte{byte(i >> 8), byte(i)}))
		}
		fanOut := make([]dispatch.Scheduled, 0, each)
		for _, id := range all {
			fanOut = append(fanOut, to(id))
		}
		h.schedule(n, noon, fanOut...)
		h.happens(n, all[0], succeeded(1, all[0], noon))
	}
	h.Project()
	if n := h.count("SELECT count(*) FROM deliveries.deliveries"); n != events*each {
		t.Errorf("%d deliveries, want %d", n, events*each)
	}
	if n := h.count("SELECT sum(succeeded) FROM deliveries.tallies"); n != events {
		t.Errorf("%d succeeded, want %d", n, events)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		at, id, page := map[uuid.UUID]int{}, uuid.UUID{}, 0
		if _, err := pgx.ForEachRow(rows, []any{&id, &page}, func() error { at[id] = page; return nil }); err != nil {
			t.Fatal(err)
		}
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
	if moved > 0 {
		t.Errorf("%d of %d rows moved to another page", moved, events)
	}
	changes := "{attempts,attempted_at,automatic,completed_at,duration_micros,response_body,response_status,revision," +
		"status,trigger}"
	if n := h.count(`SELECT count(*) FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid
		AND (a.attnum = ANY(i.indkey)
			OR pg_get_expr(i.indpred, i.indrelid) LIKE '%' || a.attname || '%')
		WHERE i.indrelid = 'deliveries.deliveries'::regclass AND a.attnum > 0
		AND a.attname = ANY($1::text[])`, changes); n != 0 {
		t.Errorf("%d columns that a success changes are in an index", n)
	}
}
