//go:build nightly

package app_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"carillon/cmd/internal/suite/children"
	"carillon/eventstore/storetest/must"
)

const (
	frozen = 12 * time.Second       // how long what is stopped stays stopped: longer than others wait for it
	cutFor = 20 * time.Second       // as long as others need to take over, and again
	quiet  = 500 * time.Millisecond // between two faults
)

// fault happens to a cluster for a time.
type fault struct {
	name  string
	begin func(*cluster) (end func())
	lasts time.Duration
	// outage measures, once all is well again, how long nothing was delivered.
	outage func(p *publishing, began, ended time.Time) time.Duration
	// repeats: more may come again than was in flight.
	repeats bool
}

// strike lets the fault happen, from its beginning to its end.
func (f fault) strike(c *cluster) {
	end := f.begin(c)
	time.Sleep(f.lasts)
	end()
}

// victims chooses processes of a cluster.
type victims func(*cluster) []*children.Child

func anyServer(c *cluster) []*children.Child {
	i := rand.IntN(len(c.servers)) //nolint:gosec // chance is the point
	return c.servers[i : i+1]
}

func holder(c *cluster) []*children.Child     { return c.servers[c.holder() : c.holder()+1] }
func deliverer(c *cluster) []*children.Child  { return c.servers[1:2] } // one of two that have no other role
func both(c *cluster) []*children.Child       { return c.servers }
func eventStore(c *cluster) []*children.Child { return []*children.Child{c.node} }

func killed(name string, whom victims) fault {
	return fault{name: name, outage: untilWell, begin: func(c *cluster) func() {
		all := whom(c)
		for _, v := range all {
			v.Kill()
		}
		return func() {
			for _, v := range all {
				v.Start()
			}
		}
	}}
}

func stopped(name string, whom victims, lasts time.Duration) fault {
	return fault{name: name, outage: untilWell, lasts: lasts, begin: func(c *cluster) func() {
		all := whom(c)
		signal := func(s os.Signal) {
			for _, v := range all {
				v.Signal(s)
			}
		}
		signal(syscall.SIGSTOP)
		return func() { signal(syscall.SIGCONT) }
	}}
}

// cut cuts the ways of servers to the event store or to Postgres.
func cut(name string, whom victims, toStore, refuse bool, lasts time.Duration) fault {
	return fault{name: name, outage: gapDuring, lasts: lasts, begin: func(c *cluster) func() {
		var ways []*passage
		for _, v := range whom(c) {
			i := slices.Index(c.servers, v)
			if toStore {
				ways = append(ways, c.toStore[i])
			} else {
				ways = append(ways, c.toDatabase[i])
			}
		}
		for _, way := range ways {
			if refuse {
				way.refuse()
			} else {
				way.vanish()
			}
		}
		return func() {
			for _, way := range ways {
				way.mend()
			}
		}
	}}
}

// together lets two faults begin at the same time. Each ends by itself.
func together(a, b fault) fault {
	return fault{name: a.name + " + " + b.name, outage: untilWell, begin: func(c *cluster) func() {
		var group sync.WaitGroup
		group.Go(func() { a.strike(c) })
		group.Go(func() { b.strike(c) })
		return group.Wait
	}}
}

var (
	serverKilled    = killed("server killed", anyServer)
	serverStopped   = stopped("server stopped", anyServer, frozen)
	holderKilled    = killed("holder killed", holder)
	bothKilled      = killed("both servers killed", both)
	holderStopped   = stopped("holder stopped", holder, frozen)
	storeKilled     = killed("event store killed", eventStore)
	storeStopped    = stopped("event store stopped", eventStore, frozen/4)
	postgresStopped = fault{name: "postgres stopped", begin: stopPostgres, lasts: frozen, outage: untilWell}
	postgresKilled  = fault{name: "postgres killed", outage: untilWell, begin: func(c *cluster) func() {
		c.database.Kill()
		return c.database.Restart
	}}
	sessionsEnded = fault{name: "lock sessions ended", outage: untilWell, begin: func(c *cluster) func() {
		c.endSessions()
		return func() {}
	}}
	ofOne = []fault{serverKilled, storeKilled, postgresKilled}
	ofTwo = []fault{
		sessionsEnded, postgresKilled, holderStopped, serverKilled, serverStopped, holderKilled, bothKilled, storeKilled,
		storeStopped, postgresStopped,
		{name: "postgres restarted", outage: untilWell, begin: func(c *cluster) func() {
			c.database.Stop()
			return c.database.Restart
		}},
		{name: "lock sessions ended thrice", outage: untilWell, begin: func(c *cluster) func() {
			for range 2 {
				c.endSessions()
				time.Sleep(quiet)
			}
			return c.endSessions
		}},
		together(postgresKilled, serverKilled), together(postgresStopped, serverStopped),
		together(storeKilled, postgresKilled), together(sessionsEnded, holderStopped), together(storeStopped, serverKilled),
	}
)

