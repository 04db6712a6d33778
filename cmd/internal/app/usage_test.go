package app_test

import (
	"os"
	"path/filepath"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// usage is what a benchmark has taken of the machine since it began. Processor time is steadier than the clock on a
// machine that others use too.
type usage struct {
	*testing.B
	postmaster string // the process id of the private Postgres
	own, its   time.Duration
}

func (r *rig) measure() *usage {
	r.Helper()
	u := &usage{B: r.B, postmaster: r.postmaster()}
	// Where the kernel can't forget the peak, it is that of all benchmarks so far.
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
	u.own, u.its = u.process(), u.postgres()
	return u
}

func (r *rig) postmaster() string {
	r.Helper()
	var pid string
	const first = "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)"
	if err := r.app.Queries.Pool.QueryRow(r.Context(), first).Scan(&pid); err != nil {
		r.Fatal(err)
	}
	return pid
}

// report tells what each of so many deliveries took. The process is server, generator and receiver together.
func (u *usage) report(deliveries int) {
	u.Helper()
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(deliveries) }
	u.ReportMetric(per(u.process()-u.own), "cpu-µs/delivered")
	u.ReportMetric(per(u.postgres()-u.its), "postgres-cpu-µs/delivered")
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	u.ReportMetric(float64(live[0].Value.Uint64())/(1<<20), "live-MB")
	if peak := peakRSS(); peak > 0 {
		u.ReportMetric(float64(peak)/1024, "peak-rss-MB")
	}
}

// process is the processor time of this process.
func (u *usage) process() time.Duration {
	u.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		u.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// tick is the unit of the times in /proc.
const tick = 10 * time.Millisecond

// postgres is the processor time of the server and its children, those that have ended included; 0 without a /proc.
func (u *usage) postgres() (used time.Duration) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// After the name in brackets: state, parent, …; 11 to 14 are user and system time, own and of ended children.
		_, rest, _ := strings.Cut(string(content), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 15 || (fields[1] != u.postmaster && path != "/proc/"+u.postmaster+"/stat") {
			continue
		}
		for _, field := range fields[11:15] {
			ticks, _ := strconv.ParseInt(field, 10, 64)
			used += time.Duration(ticks) * tick
		}
	}
	return used
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
	b.ReportMetric(float64((used.process()-used.own).Microseconds())/seconds, "cpu-µs/s")
	b.ReportMetric(float64((used.postgres()-used.its).Microseconds())/seconds, "postgres-cpu-µs/s")
}
