package query_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries/deliverystate"
	"carillon/query"
)

// The states of the names.
var (
	pending, _ = deliverystate.Named("pending")
	failing, _ = deliverystate.Named(deliverystate.Failing)
)

// busyDay fills the tables with deliveries of one day: n completed ones of hook, one in 100 of them failed, and n
// pending ones of other, one in held of them held by a worker. The tables have no statistics, as after a rebuild, and
// only the list reads deliveries.
func (d deliverySide) busyDay(t testing.TB, size, held int) {
	t.Helper()
	d.destination(hook, acme, "crm", midday)
	d.destination(other, acme, "billing", midday)
	d.Project()
	const row = `SELECT md5('delivery ' || n || destination)::uuid, '11111111-1111-4111-8111-111111111111', destination,
			'2026-11-21 12:00Z'::timestamptz - (n / 3) * interval '1 s', NULL, 0, (n + 1) % 2, 1, md5('event ' || n)::uuid,
			'2026-11-21 12:00Z',
			md5('feed ' || n % 2)::uuid, 'news', status, CASE WHEN status = 'failed' THEN status
			WHEN n % 2 = 0 AND status = 'pending' THEN 'retrying' END,
			CASE WHEN n % 4 = 0 THEN 'news.item.updated' ELSE 'news.item.added' END, 'https://example.org/feeds/city',
			'item/' || n,
			NULL::uuid, '{55555555-5555-4555-8555-555555555555}'::uuid[], '2026-11-21 12:00Z'::timestamptz, 1500, NULL::integer,
			200, 'automatic',
			NULL::text, NULL::text, repeat('x', 60)::bytea`
	all := fmt.Sprintf(`(SELECT n, destination, CASE WHEN destination = '%s' THEN 'pending'
		WHEN n %% 100 = 0 THEN 'failed' ELSE 'succeeded' END status
		FROM generate_series(0, %d) n, unnest('{%s,%s}'::uuid[]) destination) made`, other, size-1, hook, other)
	for _, sql := range []string{
		"ALTER TABLE deliveries.deliveries SET (autovacuum_enabled = false)",
		"ALTER TABLE deliveries.due SET (autovacuum_enabled = false)",
		"ALTER INDEX deliveries.deliveries_created SET (autosummarize = off)", // it reads all rows, at a time of its own
		"INSERT INTO deliveries.deliveries " + row + " FROM " + all,
		fmt.Sprintf(`INSERT INTO deliveries.due SELECT md5('delivery ' || n || destination)::uuid, destination,
			'2026-11-21 12:00Z', '2026-11-21 12:01Z',
			CASE WHEN n %% %d = 0 THEN 7 END FROM %s WHERE status = 'pending'`, held, all),
		`INSERT INTO deliveries.tallies
			SELECT destination, ('2026-11-21 12:00Z'::timestamptz - (n / 3) * interval '1 s')::date,
			CASE WHEN n % 4 = 0 THEN 'news.item.updated' ELSE 'news.item.added' END, md5('feed ' || n % 2)::uuid, count(*),
			count(*) FILTER (WHERE status = 'succeeded'), count(*) FILTER (WHERE status = 'failed'), 0, 0 FROM ` + all +
			` GROUP BY 1, 2, 3, 4`,
		`INSERT INTO deliveries.outcomes SELECT '11111111-1111-4111-8111-111111111111', day, sum(total), sum(succeeded),
			sum(failed), 0, 0 FROM deliveries.tallies GROUP BY day`,
	} {
		_, err := d.Pool.Exec(t.Context(), sql)
		must.True(t, err == nil, "%v: %s", err, sql)
	}
}

// plainPage returns a page of a destination's deliveries by a statement that uses neither tallies nor due.
func (d deliverySide) plainPage(t *testing.T, destination uuid.UUID, condition string,
	offset, limit int) (ids []uuid.UUID, total int) {
	t.Helper()
	from := "FROM deliveries.deliveries d LEFT JOIN deliveries.due u USING (id) WHERE d.destination = $1 AND " + condition
	must.OK(t, d.Pool.QueryRow(t.Context(), `SELECT coalesce(array_agg(id), '{}'), (SELECT count(*) `+from+`)
		FROM (SELECT d.id `+from+`
		ORDER BY d.created_at DESC, d.id DESC OFFSET $2 LIMIT $3) page`, destination, offset, limit).Scan(&ids, &total))
	return ids, total
}

