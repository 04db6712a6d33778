package app_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/dev"
)

// BenchmarkServedBeside: how long fresh deliveries, retries, replays and backfills of one organization take, alone, and
// beside destinations that hang (they answer after 29 s): 40 of its own and of another organization, which answered at once
// until then and so may have the most requests under way, and 600 of another one. It is measured for 15 s from when all hang
// that can at one time, at 30 events a second, of which each also fails once, a replay for each five, and a backfill of
// 120 every three seconds. What comes while they begin to hang is told apart, as "first".
func BenchmarkServedBeside(b *testing.B) {
	alone := map[string]time.Duration{}
	for _, crowd := range []struct {
		destinations, events int
		own, quick           bool
	}{{}, {40, 90, true, true}, {40, 90, false, true}, {600, 10, false, false}} {
		of := "others"
		if crowd.own {
			of = "own"
		}
		b.Run(fmt.Sprintf("hanging=%d,of=%s", crowd.destinations, of), func(b *testing.B) {
			if b.N == 1 {
				return // that is only to find out how long it takes
			}
			o := newOutside(b, 0)
			n := newNeighbourhood(o)
			n.first(3 * time.Second) // connections, and the server's rest after its start
			n.forget()
			hanging := 0
			if crowd.destinations > 0 {
				hanging = n.hang(crowd.destinations, crowd.events, crowd.own, crowd.quick)
			}
			b.ResetTimer()
			began, before, wait := time.Now(), o.cost(), o.profile(15)
			n.run(15 * time.Second)
			now, seconds := o.cost(), time.Since(began).Seconds()
			b.StopTimer()
			b.ReportMetric(float64((now.server-before.server).Milliseconds())/seconds, "server-cpu-ms/s")
			b.ReportMetric(float64((now.postgres-before.postgres).Milliseconds())/seconds, "postgres-cpu-ms/s")
			b.ReportMetric(float64(hanging), "hanging")
			n.report(alone)
			wait()
		})
	}
}

// neighbourhood is an organization whose deliveries are timed, each from when it is due to its arrival.
type neighbourhood struct {
	*outside
	key, url string

	mu   sync.Mutex
	due  map[string]due
	took map[string][]time.Duration // by kind
	came map[string]string          // webhook-id of fresh deliveries, by event
}

type due struct {
	kind string
	at   time.Time
}

// knownFor is how long what is published is replayed and backfilled afterwards.
const knownFor = 4 * time.Second

// refusedFor is what a refused delivery is told to wait: longer than the first wait of the schedule ever is.
const refusedFor = 7 * time.Second

func newNeighbourhood(o *outside) *neighbourhood {
	o.Helper()
	w := &neighbourhood{outside: o, due: map[string]due{}, took: map[string][]time.Duration{}, came: map[string]string{}}
	authority, err := dev.EnsureAuthority(o.dir)
	if err != nil {
		o.Fatal(err)
	}
	certificate, err := authority.Certificate()
	if err != nil {
		o.Fatal(err)
	}
	server := httptest.NewUnstartedServer(w)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	o.Cleanup(server.Close)
	w.url = server.URL
	if w.key, err = dev.ReadKey(o.dir); err != nil {
		o.Fatal(err)
	}
	o.Cleanup(o.stop) // before what it sends to
	for _, path := range []string{"/fresh", "/refused"} {
		w.destination(path, "news.*")
	}
	return w
}

// destination makes one at a path of the receiver.
func (w *neighbourhood) destination(path, types string) (id string) {
	w.Helper()
	return subscribed(w.outside, w.key, w.url+path, types)
}

func subscribed(o *outside, key, url, types string) (id string) {
	o.Helper()
	d, err := post(o.api, key, "/events/destinations", map[string]any{"name": "bench", "config": map[string]any{"url": url}})
	if err == nil {
		_, err = post(o.api, key, "/events/destinations/"+d.ID+"/subscriptions", map[string]any{"eventTypes": []string{types}, "scopeKind": "all"})
	}
	if err != nil {
		o.Error(err)
	}
	return d.ID
}

// expect says that an event is due at a path now.
func (w *neighbourhood) expect(kind, path, event string, at time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.due[path+event] = due{kind, at}
}

func (w *neighbourhood) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		return // the probe
	}
	now := time.Now()
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return
	}
	event := string(body[7:43]) // {"id":"<uuid>"
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
		answer.WriteHeader(http.StatusServiceUnavailable)
	}
}

// first publishes for a while, and waits until all has come.
func (w *neighbourhood) first(d time.Duration) { w.publishing(d, "first"); w.settle() }

// publishing publishes 30 events a second for a while, of which each arrives and is refused once.
func (w *neighbourhood) publishing(d time.Duration, kind string) (events []string) {
	var sending sync.WaitGroup
	defer sending.Wait()
	ticker := time.NewTicker(time.Second / 30)
	defer ticker.Stop()
	for began := time.Now(); time.Since(began) < d; <-ticker.C {
		id := uuid.New()
		events = append(events, id.String())
		w.expect(kind, "/fresh", id.String(), time.Now())
		w.expect("refused", "/refused", id.String(), time.Now())
		sending.Go(func() {
			if err := w.send("application/json", bytes.NewReader(event(id))); err != nil {
				w.Error(err)
			}
		})
	}
	return events
}

