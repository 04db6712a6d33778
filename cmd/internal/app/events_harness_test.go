package app_test

import (
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
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
		if err != nil {
			p.Errorf("receive: %v", err)
		}
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
