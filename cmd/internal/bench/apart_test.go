//go:build nightly

package bench

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/cmd/internal/suite/children"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// apart is some servers on one event store and one Postgres, each a process of its own.
type apart struct {
	*rig

	processes []*process // the store's first
	came      *arrived
}

// newApart starts the store with some variables, and a server for each list of roles. The first of them answers the
// API.
func newApart(b testing.TB, env []string, roles ...string) *apart {
	b.Helper()
	a := &apart{rig: prepare(b), came: &arrived{first: map[string]time.Time{}}}
	url := a.database()
	a.connect(url)
	store, address := children.StartNode(b, a.dir, env...)
	a.processes = append(a.processes, &process{b: b, Child: store})
	for _, list := range roles {
		a.processes = append(a.processes, run(b, a.dir, address, url, "CHILD_ROLES="+list))
	}
	a.process = a.processes[1]
	return a
}

// login waits until all is ready, and takes the keys that the process with the API has made.
func (a *apart) login() {
	a.Helper()
	for _, a.process = range slices.Backward(a.processes[1:]) {
		a.until("ready", a.ready)
	}
	var err error
	a.until("it has a key", func() bool {
		a.key, err = dev.ReadKey(a.dir)
		return err == nil
	})
	client := config.Client{DataDir: a.dir}
	a.token = must.Get(client.Token())(a)
}

// receive makes destinations that want everything. The servers end before what they send to.
func (a *apart) receive(handler http.Handler, destinations int) {
	a.Helper()
	url := a.listen(handler, nil)
	a.Cleanup(func() {
		for _, p := range a.processes[1:] {
			p.stop()
		}
	})
	for i := range destinations {
		a.destination(a.key, fmt.Sprint(url, "/", i), "*")
	}
}

// processorTimes are what Postgres, the store and each server have had.
func (a *apart) processorTimes() []time.Duration {
	used := []time.Duration{a.postgres.Postgres()}
	for _, p := range a.processes {
		used = append(used, p.processorTime())
	}
	return used
}

// arrived is a receiver that notes when each event came first, and how many requests there were.
type arrived struct {
	mu    sync.Mutex
	first map[string]time.Time
	all   int
}

// ServeHTTP implements http.Handler.
func (a *arrived) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	body, err := io.ReadAll(r.Body)
	w.WriteHeader(http.StatusNoContent)
	if err != nil || r.Method != http.MethodPost {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all++
	if _, came := a.first[eventOf(body)]; !came {
		a.first[eventOf(body)] = now
	}
}

// publish publishes at a rate, and returns how long after its answer each event came, once all is recorded as
// succeeded.
func (a *apart) publish(rate, n, recorded int) (took []time.Duration) {
	a.Helper()
	var (
		mu         sync.Mutex
		publishing sync.WaitGroup
		answered   = map[string]time.Time{}
	)
	for i, began := 0, time.Now(); i < n; i++ {
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		publishing.Go(func() {
			id := uuid.New()
			if err := a.rig.publish(asJSON, bytes.NewReader(event(id, organization))); err != nil {
				a.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			answered[id.String()] = time.Now()
		})
	}
	publishing.Wait()
	a.succeeded(recorded)
	a.came.mu.Lock()
	defer a.came.mu.Unlock()
	for id, at := range answered {
		took = append(took, max(0, a.came.first[id].Sub(at)))
	}
	return took
}

// BenchmarkApart measures what a delivery costs Postgres, the store and the servers, its delay from the answer to
// publishing until the first request at the receiver, and the sessions of Postgres, where servers with all roles, or
// with some each, share one store and one Postgres. Each event goes to four destinations; on stores that cost as much
// as a real server, to one or ten.
func BenchmarkApart(b *testing.B) {
	const rounds = 3
	roles := map[string][]string{"apart": {"api,project,collect", "dispatch", "deliver"}}
	for _, n := range []int{1, 2, 4, 8} {
		roles[fmt.Sprint("processes=", n)] = slices.Repeat([]string{"api,project,dispatch,deliver,collect"}, n)
	}
	costly := map[string]int{"costly/destinations=1": 1, "costly/destinations=10": 10}
	for name := range costly {
		roles[name] = roles["processes=1"]
	}
	for _, name := range slices.Sorted(maps.Keys(roles)) {
		b.Run(name, func(b *testing.B) {
			destinations, env := 4, []string(nil)
			if n := costly[name]; n > 0 {
				destinations, env = n, []string{"CARILLON_TEST_STRICT=25.0", "CARILLON_TEST_COSTLY=yes"}
			}
			a := newApart(b, env, roles[name]...)
			a.login()
			a.receive(a.came, destinations)
			published := 0
			// do publishes and returns the processor time of a delivery in ms: in all, of Postgres, the store and servers.
			do := func(n int, publish func(recorded int)) (parts [4]float64) {
				before := a.processorTimes()
				published += n
				publish(destinations * published)
				for i, now := range a.processorTimes() {
					each := milliseconds(now-before[i]) / float64(destinations*n)
					parts[0] += each
					parts[min(i+1, 3)] += each
				}
				return parts
			}
			reportParts := func(at string, parts [4]float64) {
				for i, part := range []string{"", "-postgres", "-store", "-servers"} {
					report(b, "cpu-ms/delivery"+part+"-"+at, parts[i])
				}
			}
			do(150, func(recorded int) { a.publish(50, 150, recorded) }) // until all have come to rest from their start
			for _, rate := range []int{25, 100, 300} {
				n := min(size("DELIVERIES", 5000)/destinations, 4*rate)
				var p50, p99 []float64
				var parts [][4]float64
				for range rounds {
					parts = append(parts, do(n, func(recorded int) {
						took := a.publish(rate, n, recorded)
						slices.Sort(took)
						p50, p99 = append(p50, milliseconds(took[n/2])), append(p99, milliseconds(took[n*99/100]))
					}))
				}
				slices.Sort(p50)
				slices.Sort(p99)
				slices.SortFunc(parts, func(a, b [4]float64) int { return cmp.Compare(a[0], b[0]) })
				report(b, fmt.Sprintf("p50-ms-at-%d/s", rate), p50[rounds/2])
				report(b, fmt.Sprintf("p99-ms-at-%d/s", rate), p99[rounds/2])
				reportParts(fmt.Sprintf("at-%d/s", rate), parts[rounds/2])
			}
			report(b, "sessions", float64(a.count(
				"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")))
			began, n := time.Now(), size("DELIVERIES", 5000)/destinations
			reportParts("full", do(n, func(recorded int) { a.flood(n); a.succeeded(recorded) }))
			report(b, "deliveries/s-full", float64(destinations*n)/time.Since(began).Seconds())
			a.came.mu.Lock()
			defer a.came.mu.Unlock()
			assert.Equal(b, a.came.all, destinations*published, "requests for deliveries")
		})
	}
}
