package app_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/aggregates/dispatch"
	"carillon/cmd/internal/dev"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// answers is how an endpoint answers its n-th webhook, from 1.
type answers func(w http.ResponseWriter, r *http.Request, n int)

// statuses answers with one status after another; the last goes on for ever.
func statuses(list ...int) answers {
	return func(w http.ResponseWriter, _ *http.Request, n int) { w.WriteHeader(list[min(n, len(list))-1]) }
}

// endpoint is a receiver on loopback whose webhooks arrive in order.
func (p *process) endpoint(answer answers) (url string, arrived <-chan received) {
	p.Helper()
	webhooks := make(chan received, 100)
	counting := make(chan int, 1)
	counting <- 0
	url = p.serve(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return // the probe
		}
		body, err := io.ReadAll(r.Body)
		assert.Is(p, err, nil, "receive")
		n := <-counting + 1
		select {
		case webhooks <- received{r.Header.Clone(), body}:
		case <-p.Context().Done():
		}
		counting <- n
		answer(w, r, n)
	})
	return url, webhooks
}

const destinations = "/events/destinations/"

// connect makes a destination with a name that is subscribed to all news.
func (p *process) connect(name, url string, debounceSeconds int) (id string) {
	p.Helper()
	id = p.destination(name, url, debounceSeconds)
	p.subscribe(name)
	return id
}

// destination makes one that is subscribed to nothing.
func (p *process) destination(name, url string, debounceSeconds int) (id string) {
	p.Helper()
	created := p.call(http.MethodPut, destinations+name, map[string]any{
		"name": name, "config": map[string]any{"url": url}, "debounceWindowSeconds": debounceSeconds,
	}, http.StatusCreated)
	return fmt.Sprint(created["id"])
}

// subscribe subscribes a destination to all news.
func (p *process) subscribe(name string) {
	p.Helper()
	p.call(http.MethodPut, destinations+name+"/subscriptions/news", map[string]any{
		"eventTypes": []string{"news.*"},
		"scopeKind":  "all",
	}, http.StatusCreated)
}

// deliveryOf is the id of the delivery of an event to a destination.
func deliveryOf(event uuid.UUID, destination string) string {
	return dispatch.DeliveryID(event, uuid.MustParse(destination)).String()
}

// eventually polls until a condition holds.
func (p *process) eventually(what string, holds func() bool) {
	p.Helper()
	poll(p.TB, patience, what, holds)
}

// poll waits until a condition holds that other goroutines or processes bring about.
func poll(t testing.TB, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); !holds(); <-tick.C {
		must.True(t, !time.Now().After(deadline), "waited in vain until %s", what)
	}
}

// backfill makes up for a window, again until n events were found: the server waits two seconds for its read model of
// publications, which a busy machine may exceed. It returns the number of deliveries made.
func (p *process) backfill(name string, window map[string]any, events float64) (made float64) {
	p.Helper()
	p.eventually("the published events are found", func() bool {
		done := p.call(http.MethodPost, destinations+name+"/backfill", window, http.StatusOK)
		created, _ := done["deliveriesCreated"].(float64)
		scanned, _ := done["eventsScanned"].(float64)
		made += created
		return scanned >= events
	})
	return made
}

// delivery reads a delivery once it meets a condition.
func (p *process) delivery(id, what string, holds func(map[string]any) bool) (found map[string]any) {
	p.Helper()
	p.eventually("delivery "+id+" "+what, func() bool {
		var status int
		status, found = p.try(http.MethodGet, "/events/deliveries/"+id, nil)
		return status == http.StatusOK && holds(found)
	})
	return found
}

// attempted reads a delivery once it has had n attempts.
func (p *process) attempted(id string, n int) map[string]any {
	p.Helper()
	return p.delivery(id, fmt.Sprintf("has %d attempts", n), func(d map[string]any) bool {
		return d["attemptCount"] == float64(n)
	})
}

// status reads a destination once it has a status.
func (p *process) status(ref, want string) (found map[string]any) {
	p.Helper()
	p.eventually("destination "+ref+" is "+want, func() bool {
		found = p.call(http.MethodGet, destinations+ref, nil, http.StatusOK)
		return found["status"] == want
	})
	return found
}

