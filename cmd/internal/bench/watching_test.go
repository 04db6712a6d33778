//go:build nightly

package bench

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"carillon/eventstore"
	"carillon/eventstore/storetest/must"
)

const (
	watchedHosts = 1000
	visitRate    = 100 // a second: 36 hours in one, with 10,000 sources
	watchRounds  = 2
	visitsAMonth = 24 * 30 // of each source, once an hour
	changeRate   = 100     // a second
)

// watch starts a server that visits all pages of a web, and waits until it has and the backfills have ended.
func watch(b testing.TB, c *web, prepared func(*rig), env ...string) *rig {
	b.Helper()
	r := prepare(b, env...)
	addresses := make([]string, len(c.versions))
	for i := range addresses {
		addresses[i] = c.address(i)
	}
	r.beforehand(func(store eventstore.Store, now time.Time) { r.register(store, addresses, 100, false, now) })
	r.startServer()
	prepared(r)
	r.visited(time.Time{})
	r.until("the backfills have ended", func() bool {
		return r.count("SELECT count(*) FROM sources.attachments WHERE backfilling") == 0
	})
	return r
}

// BenchmarkWatch: SOURCES at 1,000 hosts, one page each. All are visited twice, evenly over a time that is so much
// shorter than the hour in which that is to be done; at each visit 1 % of the pages show their event at another time,
// which is published. The cost of a visit beyond that of the server at rest is extrapolated to an hour, and the storage
// to a month.
func BenchmarkWatch(b *testing.B) {
	n := size("SOURCES", 10_000)
	c := newWeb(b, n, min(n, watchedHosts))
	began := time.Now()
	r := watch(b, c, func(*rig) {})
	report(b, "first-visits-s", time.Since(began).Seconds())
	const rest = 10 * time.Second
	before := r.cost()
	time.Sleep(rest)
	idle := r.since(before).of().Seconds() / rest.Seconds()

	stored, asked, published := r.stored(), c.asked(), r.published()
	before, began = r.cost(), time.Now()
	for range watchRounds {
		r.round(c)
	}
	took := time.Since(began)
	visits := float64(watchRounds * n)
	visit := (r.since(before).of().Seconds() - idle*took.Seconds()) / visits
	perVisit := float64(r.stored()-stored) / visits
	report(b, "visits", visits)
	report(b, "changes", float64(r.published()-published))
	report(b, "%-of-a-core-at-rest", 100*idle)
	report(b, "visit-cpu-ms", 1000*visit)
	report(b, "bytes/visit", perVisit)
	report(b, "requests/visit", float64(c.asked()-asked)/visits)
	reportAtMost(b, "%-of-a-core", 100*(visit*float64(n)/3600+idle), 20)
	reportAtMost(b, "GB-a-month", perVisit*float64(n)*visitsAMonth/1e9, 1)
	reportAtMost(b, "peak-MB", r.resident("VmHWM"), 300)
	reportLoad(b)
}

// round changes 1 % of the pages and has all visited, evenly.
func (r *rig) round(c *web) {
	r.Helper()
	for i := 0; i < len(c.versions); i += 100 {
		c.change(i)
	}
	var since time.Time
	const spread = `WITH due AS (UPDATE carillon.source_walks w SET next_at = clock_timestamp() + s.place *
		make_interval(secs => 1.0 / $1)
			FROM (SELECT id, row_number() OVER (ORDER BY id) AS place FROM sources.sources) s WHERE s.id = w.source_id)
		SELECT clock_timestamp()`
	must.OK(r, r.pool.QueryRow(r.Context(), spread, float64(visitRate)).Scan(&since))
	r.visited(since)
}

func (r *rig) published() int { return r.count("SELECT count(*) FROM publications.publications") }

// stored is the size of the event store and of the tables in bytes, without the room that a VACUUM FULL reclaims:
// rows that were replaced leave room for the next, so that it does not grow with the visits.
func (r *rig) stored() (n int64) {
	r.Helper()
	must.Get(r.pool.Exec(r.Context(), "VACUUM FULL"))(r)
	_ = filepath.WalkDir(r.dir+"/eventstore", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // a file that is just gone has no size
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n + int64(r.count("SELECT pg_database_size(current_database())"))
}

const occurrenceChanged = "event.occurrence.changed"

// BenchmarkChange: CHANGES pages change, 100 of them a second, and are visited at once. How long it takes from the
// beginning of the visit until a receiver has the webhook.
func BenchmarkChange(b *testing.B) {
	n := size("CHANGES", 1500)
	c := newWeb(b, n, min(n, 500))
	came := &arrivals{first: map[string]time.Time{}}
	r := watch(b, c, func(r *rig) { r.destination(r.key, r.listen(came, nil), "*") }, noHostDelay)
	before, wait := r.cost(), r.profile(15)
	ticker := time.NewTicker(time.Second / changeRate)
	defer ticker.Stop()
	for i := range n {
		<-ticker.C
		c.change(i)
		must.Get(r.pool.Exec(b.Context(), `UPDATE carillon.source_walks SET next_at = clock_timestamp()
			WHERE source_id = $1`, sourceOf(c.address(i))))(b)
	}
	r.until("all changes have come", func() bool { return came.count() == n })
	r.reportCost(before, n, "change")
	report(b, "peak-MB", r.resident("VmHWM"))
	took := make([]time.Duration, n)
	for i := range took {
		var began time.Time
		const visit = "SELECT attempted_at FROM carillon.source_walks WHERE source_id = $1"
		must.OK(b, r.pool.QueryRow(b.Context(), visit, sourceOf(c.address(i))).Scan(&began))
		took[i] = came.first[titleOf(i)].Sub(began)
	}
	p99 := reportQuantiles(b, "", took)
	reportAtMost(b, "p99-ms", milliseconds(p99), 2000)
	reportLoad(b)
	wait()
}

// arrivals keeps when the first webhook of each changed occurrence came, by its title.
type arrivals struct {
	mu    sync.Mutex
	first map[string]time.Time
}

func (a *arrivals) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	var event struct {
		Type string
		Data struct{ Title string }
	}
	now := time.Now()
	if r.Method != http.MethodPost || json.NewDecoder(r.Body).Decode(&event) != nil || event.Type != occurrenceChanged {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.first[event.Data.Title]; !known {
		a.first[event.Data.Title] = now
	}
}

func (a *arrivals) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.first)
}
