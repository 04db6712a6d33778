//go:build nightly

package app_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/dev"
	"carillon/projections/pgtest"
)

const (
	frozen     = 12 * time.Second       // how long what is stopped stays stopped: longer than others wait for it
	longOutage = 10 * time.Second       // after the end of a fault
	waiting    = 200                    // deliveries that wait for their retry meanwhile
	publishers = 4                      // …
	pace       = 20 * time.Millisecond  // of each
	inFlight   = 32                     // at most, of so few publishers
	quiet      = 500 * time.Millisecond // between two faults
)

// Two processes on one Postgres and one event store. Each fault is named after its effect, and ends when it returns.
// Publishers try again under the same id until they are answered.
func TestTortureDeliveryOfTwo(t *testing.T) {
	t.Parallel()
	two := newTwo(t)
	faults := two.faults()
	names := []string{"lock sessions ended", "postgres killed"}
	if n, err := strconv.Atoi(os.Getenv("CARILLON_TORTURE_KILLS")); err == nil {
		names = slices.Sorted(maps.Keys(faults))
		for len(names) < n {
			names = append(names, names[:min(len(names), n-len(names))]...)
		}
		rand.Shuffle(len(names), func(i, j int) {
			names[i], names[j] = names[j], names[i]
		}) //nolint:gosec // chance is the point
		names = names[:n]
	}
	if only := os.Getenv("CARILLON_TORTURE_ONLY"); only != "" {
		names = strings.Split(only, ",")
	}
	before := two.schedules()
	stop := two.publish()
	results := map[string]*damage{}
	for _, name := range names {
		time.Sleep(quiet) // between two faults there is nothing to wait for
		if results[name] == nil {
			results[name] = &damage{}
		}
		results[name].add(two.suffer(name, faults[name]))
	}
	stop()
	lost := two.settle(patience)
	two.report(names, results, lost)
	var after map[string]string
	two.eventually("the schedules can't be read", func() bool { // Postgres may just be coming up
		after = two.schedules()
		return after != nil
	})
	if !maps.Equal(before, after) {
		moved := 0
		for id, schedule := range before {
			if after[id] != schedule {
				moved++
			}
		}
		t.Errorf("%d of %d retries were moved", moved, len(before))
	}
}

// damage is the effect of faults of one kind.
type damage struct {
	times, again int
	outage       time.Duration // the longest
}

func (d *damage) add(again int, outage time.Duration) {
	d.times++
	d.again += again
	d.outage = max(d.outage, outage)
}

// two are two processes with their stores, published events and received webhooks.
type two struct {
	*workload
	database *pgtest.Server
	pool     *pgxpool.Pool
	node     *child
	servers  []*child
	admins   []string
	// stores and databases are the ways of each server, if they can be cut.
	stores, databases []*passage

	mu      sync.Mutex
	tried   map[string]time.Time // by event id: first
	told    map[string]time.Time // acknowledged
	arrived map[string]time.Time // first
	copies  int                  // requests beyond the first of each delivery
}

func newTwo(t *testing.T) *two {
	t.Helper()
	return newTwoOn(t, false)
}

// newTwoOn starts two servers, whose connections to their stores can be cut if asked for. If roles are named, it starts
// a server with each.
func newTwoOn(t *testing.T, severable bool, roles ...string) *two {
	t.Helper()
	dir, err := os.MkdirTemp("", "torture")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	w := &two{
		database: pgtest.NewServer(t),
		tried:    map[string]time.Time{},
		told:     map[string]time.Time{},
		arrived:  map[string]time.Time{},
	}
	w.pool = w.database.Pool()
	data := filepath.Join(dir, "data")
	child, node := startNodeChild(t, dir)
	w.node = child
	if roles == nil {
		roles = []string{"", ""}
	}
	var first string
	for i, of := range roles {
		toStore, toDatabase := node, w.database.URL()
		if severable {
			w.stores = append(w.stores, newPassage(t, "tcp", strings.TrimSuffix(strings.TrimPrefix(node, "esdb://"),
				"?tls=false")))
			w.databases = append(w.databases, newPassageToPostgres(t, w.database.URL()))
			toStore, toDatabase = "esdb://"+w.stores[i].address+"?tls=false", through(w.databases[i], w.database.URL())
		}
		server, api, admin := startServerChild(t, data, toStore, toDatabase, "CHILD_RETRY=1h", "CHILD_ROLES="+of)
		w.admins = append(w.admins, admin)
		w.servers = append(w.servers, server)
		if i == 0 {
			first = api
			w.workload = newWorkload(t, data, api, admin)
		}
	}
	w.failing(first, data)
	w.onArrival = w.arrives
	for _, admin := range w.admins[1:] {
		w.eventually("a server did not come up", func() bool { return ready(t, admin) })
	}
	return w
}