func (p *process) total(path string) float64 {
	p.Helper()
	n, ok := p.call(http.MethodGet, path, nil, http.StatusOK)["total"].(float64)
	must.True(p, ok, "%s has no total", path)
	return n
}

// refused expects an error. A late read model shows old rows for a while.
func (p *process) refused(method, path string, body any, status int, code string) string {
	p.Helper()
	got, problem := p.try(method, path, body)
	for deadline := time.Now().Add(patience); method == http.MethodGet && got == http.StatusOK &&
		time.Now().Before(deadline); {
		<-time.After(20 * time.Millisecond)
		got, problem = p.try(method, path, body)
	}
	assert.True(p, got == status && problem["code"] == code,
		"%s %s: %d %v, want %d %s", method, path, got, problem, status, code)
	return fmt.Sprint(problem["message"])
}

func lastAttempt(t testing.TB, delivery map[string]any) map[string]any {
	t.Helper()
	attempts, ok := delivery["attempts"].([]any)
	must.True(t, ok && len(attempts) != 0, "delivery %v has no attempts", delivery)
	last, _ := attempts[len(attempts)-1].(map[string]any)
	return last
}

// organization is the one for developers.
var organization = uuid.MustParse("0d000000-0000-4000-8000-000000000001")

// event is one as POST /admin/events takes it.
func event(of uuid.UUID) string {
	const format = `{"id":"%s","type":"news.item.added","source":"/news","organizationId":"%s","data":{"id":"7",` +
		`"title":"Storm"}}`
	return fmt.Sprintf(format, uuid.New(), of)
}

// serveTLS runs a server on loopback, trusted through the development authority of a data directory.
func serveTLS(t testing.TB, data string, handle http.HandlerFunc) (address string) {
	t.Helper()
	authority := must.Get(dev.EnsureAuthority(data))(t)
	certificate := must.Get(authority.Certificate())(t)
	server := httptest.NewUnstartedServer(handle)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server.URL
}

// inbox is a destination that is subscribed to everything, and the webhooks that came to it.
type inbox struct {
	t         *testing.T
	verifier  *standardwebhooks.Webhook
	onArrival func(event string) // called for the first request of each event. Optional

	mu     sync.Mutex
	came   map[string]map[string]int // by event: requests by webhook-id
	bodies map[string][]byte         // by event
	copies int                       // requests beyond the first of each webhook
}

func newInbox(in *installation) *inbox {
	in.Helper()
	box := &inbox{t: in.T, came: map[string]map[string]int{}, bodies: map[string][]byte{}}
	_, secret := in.subscribed("inbox", serveTLS(in.T, in.data, box.receive), "*")
	box.mu.Lock()
	defer box.mu.Unlock()
	box.verifier = must.Get(standardwebhooks.NewWebhook(secret))(in)
	return box
}

func (box *inbox) receive(_ http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil || request.Method != http.MethodPost {
		return // killed in the middle, or the probe
	}
	box.mu.Lock()
	defer box.mu.Unlock()
	must.OK(box.t, box.verifier.Verify(body, request.Header))
	var envelope struct {
		ID string `json:"id"`
	}
	must.OK(box.t, json.Unmarshal(body, &envelope))
	first := box.came[envelope.ID] == nil
	if first {
		box.came[envelope.ID] = map[string]int{}
	}
	id := request.Header.Get("webhook-id")
	if box.came[envelope.ID][id]++; box.came[envelope.ID][id] > 1 {
		box.copies++
	}
	box.bodies[envelope.ID] = body
	if first && box.onArrival != nil {
		box.onArrival(envelope.ID)
	}
}

// arrived counts the events that came, and the requests that came again.
func (box *inbox) arrived() (events, again int) {
	box.mu.Lock()
	defer box.mu.Unlock()
	return len(box.came), box.copies
}

// eachOnce expects that each event came under one webhook-id.
func (box *inbox) eachOnce() {
	box.t.Helper()
	box.mu.Lock()
	defer box.mu.Unlock()
	for event, ids := range box.came {
		assert.Equal(box.t, len(ids), 1, "event %s came under … webhook-ids", event)
	}
}
