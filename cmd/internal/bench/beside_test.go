//go:build nightly

package bench

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// BenchmarkServedBeside measures how long fresh deliveries, retries, replays and backfills of one organization take,
// alone, and beside destinations that hang (they answer after 29 s): 40 of its own and of another organization, which
// answered at once until then and so may have the most requests in flight, and 600 of another one. It is measured for
// 15 s from when all hang that can at one time, at 30 events a second, of which each also fails once, a replay for each
// five, and a backfill of 120 every three seconds. Deliveries while they begin to hang are reported as "first".
func BenchmarkServedBeside(b *testing.B) {
	alone := map[string]time.Duration{}
	for _, crowd := range []crowd{{}, {40, 90, true, true}, {40, 90, false, true}, {600, 10, false, false}} {
		of := "others"
		if crowd.own {
			of = "own"
		}
		b.Run(fmt.Sprintf("hanging=%d,of=%s", crowd.destinations, of), func(b *testing.B) {
			r := newRig(b, 0)
			w := &neighbour{
				rig:  r,
				due:  map[string]due{},
				took: map[string][]time.Duration{},
				came: map[string]string{},
			}
			w.url = r.listen(w, nil)
			r.Cleanup(func() { r.stop() }) // before what it sends to
			for _, path := range []string{"/fresh", "/refused"} {
				r.destination(r.key, w.url+path, "news.*")
			}
			w.publishing(3*time.Second, "first") // connections, and the server's rest after its start
			w.settle()
			clear(w.took)
			report(b, "hanging", float64(w.hang(crowd)))
			before, wait := r.cost(), r.profile(15)
			w.run(15 * time.Second)
			r.reportCost(before, 15, "s")
			for _, kind := range []string{"first", "fresh", "retry", "replay", "backfill"} {
				p99 := reportQuantiles(b, kind+"-", w.took[kind])
				reportOfAlone(b, kind+"-", p99, alone[kind])
				if crowd.destinations == 0 {
					alone[kind] = p99
				}
			}
			wait()
		})
	}
}

// crowd is many destinations that hang, and the events for each of them.
type crowd struct {
	destinations, events int
	own                  bool // of the organization that is timed
	quick                bool // they answered until then
}

// neighbour is an organization whose deliveries are timed, each from when it is due to its arrival.
type neighbour struct {
	*rig
	url string

	mu   sync.Mutex
	due  map[string]due             // by path and event
	took map[string][]time.Duration // by kind
	came map[string]string          // webhook-id of fresh deliveries, by event
}

type due struct {
	kind string
	at   time.Time
}

// knownFor is how long events are published that are replayed and backfilled afterwards.
const knownFor = 4 * time.Second

// refusedFor is the Retry-After of a refusal: longer than the first wait of the schedule ever is.
const refusedFor = 7 * time.Second

// expect makes an event due at a path now.
func (w *neighbour) expect(kind, path, event string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due[path+event] = due{kind, time.Now()}
}

func (w *neighbour) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		return // the probe
	}
	now := time.Now()
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	event := eventOf(body)
	w.mu.Lock()
	defer w.mu.Unlock()
	key := request.URL.Path + event
	expected, found := w.due[key]
	delete(w.due, key)
	if found {
		w.took[expected.kind] = append(w.took[expected.kind], now.Sub(expected.at))
	}
	switch {
	case request.URL.Path == "/fresh":
		w.came[event] = request.Header.Get("webhook-id")
	case expected.kind == "refused":
		w.due[key] = due{"retry", now.Add(refusedFor)}
		answer.Header().Set("Retry-After", fmt.Sprint(int(refusedFor.Seconds())))
		answer.WriteHeader(http.StatusBadGateway) // 503 would pause the destination
	}
}

