//go:build nightly

package console_test

import (
	"context"
	"testing"
	"time"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// TestCommonFilter_fewTallies: if most deliveries match a filter, a page reads the tallies of the recently active
// destinations only, not of all.
func TestCommonFilter_fewTallies(t *testing.T) {
	w := openAlone(t)
	const size, asked = 3000, 20
	w.crowd(t, size, 2)
	b := w.signIn(t, w.key)
	for i := range asked {
		b.get(t, "/console/deliveries?"+[]string{"status=succeeded", "type=news.*", "type=news.item.added"}[i%3]).expect(t,
			200, "Crowd ")
	}
	w.Pool.Reset() // a closed session has reported its reads
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for read, sampled := int64(0), int64(0); ; {
		must.OK(t, w.Pool.QueryRow(ctx, `SELECT coalesce((SELECT sum(seq_tup_read) FROM pg_stat_user_tables
			WHERE schemaname = 'deliveries' AND relname = 'tallies'), 0) +
				coalesce((SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = 'deliveries'
				AND relname = 'tallies'), 0),
			(SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname = 'deliveries'
				AND relname = 'deliveries')`).Scan(&read, &sampled))
		if sampled < asked*50 {
			continue // not reported yet
		}
		assert.True(t, read <= asked*size/2, "for %d pages, %d tallies were read of %d destinations", asked, read, size)
		t.Logf("%d tallies and %d deliveries for %d pages", read, sampled, asked)
		return
	}
}
