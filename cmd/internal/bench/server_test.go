//go:build nightly

package bench

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/cmd/internal/suite/children"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
)

// process is a server of the benchmark.
type process struct {
	*children.Child

	b          testing.TB
	api, admin string // addresses. A server without the role api has no API
	began      time.Time
}

// run starts a server with some variables in its environment.
func run(b testing.TB, data, store, database string, env ...string) *process {
	b.Helper()
	p := &process{b: b, began: time.Now()}
	p.Child, p.api, p.admin = children.StartServer(b, data, store, database, append(env, "CHILD_RETRY=5s")...)
	p.api, p.admin = strings.TrimPrefix(p.api, "http://"), strings.TrimPrefix(p.admin, "http://")
	return p
}

func (p *process) stop() { p.End(os.Interrupt) }

// until polls, the less often the longer it takes, and returns how long after the start of the process it held.
func (p *process) until(what string, holds func() bool) time.Duration {
	p.b.Helper()
	for began := time.Now(); time.Since(began) < time.Hour; {
		if holds() {
			return time.Since(p.began)
		}
		time.Sleep(min(20*time.Millisecond+time.Since(began)/10, 5*time.Second)) // to look costs the server something
	}
	p.b.Fatalf("not within an hour: %s", what)
	return 0
}

// resident is a field of the memory of the process in MB, Postgres apart: VmRSS, or VmHWM, the most so far.
func (p *process) resident(field string) float64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	_, rest, _ := strings.Cut(string(status), field+":")
	line, _, _ := strings.Cut(rest, " kB")
	kilobytes, _ := strconv.Atoi(strings.TrimSpace(line))
	return float64(kilobytes) / 1024
}

// processorTime is the processor time of the process.
func (p *process) processorTime() (used time.Duration) {
	p.b.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		p.b.Skip("no /proc")
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	for _, field := range strings.Fields(rest)[11:13] {
		ticks, _ := strconv.ParseInt(field, 10, 64)
		used += time.Duration(ticks) * pgtest.Tick
	}
	return used
}

// peakSince watches the memory of the process from a time on until it is asked for the most there was, in MB.
func (p *process) peakSince(from time.Time) (peak func() float64) {
	stop, most := make(chan struct{}), make(chan float64, 1)
	go func() {
		highest := 0.0
		for tick := time.Tick(50 * time.Millisecond); ; {
			select {
			case <-tick:
				if time.Now().After(from) {
					highest = max(highest, p.resident("VmRSS"))
				}
			case <-stop:
				most <- highest
				return
			}
		}
	}()
	return func() float64 {
		close(stop)
		return <-most
	}
}

// serve starts the server's process on the rig's directory.
func (r *rig) serve() *process {
	r.Helper()
	return run(r.TB, r.dir, "", "", append(r.env, "CHILD_COLLECTS=1")...)
}

// startServer starts the server on the rig's directory, again if it was stopped, and finds its Postgres.
func (r *rig) startServer() {
	r.Helper()
	if r.pool != nil {
		r.pool.Close()
	}
	r.process = r.serve()
	r.until("ready", r.ready)
	lines := must.Get(os.ReadFile(filepath.Join(r.dir, "postgres", "pgdata", "postmaster.pid")))(r)
	fields := strings.Split(string(lines), "\n") // process id, directory, start, port, directory of the socket, …
	r.connect(fmt.Sprintf("postgres://carillon@/carillon?host=%s&port=%s&sslmode=disable", fields[4], fields[3]))
	r.until("it has a key", func() bool {
		var err error
		r.key, err = dev.ReadKey(r.dir)
		return err == nil
	})
	client := config.Client{DataDir: r.dir}
	r.token = must.Get(client.Token())(r)
}

// connect opens the Postgres that a server uses.
func (r *rig) connect(url string) {
	r.Helper()
	r.pool = must.Get(pgxpool.New(r.Context(), url))(r)
	r.Cleanup(r.pool.Close)
	r.postgres = pgtest.UsageOf(r.Context(), r.TB, r.pool)
}

func (r *rig) ready() bool {
	status, _ := r.look("/readyz")
	return status == http.StatusOK
}

// caughtUp reports whether every consumer runs and is at the head.
func (r *rig) caughtUp() bool {
	_, text := r.look("/metrics")
	lines := func(of string) int { return strings.Count(text, "\n"+of+"{") }
	at := func(of, value string) (n int) {
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, of+"{") && strings.HasSuffix(line, "} "+value+"\n") {
				n++
			}
		}
		return n
	}
	const running, lag = "carillon_consumer_running", "carillon_consumer_lag_seconds"
	return lines(running) > 0 && at(running, "1") == lines(running) && at(lag, "0") == lines(running)
}