// publishing publishes 30 events a second for a while, of which each arrives and is refused once.
func (w *neighbour) publishing(d time.Duration, kind string) (events []string) {
	var sending sync.WaitGroup
	defer sending.Wait()
	ticker := time.NewTicker(time.Second / 30)
	defer ticker.Stop()
	for began := time.Now(); time.Since(began) < d; <-ticker.C {
		id := uuid.New()
		events = append(events, id.String())
		w.expect(kind, "/fresh", id.String())
		w.expect("refused", "/refused", id.String())
		sending.Go(func() {
			if err := w.publish(asJSON, bytes.NewReader(event(id, organization))); err != nil {
				w.Error(err)
			}
		})
	}
	return events
}

// settle waits until everything due has come.
func (w *neighbour) settle() {
	for left := 1; left > 0; time.Sleep(10 * time.Millisecond) {
		w.mu.Lock()
		left = len(w.due)
		w.mu.Unlock()
	}
}

// run measures, with replays and backfills of the first events.
func (w *neighbour) run(d time.Duration) {
	w.Helper()
	window := map[string]time.Time{"since": time.Now().Truncate(time.Millisecond)}
	events := w.publishing(knownFor, "fresh")
	window["until"] = time.Now()
	var others sync.WaitGroup
	others.Go(func() {
		for i := range int((d - knownFor).Seconds()) * 6 {
			w.replay(events[i%len(events)])
			time.Sleep(time.Second / 6)
		}
	})
	others.Go(func() {
		for i := range int((d - knownFor).Seconds()) / 3 {
			w.backfill(fmt.Sprint("/backfill/", i), events, window)
			time.Sleep(3 * time.Second)
		}
	})
	w.publishing(d-knownFor, "fresh")
	others.Wait()
	w.settle()
}

func (w *neighbour) replay(event string) {
	w.mu.Lock()
	id := w.came[event]
	w.mu.Unlock()
	w.expect("replay", "/fresh", event)
	if err := w.post("/events/deliveries/"+id+"/replay", nil, nil); err != nil {
		w.Error(err)
	}
}

// backfill brings a new destination the events of a window.
func (w *neighbour) backfill(path string, events []string, window map[string]time.Time) {
	id := w.destination(w.key, w.url+path, "news.item.*").ID
	for _, event := range events {
		w.expect("backfill", path, event)
	}
	if err := w.post("/events/destinations/"+id+"/backfill", window, nil); err != nil {
		w.Error(err)
	}
}

// hang makes a crowd, publishes to it, and times fresh deliveries meanwhile, until no more begin to hang. It returns
// how many requests do.
func (w *neighbour) hang(c crowd) (hanging int64) {
	w.Helper()
	if c.destinations == 0 {
		return 0
	}
	theirs, key := organization, w.key
	if !c.own {
		theirs, key = w.tenant()
	}
	w.receiver.quick.Store(c.quick)
	for i := range c.destinations {
		w.destination(key, fmt.Sprint(w.receiver.url, "/late/", i), "factcheck.*")
	}
	crowded := func(n int) {
		var lines bytes.Buffer
		for range n {
			_, _ = fmt.Fprintf(&lines,
				`{"id":"%s","type":"factcheck.status.changed","source":"/bench","subject":"check/7","organizationId":"%s",`+
					`"data":{"id":"7","status":"completed"}}`+"\n", uuid.New(), theirs)
		}
		if err := w.publish(asNDJSON, &lines); err != nil {
			w.Fatal(err)
		}
	}
	if c.quick {
		crowded(100)
		for w.count("SELECT coalesce(sum(succeeded), 0) FROM deliveries.tallies WHERE type LIKE 'factcheck%'") < 100*
			c.destinations {
			time.Sleep(50 * time.Millisecond)
		}
		w.receiver.quick.Store(false)
	}
	crowded(c.events)
	for hanging = -1; ; {
		w.publishing(time.Second, "first")
		now := w.receiver.late.Load()
		if now == hanging {
			return hanging
		}
		hanging = now
	}
}
