//go:build unix

package pgtest

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore/storetest/must"
)

// Usage is the processor time of this process and a server. That is steadier than the clock on a machine that others
// use too.
type Usage struct {
	tb         testing.TB
	postmaster string // its process id
}

// UsageOf is the usage of the server of a pool, which runs on this machine.
func UsageOf(ctx context.Context, tb testing.TB, pool *pgxpool.Pool) Usage {
	tb.Helper()
	u := Usage{tb: tb}
	const first = "SELECT split_part(pg_read_file('postmaster.pid'), E'\\n', 1)"
	must.OK(tb, pool.QueryRow(ctx, first).Scan(&u.postmaster))
	return u
}

// Process is the processor time of this process.
func (u Usage) Process() time.Duration {
	u.tb.Helper()
	var used syscall.Rusage
	must.OK(u.tb, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// Tick is the unit of the times in /proc.
const Tick = 10 * time.Millisecond

// Postgres is the processor time of the server and its children, ended ones included; 0 without a /proc.
func (u Usage) Postgres() (used time.Duration) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range all {
		content, err := os.ReadFile(path) //nolint:gosec // of the kernel
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
			used += time.Duration(ticks) * Tick
		}
	}
	return used
}
