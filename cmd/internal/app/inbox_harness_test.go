package app_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/cmd/internal/dev"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

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
