//go:build nightly

package bench

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"carillon/eventstore/storetest/assert"
)

// cost is the processor time that a process and its Postgres have had.
type cost struct{ process, postgres time.Duration }

func (c cost) of() time.Duration { return c.process + c.postgres }

func (r *rig) cost() cost { return cost{r.processorTime(), r.postgres.Postgres()} }

func (r *rig) since(before cost) cost {
	now := r.cost()
	return cost{now.process - before.process, now.postgres - before.postgres}
}

// reportCost reports what each of n took since.
func (r *rig) reportCost(since cost, n int, each string) {
	used := r.since(since)
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	report(r.TB, "server-cpu-µs/"+each, per(used.process))
	report(r.TB, "postgres-cpu-µs/"+each, per(used.postgres))
	report(r.TB, "cpu-µs/"+each, per(used.of()))
}

// reportDelivered reports what each of n deliveries cost since, how long they took, and the server's memory.
func (r *rig) reportDelivered(since cost, n int) {
	r.reportCost(since, n, "delivered")
	report(r.TB, "rss-MB", r.resident("VmRSS"))
	report(r.TB, "peak-rss-MB", r.resident("VmHWM"))
	r.receiver.reportLatencies("")
}

// profile keeps what the server's processor time and memory go into for some seconds, in the directory that PROFILES
// names.
func (r *rig) profile(seconds int) (wait func()) {
	dir := os.Getenv("PROFILES")
	if dir == "" {
		return func() {}
	}
	var profiling sync.WaitGroup
	name := filepath.Join(dir, strings.NewReplacer("/", "_", "=", "").Replace(r.Name()))
	keep := func(path, suffix string) {
		content, err := r.send(http.MethodGet, r.admin+"/debug/pprof/"+path, r.token, "", nil)
		if err == nil {
			err = os.WriteFile(name+suffix, content, 0o600)
		}
		assert.OK(r, err)
	}
	profiling.Go(func() { keep(fmt.Sprintf("profile?seconds=%d", seconds), ".pprof") })
	profiling.Go(func() { keep(fmt.Sprintf("allocs?seconds=%d", seconds), ".allocs") })
	return func() {
		profiling.Wait()
		keep("heap", ".heap")
	}
}