func TestDeliveries_busyDay(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	const size = 6000
	d.busyDay(t, size, 20)
	var feed uuid.UUID
	must.OK(t, d.Pool.QueryRow(t.Context(), "SELECT md5('feed 1')::uuid").Scan(&feed))
	for _, c := range []struct {
		destination uuid.UUID
		filter      query.DeliveryFilter
		condition   string
	}{
		{hook, query.DeliveryFilter{}, "true"},
		{hook, query.DeliveryFilter{States: deliverystate.SetOf(deliverystate.Succeeded)}, "d.status = 'succeeded'"},
		{hook, query.DeliveryFilter{States: deliverystate.SetOf(deliverystate.Failed)}, "d.status = 'failed'"},
		{hook, query.DeliveryFilter{Types: []string{"news.item.updated"}}, "d.type = 'news.item.updated'"},
		{hook, query.DeliveryFilter{Feed: feed}, "d.feed_id = md5('feed 1')::uuid"},
		{hook, query.DeliveryFilter{Since: midday.Add(-20 * time.Minute)}, "d.created_at >= '2026-11-21 11:40Z'"},
		{other, query.DeliveryFilter{}, "true"},
		{other, query.DeliveryFilter{States: pending}, "u.worker IS NULL"},
		{other, query.DeliveryFilter{States: pending, Feed: feed}, "u.worker IS NULL AND d.feed_id = md5('feed 1')::uuid"},
		{other, query.DeliveryFilter{States: deliverystate.SetOf(deliverystate.Delivering)}, "u.worker IS NOT NULL"},
		{
			other,
			query.DeliveryFilter{States: deliverystate.SetOf(deliverystate.Waiting)},
			"u.worker IS NULL AND d.attempts = 0",
		},
		{other, query.DeliveryFilter{States: failing}, "u.worker IS NULL AND d.attempts > 0"},
	} {
		for _, offset := range []int{0, 1, 49, 50, 299, 2999, 5970, size - 1, size, 10 * size} {
			c.filter.Offset, c.filter.Limit = offset, 50
			want, wantTotal := d.plainPage(t, c.destination, c.condition, offset, c.filter.Limit)
			page, total, err := d.Deliveries(t.Context(), acme, c.destination, c.filter, midday)
			must.OK(t, err)
			got := make([]uuid.UUID, len(page))
			for i := range page {
				got[i] = page[i].ID
			}
			assert.True(t, total == wantTotal && slices.Equal(got, want),
				"%+v: %d in all, want %d; page %v, want %v", c.filter, total, wantTotal, got, want)
		}
	}
}

// TestDeliveries_heldWithoutHistory counts the rows of deliveries that are read to list the few held ones, while the
// planner has no statistics.
func TestDeliveries_heldWithoutHistory(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	const size, held = 20_000, 100
	d.busyDay(t, size, size/held)
	page, total, err := d.Deliveries(t.Context(), acme, other, query.DeliveryFilter{
		States: deliverystate.SetOf(deliverystate.Delivering),
		Limit:  50,
	}, midday)
	must.True(t, err == nil && total == held && len(page) == 50,
		"%d of %d (%v), want 50 of %d", len(page), total, err, held)
	d.Pool.Reset() // a closed session has reported its reads
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		var read, found int
		must.OK(t, d.Pool.QueryRow(ctx, `SELECT sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FILTER
			(WHERE relname = 'deliveries'),
			sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) FILTER (WHERE relname = 'due') FROM pg_stat_user_tables
			WHERE schemaname = 'deliveries'`,
		).Scan(&read, &found))
		if found == 0 {
			continue
		}
		assert.True(t, read <= 2*held, "%d rows of deliveries were read for %d, of %d", read, held, 2*size)
		return
	}
}
