package app_test

import (
	"os"
	"runtime/metrics"
	"strconv"
	"strings"
	"testing"
	"time"

	"carillon/projections/pgtest"
)

// usage is what a benchmark has taken of the machine since it began.
type usage struct {
	*testing.B
	pgtest.Usage
	own, its time.Duration
}

func (r *rig) measure() *usage {
	r.Helper()
	u := &usage{B: r.B, Usage: pgtest.UsageOf(r.Context(), r.B, r.app.Queries.Pool)}
	// Where the kernel can't forget the peak, it is that of all benchmarks so far.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	u.own, u.its = u.Process(), u.Postgres()
	return u
}

// report tells what each of so many deliveries took. The process is server, generator and receiver together.
func (u *usage) report(deliveries int) {
	u.Helper()
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(deliveries) }
	u.ReportMetric(per(u.Process()-u.own), "cpu-µs/delivered")
	u.ReportMetric(per(u.Postgres()-u.its), "postgres-cpu-µs/delivered")
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	u.ReportMetric(float64(live[0].Value.Uint64())/(1<<20), "live-MB")
	if peak := peakRSS(); peak > 0 {
		u.ReportMetric(float64(peak)/1024, "peak-rss-MB")
	}
}

// peakRSS is the largest resident size of this process since measure, in KiB; 0 where the kernel does not tell.
func peakRSS() int {
	status, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	line, _, _ := strings.Cut(rest, " kB")
	peak, _ := strconv.Atoi(strings.TrimSpace(line))
	return peak
}

// BenchmarkIdle: what a server takes that has nothing to do, in a second.
func BenchmarkIdle(b *testing.B) {
	r := newRig(b, 1)
	r.recorded(0)
	const seconds = 10
	b.ResetTimer()
	used := r.measure()
	<-time.After(seconds * time.Second)
	b.StopTimer()
	b.ReportMetric(float64((used.Process()-used.own).Microseconds())/seconds, "cpu-µs/s")
	b.ReportMetric(float64((used.Postgres()-used.its).Microseconds())/seconds, "postgres-cpu-µs/s")
}
