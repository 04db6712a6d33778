//go:build nightly

package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/eventstore/node"
)

// nodeChild serves an event store.
func nodeChild() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	n, err := node.Open(node.Config{Dir: os.Getenv("CHILD_DATA")})
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { _ = n.Close() })
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	if _, err := fmt.Println(listener.Addr(), listener.Addr()); err != nil {
		return err
	}
	return n.Serve(listener)
}

// apart is some servers on one event store and one Postgres, each a process of its own.
type apart struct {
	*rig

	processes []*process // the store's first
	came      *arrived
}

// newApart starts the store and a server for each list of roles. The first of them answers the API.
func newApart(b testing.TB, roles ...string) *apart {
	b.Helper()
	a := &apart{rig: prepare(b), came: &arrived{first: map[string]time.Time{}}}
	url := a.database()
	a.connect(url)
	store := run(b, childRole+"=node", "CHILD_DATA="+a.dir+"/store")
	a.processes = append(a.processes, store)
	for _, list := range roles {
		p := run(b, childRole+"=server", "CHILD_DATA="+a.dir, "CHILD_ROLES="+list, "CHILD_DATABASE="+url,
			"CHILD_STORE=esdb://"+store.api+"?tls=false")
		a.processes = append(a.processes, p)
		a.process = p
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
	if a.token, err = client.Token(); err != nil {
		a.Fatal(err)
	}
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

// BenchmarkApart: from the answer to publishing until the first request at the receiver, and the processor time of
// servers, store and Postgres for each delivery, where servers share the roles. Each event goes to four destinations.
func BenchmarkApart(b *testing.B) {
	const destinations, rounds = 4, 3
	all := "api,project,dispatch,deliver,collect"
	for _, row := range []struct {
		name  string
		roles []string
	}{
		{"one", []string{all}},
		{"two", []string{all, all}},
		{"apart", []string{"api,project,collect", "dispatch", "deliver"}},
	} {
		b.Run(row.name, func(b *testing.B) {
			a := newApart(b, row.roles...)
			a.login()
			a.receive(a.came, destinations)
			published := 0
			do := func(rate, n int) []time.Duration {
				published += n
				return a.publish(rate, n, destinations*published)
			}
			do(50, 150) // until all have come to rest from their start
			for _, rate := range []int{25, 100, 300} {
				n := min(size("DELIVERIES", 5000)/destinations, 4*rate)
				var p50, p99, each []float64
				for range rounds {
					before := a.processorTimes()
					took := do(rate, n)
					slices.Sort(took)
					p50, p99 = append(p50, milliseconds(took[n/2])), append(p99, milliseconds(took[n*99/100]))
					parts := make([]float64, len(before))
					all := 0.0
					for i, now := range a.processorTimes() {
						parts[i] = milliseconds(now-before[i]) / float64(destinations*n)
						all += parts[i]
					}
					each = append(each, all)
					b.Logf("at %d/s: ms for each delivery of Postgres, the store and the servers: %.3f", rate, parts)
				}
				for metric, values := range map[string][]float64{"p50-ms": p50, "p99-ms": p99, "cpu-ms/delivery": each} {
					slices.Sort(values)
					report(b, fmt.Sprintf("%s-at-%d/s", metric, rate), values[rounds/2])
				}
			}
			a.came.mu.Lock()
			defer a.came.mu.Unlock()
			if a.came.all != destinations*published {
				b.Errorf("%d requests for %d deliveries", a.came.all, destinations*published)
			}
		})
	}
}