// ready reports whether a server is.
func ready(t *testing.T, admin string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, admin+"/readyz", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := impatient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	return response.StatusCode == http.StatusOK
}

// failing makes deliveries that wait for their retry: a destination that answers 500, and events for it alone.
func (w *two) failing(api, data string) {
	w.Helper()
	key, err := dev.ReadKey(data)
	if err != nil {
		w.Fatal(err)
	}
	authority, err := dev.EnsureAuthority(data)
	if err != nil {
		w.Fatal(err)
	}
	certificate, err := authority.Certificate()
	if err != nil {
		w.Fatal(err)
	}
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body)
		answer.WriteHeader(http.StatusInternalServerError)
	}))
	receiver.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	receiver.StartTLS()
	w.Cleanup(receiver.Close)
	var destination struct {
		ID string `json:"id"`
	}
	w.eventually("no failing destination", func() bool {
		return w.post(api+"/events/destinations", key, map[string]any{
			"name":   "fails",
			"config": map[string]any{"url": receiver.URL},
		}, &destination) == nil
	})
	w.eventually("no subscription of the failing destination", func() bool {
		return w.post(api+"/events/destinations/"+destination.ID+"/subscriptions", key,
			map[string]any{"eventTypes": []string{"research.*"}, "scopeKind": "all"}, nil) == nil
	})
	for range waiting {
		id := uuid.NewString()
		w.eventually("not published", func() bool {
			return w.post(w.admins[0]+"/admin/events", w.token, map[string]any{
				"id": id, "type": "research.status.changed", "source": "/torture", "organizationId": organization.String(),
				"data": map[string]any{"id": id, "status": "completed"},
			}, nil) == nil
		})
	}
	w.eventually("the retries are not all planned", func() bool { return len(w.schedules()) == waiting })
}

// schedules lists the deliveries that wait for their second attempt or a later one, each with its number and time.
func (w *two) schedules() map[string]string {
	w.Helper()
	rows, err := w.pool.Query(w.Context(), `SELECT d.id::text, d.attempts || ' attempts, next ' || u.due_at
		FROM deliveries.due u JOIN deliveries.deliveries d ON d.id = u.id WHERE d.attempts > 0 AND d.type LIKE 'research.%'`)
	planned := map[string]string{}
	var id, schedule string
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&id, &schedule}, func() error { planned[id] = schedule; return nil })
	}
	if err != nil {
		return nil // not there yet
	}
	return planned
}

// arrives is called for each request that comes.
func (w *two) arrives(event string, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if first {
		w.arrived[event] = time.Now()
	} else {
		w.copies++
	}
}

