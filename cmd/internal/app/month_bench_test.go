package app_test

import (
	"fmt"
	"testing"
	"time"
)

const (
	watchedHosts = 1000
	visitRate    = 100 // a second: 36 hours in one, where there are 10,000 sources
	watchRounds  = 2
	visitsAMonth = 24 * 30 // of each source, once an hour
)

// BenchmarkWatch: so many sources at 1,000 hosts, one page each. All are visited twice, evenly over a time that is so
// much shorter than the hour in which that is to be done; at each visit 1 % of the pages show their event at another
// time, which is published. What a visit takes beyond what the server takes at rest is taken for an hour, and what is
// stored for a month.
func BenchmarkWatch(b *testing.B) {
	c := newWeb(b, b.N, min(b.N, watchedHosts))
	w := prepareWatching(b, false)
	c.register(b, w.dir)
	w.start()
	began := time.Now()
	w.visited(time.Time{})
	w.until("the backfills have ended", time.Hour, func() bool { return w.count("SELECT count(*) FROM sources.attachments WHERE backfilling") == 0 })
	b.ReportMetric(time.Since(began).Seconds(), "first-visits-s")
	const rest = 10 * time.Second
	w.measure()
	<-time.After(rest)
	idle := w.taken().Seconds() / rest.Seconds()

	stored, tables := w.sizes()
	asked, published := c.asked(), w.published()
	b.ResetTimer()
	w.measure()
	began = time.Now()
	for range watchRounds {
		w.round(c)
	}
	took := time.Since(began)
	b.StopTimer()
	visits := watchRounds * b.N
	visit := (w.taken().Seconds() - idle*took.Seconds()) / float64(visits)
	storedAfter, tablesAfter := w.sizes()
	changes := w.published() - published
	each := func(n int64) float64 { return float64(n) / float64(visits) }
	hour := visit*float64(b.N) + idle*3600
	grow := (each(storedAfter-stored) + each(tablesAfter-tables)) * float64(b.N) * visitsAMonth / 1e9
	fmt.Printf("watch: %d sources, %d visits in %s, %d changes published, load %.1f\n", b.N, visits, took.Round(time.Second), changes, load())
	fmt.Printf("watch: at rest %.2f %% of a core; a visit takes %.2f ms more; in an hour %d × %.2f ms + 3600 s × %.4f = %.0f s: %.1f %% of a core (floor 20 %%)\n",
		100*idle, 1000*visit, b.N, 1000*visit, idle, hour, hour/36)
	fmt.Printf("watch: a visit stores %.0f bytes of events (%d in all) and %.0f in tables after VACUUM FULL (%d in all); × %d sources × %d visits a month: %.2f GB (floor 1 GB)\n",
		each(storedAfter-stored), storedAfter-stored, each(tablesAfter-tables), tablesAfter-tables, b.N, visitsAMonth, grow)
	fmt.Printf("watch: %.3f requests a visit, robots.txt not included; peak %.0f MB (floor 300 MB)\n", float64(c.asked()-asked)/float64(visits), w.resident("VmHWM"))
	b.ReportMetric(hour/36, "%-of-a-core")
	b.ReportMetric(grow, "GB-a-month")
	b.ReportMetric(float64(c.asked()-asked)/float64(visits), "requests/visit")
	b.ReportMetric(w.resident("VmHWM"), "peak-MB")
}

// round changes 1 % of the pages and has all visited, evenly.
func (w *watching) round(c *web) {
	w.Helper()
	n := len(c.versions)
	for i := range n {
		if i%100 == 0 {
			c.change(i)
		}
	}
	var since time.Time
	const spread = `WITH due AS (UPDATE carillon.source_walks w SET next_at = clock_timestamp() + s.place * make_interval(secs => 1.0 / $1)
			FROM (SELECT id, row_number() OVER (ORDER BY id) AS place FROM sources.sources) s WHERE s.id = w.source_id)
		SELECT clock_timestamp()`
	if err := w.pool.QueryRow(w.bench.Context(), spread, float64(visitRate)).Scan(&since); err != nil {
		w.Fatal(err)
	}
	w.visited(since)
}

// taken is the processor time of the server and its Postgres since measure.
func (w *watching) taken() time.Duration {
	return w.processorTime() - w.own + w.postgres.Postgres() - w.its
}

func (w *watching) published() int {
	return w.count("SELECT count(*) FROM publications.publications")
}

// sizes are what the files of the event store take, and the tables, without the room that a VACUUM FULL gives back: rows that were
// replaced leave room for the next, so that it does not grow with the visits.
func (w *watching) sizes() (stored, tables int64) {
	w.Helper()
	if _, err := w.pool.Exec(w.bench.Context(), "VACUUM FULL"); err != nil {
		w.Fatal(err)
	}
	return bytesIn(w.dir + "/eventstore"), int64(w.count("SELECT pg_database_size(current_database())"))
}