// cuts are the ways of the holder or of both that are lost. While one server has its ways, no event waits for longer
// than others need to take over; if none has, none waits for longer after the end of the cut.
func cuts() (all []fault) {
	for _, lasts := range []time.Duration{cutFor, 90 * time.Second} {
		for _, to := range []string{"store", "postgres"} {
			for _, how := range []string{"vanish", "refuse"} {
				name := fmt.Sprintf("%%s, %s, %s, %s", to, how, lasts)
				of := func(who string, whom victims) fault {
					return cut(fmt.Sprintf(name, who), whom, to == "store", how == "refuse", lasts)
				}
				one, two := of("holder", holder), of("both", both)
				two.outage = gapAfter
				one.repeats, two.repeats = true, true
				all = append(all, one, two)
			}
		}
	}
	return all
}

// ofDeliverer are the faults of one of two deliverers, for which the other stands in.
func ofDeliverer() (all []fault) {
	all = []fault{killed("killed", deliverer), stopped("stopped", deliverer, cutFor)}
	for i := range all {
		all[i].lasts, all[i].outage = cutFor, gapDuring
	}
	for _, toStore := range []bool{true, false} {
		for _, refuse := range []bool{true, false} {
			name := fmt.Sprintf("cut, store %t, refuse %t", toStore, refuse)
			all = append(all, cut(name, deliverer, toStore, refuse, cutFor))
		}
	}
	return all
}

// taken takes all but a few of Postgres' connections, those that hold locks included, and lets go again.
func taken(left int) fault {
	return fault{
		name:    fmt.Sprintf("%d connections left", left),
		begin:   func(c *cluster) func() { return c.takeConnections(left) },
		lasts:   cutFor,
		outage:  gapAfter,
		repeats: true,
	}
}

const endSessions = `SELECT count(pg_terminate_backend(pid, 1000)) FROM pg_stat_activity
	WHERE application_name LIKE 'carillon % on %'`

func (c *cluster) endSessions() { _, _ = c.pool.Exec(c.Context(), endSessions) }

func (c *cluster) takeConnections(left int) (letGo func()) {
	c.Helper()
	var taken []*pgx.Conn
	more := func() {
		for {
			conn, err := pgx.Connect(c.Context(), c.database.URL())
			if err != nil {
				return
			}
			taken = append(taken, conn)
		}
	}
	more()
	must.True(c, len(taken) != 0, "no connection to take")
	for ended := 1; ended > 0; more() { // as often as they are faster
		must.OK(c, taken[0].QueryRow(c.Context(), endSessions).Scan(&ended))
	}
	release := func(some []*pgx.Conn) {
		for _, conn := range some {
			_ = conn.Close(c.Context())
		}
	}
	release(taken[len(taken)-left:])
	return func() { release(taken[:len(taken)-left]) }
}

// stopPostgres stops the server and all its sessions.
func stopPostgres(c *cluster) (end func()) {
	var dir string
	if err := c.pool.QueryRow(c.Context(), "SHOW data_directory").Scan(&dir); err != nil {
		return func() {} // it is away already
	}
	raw, err := os.ReadFile(filepath.Join(dir, "postmaster.pid")) //nolint:gosec // of our own server
	first, _, _ := strings.Cut(string(raw), "\n")
	master, notThere := strconv.Atoi(first)
	if err != nil || notThere != nil {
		return func() {}
	}
	family := []int{master}
	_ = syscall.Kill(master, syscall.SIGSTOP) // first, so that it makes no more children
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, _ := os.ReadFile(path) //nolint:gosec // of the kernel
		_, after, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == first {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				family = append(family, pid)
			}
		}
	}
	for _, pid := range family {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	return func() {
		for _, pid := range family {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}