// publish publishes until stopped. Each event is tried until either server acknowledges it.
func (w *two) publish() (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var group sync.WaitGroup
	for n := range publishers {
		group.Go(func() {
			for ctx.Err() == nil {
				id := uuid.NewString()
				event := map[string]any{
					"id": id, "type": "news.item.added", "source": "/torture", "organizationId": organization.String(),
					"data": map[string]any{"id": id, "title": "Storm"},
				}
				w.mu.Lock()
				w.tried[id] = time.Now()
				w.mu.Unlock()
				for try := n; ; try++ {
					if w.post(w.admins[try%len(w.admins)]+"/admin/events", w.token, event, nil) == nil {
						break
					}
					time.Sleep(pace) // before the other server is asked
				}
				w.mu.Lock()
				w.told[id] = time.Now()
				w.mu.Unlock()
				time.Sleep(pace) // limits the rate
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
	}
}

// suffer lets a fault happen, and waits until all is well again: an event that is new after its end has come, and so
// has all that was tried before.
func (w *two) suffer(name string, fault func()) (again int, outage time.Duration) {
	w.mu.Lock()
	copies := w.copies
	w.mu.Unlock()
	fault()
	ended := time.Now()
	for !w.well(ended) {
		if time.Since(ended) > patience {
			w.Errorf("%s: no end of the outage", name)
			break
		}
		time.Sleep(10 * time.Millisecond) // between two looks
	}
	outage = time.Since(ended)
	w.mu.Lock()
	defer w.mu.Unlock()
	if asked := os.Getenv("CARILLON_TORTURE_KILLS") != ""; asked && outage > longOutage { // else other tests run beside it
		w.Errorf("%s: an outage of %s after its end", name, outage.Round(time.Millisecond))
	}
	if again = w.copies - copies; again > inFlight {
		w.Errorf("%s: %d requests came again, more than were in flight", name, again)
	}
	w.Logf("%-40s again %3d  outage %6s", name, again, outage.Round(time.Millisecond))
	return again, outage
}

// settle counts what was acknowledged and does not come.
func (w *two) settle(patience time.Duration) (lost int) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		w.mu.Lock()
		lost = 0
		for id := range w.told {
			if _, came := w.arrived[id]; !came {
				lost++
			}
		}
		w.mu.Unlock()
		if lost == 0 {
			break
		}
	}
	return lost
}

func (w *two) report(names []string, results map[string]*damage, lost int) {
	w.Helper()
	var table strings.Builder
	all := damage{}
	fmt.Fprintf(&table, "%-40s %6s %6s %10s\n", "FAULT", "TIMES", "AGAIN", "OUTAGE")
	for _, name := range slices.Sorted(maps.Keys(results)) {
		r := results[name]
		fmt.Fprintf(&table, "%-40s %6d %6d %10s\n", name, r.times, r.again, r.outage.Round(10*time.Millisecond))
		all.add(r.again, r.outage)
	}
	w.Logf("%d faults; %d events acknowledged; lost %d, again %d, longest outage %s; %d retries waited\n%s",
		len(names), len(w.told), lost, all.again, all.outage.Round(10*time.Millisecond), waiting, table.String())
	if lost > 0 {
		w.Errorf("%d acknowledged events were not delivered", lost)
	}
}

// faults are what happens to the two, by name.
func (w *two) faults() map[string]func() {
	server := func() *child { return w.servers[rand.IntN(2)] } //nolint:gosec // chance is the point
	single := map[string]func(){
		"server killed":       func() { s := server(); s.kill(); s.start() },
		"server stopped":      func() { w.stopped(server()) },
		"holder stopped":      func() { w.stopped(w.holder()) },
		"holder killed":       func() { s := w.holder(); s.kill(); s.start() },
		"postgres killed":     func() { w.database.Kill(); w.database.Restart() },
		"postgres restarted":  func() { w.database.Stop(); w.database.Restart() },
		"postgres stopped":    w.postgresStopped,
		"lock sessions ended": w.endSessions,
		"event store killed":  func() { w.node.kill(); w.node.start() },
		"event store stopped": func() {
			w.node.signal(syscall.SIGSTOP)
			time.Sleep(frozen / 4)
			w.node.signal(syscall.SIGCONT)
		},
		"both servers killed": func() { w.both(func(s *child) { s.kill(); s.start() }) },
		"sessions ended thrice": func() {
			w.endSessions()
			time.Sleep(quiet)
			w.endSessions()
			time.Sleep(quiet)
			w.endSessions()
		},
	}
	faults := maps.Clone(single)
	for _, pair := range [][2]string{
		{"postgres killed", "server killed"}, {"postgres stopped", "server stopped"},
		{"event store killed", "postgres killed"},
		{"lock sessions ended", "holder stopped"}, {"event store stopped", "server killed"},
	} {
		faults[pair[0]+" + "+pair[1]] = func() {
			var group sync.WaitGroup
			group.Go(single[pair[0]])
			group.Go(single[pair[1]])
			group.Wait()
		}
	}
	return faults
}

func (w *two) stopped(s *child) {
	s.signal(syscall.SIGSTOP)
	time.Sleep(frozen)
	s.signal(syscall.SIGCONT)
}

func (w *two) both(do func(*child)) {
	var group sync.WaitGroup
	for _, s := range w.servers {
		group.Go(func() { do(s) })
	}
	group.Wait()
}

// holder is the server that runs the dispatcher.
func (w *two) holder() *child {
	process := dispatching(w.Context(), w.pool)
	for _, s := range w.servers {
		s.mu.Lock()
		pid := s.process.Pid
		s.mu.Unlock()
		if strings.HasSuffix(process, ":"+strconv.Itoa(pid)) {
			return s
		}
	}
	return w.servers[0]
}

func (w *two) endSessions() {
	_, _ = w.pool.Exec(w.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE application_name LIKE 'carillon % on %'`)
}

// postgresStopped stops the server and all its sessions for a while.
func (w *two) postgresStopped() {
	var dir string
	if err := w.pool.QueryRow(w.Context(), "SHOW data_directory").Scan(&dir); err != nil {
		return // it is away already
	}
	raw, err := os.ReadFile(filepath.Join(dir, "postmaster.pid")) //nolint:gosec // of our own server
	if err != nil {
		return
	}
	first, _, _ := strings.Cut(string(raw), "\n")
	master, err := strconv.Atoi(first)
	if err != nil {
		return
	}
	family := []int{master}
	_ = syscall.Kill(master, syscall.SIGSTOP) // first, so that it makes no more children
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		stat, err := os.ReadFile(path) //nolint:gosec // of the kernel
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(after)
		if len(fields) > 1 && fields[1] == first {
			if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
				family = append(family, pid)
			}
		}
	}
	for _, pid := range family {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
	time.Sleep(frozen)
	for _, pid := range family {
		_ = syscall.Kill(pid, syscall.SIGCONT)
	}
}