// settle waits until all that is due has come.
func (w *neighbourhood) settle() {
	w.Helper()
	left := 0
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		w.mu.Lock()
		left = len(w.due)
		w.mu.Unlock()
		if left == 0 {
			return
		}
	}
	w.Fatalf("%d deliveries did not come", left)
}

// run measures, with replays and backfills of what came just before.
func (w *neighbourhood) run(d time.Duration) {
	w.Helper()
	window := map[string]time.Time{"since": time.Now().Truncate(time.Millisecond)}
	events := w.publishing(knownFor, "fresh")
	window["until"] = time.Now()
	var others sync.WaitGroup
	others.Go(func() {
		ticker := time.NewTicker(time.Second / 6)
		defer ticker.Stop()
		for began, i := time.Now(), 0; time.Since(began) < d-knownFor; i++ {
			w.replay(events[i%len(events)])
			<-ticker.C
		}
	})
	others.Go(func() {
		ticker := time.NewTicker(3 * time.Second)
		defer ticker.Stop()
		for began, i := time.Now(), 0; time.Since(began) < d-knownFor; i++ {
			w.backfill(fmt.Sprint("/backfill/", i), events, window)
			<-ticker.C
		}
	})
	w.publishing(d-knownFor, "fresh")
	others.Wait()
	w.settle()
}

func (w *neighbourhood) replay(event string) {
	w.mu.Lock()
	id := w.came[event]
	w.mu.Unlock()
	w.expect("replay", "/fresh", event, time.Now())
	if err := w.ask("/events/deliveries/"+id+"/replay", ""); err != nil {
		w.mu.Lock()
		delete(w.due, "/fresh"+event)
		w.mu.Unlock()
		w.Error(err)
	}
}

// backfill brings a new destination events that were published in a window.
func (w *neighbourhood) backfill(path string, events []string, window map[string]time.Time) {
	id := w.destination(path, "news.item.*")
	for _, event := range events {
		w.expect("backfill", path, event, time.Now())
	}
	body, err := json.Marshal(window)
	if err == nil {
		err = w.ask("/events/destinations/"+id+"/backfill", string(body))
	}
	if err != nil {
		w.Error(err)
	}
}

func (w *neighbourhood) ask(path, body string) error {
	request, err := http.NewRequestWithContext(w.Context(), http.MethodPost, "http://"+w.api+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+w.key)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := w.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %d %s", path, response.StatusCode, answer)
	}
	return err
}

// hang makes a crowd, publishes to it, and watches what is due meanwhile, until no more begin to hang. It
// returns how many requests do.
func (w *neighbourhood) hang(destinations, events int, own, quick bool) (hanging int) {
	w.Helper()
	theirs, key := organization, w.key
	if !own {
		theirs, key = w.tenant()
	}
	w.receiver.quick.Store(quick)
	var making sync.WaitGroup
	for worker := range 8 {
		making.Go(func() {
			for i := worker; i < destinations; i += 8 {
				subscribed(w.outside, key, fmt.Sprint(w.receiver.url, "/late/", i), "factcheck.*")
			}
		})
	}
	making.Wait()
	crowded := func(n int) {
		var lines bytes.Buffer
		for range n {
			_, _ = fmt.Fprintf(&lines, `{"id":"%s","type":"factcheck.status.changed","source":"/bench","subject":"check/7","organizationId":"%s","data":{"id":"7","status":"completed"}}`+"\n", uuid.New(), theirs)
		}
		if err := w.send("application/x-ndjson", &lines); err != nil {
			w.Fatal(err)
		}
	}
	if quick {
		crowded(100)
		w.recordedOf(100 * destinations)
		w.receiver.quick.Store(false)
	}
	crowded(events)
	hung := int64(-1)
	for {
		w.publishing(time.Second, "first")
		now := w.receiver.late.Load()
		if now == hung {
			break
		}
		hung = now
	}
	return int(hung)
}

// recordedOf waits until so many deliveries to the crowd are recorded as succeeded.
func (w *neighbourhood) recordedOf(n int) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var recorded int
		err := w.pool.QueryRow(w.Context(), "SELECT coalesce(sum(succeeded), 0) FROM deliveries.tallies WHERE type LIKE 'factcheck%'").Scan(&recorded)
		if err != nil {
			w.Fatal(err)
		}
		if recorded >= n {
			return
		}
	}
	w.Fatalf("not all of %d deliveries were recorded", n)
}

func (w *neighbourhood) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.took)
}

// report tells the median and the 99th percentile of each kind, and as a multiple of what that was alone.
func (w *neighbourhood) report(alone map[string]time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, kind := range []string{"first", "fresh", "retry", "replay", "backfill"} {
		took := w.took[kind]
		if len(took) == 0 {
			continue
		}
		slices.Sort(took)
		p50, p99 := took[len(took)/2], took[len(took)*99/100]
		w.b.ReportMetric(float64(p50.Microseconds())/1000, kind+"-p50-ms")
		w.b.ReportMetric(float64(p99.Microseconds())/1000, kind+"-p99-ms")
		if was, known := alone[kind]; known {
			w.b.ReportMetric(float64(p99)/float64(was), kind+"-p99-of-alone")
		} else {
			alone[kind] = p99
		}
	}
}
