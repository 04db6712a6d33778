package app_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/aggregates/subscription"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
)

// organization is the one for developers.
var organization = uuid.MustParse("0d000000-0000-4000-8000-000000000001")

var everything = subscription.Settings{EventTypes: []string{"*"}, ScopeKind: "all"}

// event is one as POST /admin/events takes it.
func event(of uuid.UUID) string {
	const format = `{"id":"%s","type":"news.item.added","source":"/news","organizationId":"%s","data":{"id":"7",` +
		`"title":"Storm"}}`
	return fmt.Sprintf(format, uuid.New(), of)
}

// workload publishes through the admin API and receives what is delivered.
type workload struct {
	*testing.T
	data, api, admin, token string
	verifier                *standardwebhooks.Webhook

	mu    sync.Mutex
	came  map[string]map[string]int // by event id: by webhook-id
	total int
	told  map[string][]byte // by event id: the request's body

	onArrival func(event string, first bool) // where not nil, called for each request
}

func newWorkload(t *testing.T, data, api, admin string) *workload {
	t.Helper()
	w := &workload{
		T:     t,
		data:  data,
		api:   api,
		admin: admin,
		came:  map[string]map[string]int{},
		told:  map[string][]byte{},
	}
	var key string
	w.eventually("the server did not come up", func() bool {
		var err error
		key, err = dev.ReadKey(data)
		if err == nil {
			client := config.Client{DataDir: data}
			w.token, err = client.Token()
		}
		return err == nil
	})
	authority, err := dev.EnsureAuthority(data)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := authority.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(w.receive))
	receiver.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	receiver.StartTLS()
	t.Cleanup(receiver.Close)
	var destination struct {
		ID      string `json:"id"`
		Secrets []struct {
			Secret string `json:"secret"`
		} `json:"secrets"`
	}
	w.eventually("no destination", func() bool {
		return w.post(w.api+"/events/destinations", key, map[string]any{
			"name":   "t",
			"config": map[string]any{"url": receiver.URL},
		}, &destination) == nil
	})
	w.mu.Lock()
	w.verifier, err = standardwebhooks.NewWebhook(destination.Secrets[0].Secret)
	w.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("no subscription", func() bool {
		return w.post(w.api+"/events/destinations/"+destination.ID+"/subscriptions", key,
			map[string]any{"eventTypes": []string{"*"}, "scopeKind": "all"}, nil) == nil
	})
	return w
}

func (w *workload) eventually(complaint string, done func() bool) {
	w.Helper()
	poll(w.T, patience, complaint, done)
}

func (w *workload) post(url, token string, body, result any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(w.Context(), http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/json")
	response, err := impatient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%d: %s", response.StatusCode, answer)
	}
	envelope := struct {
		Data any `json:"data"`
	}{result}
	return json.Unmarshal(answer, &envelope)
}

// begin publishes until stopped. stop returns the ids of the events that were acknowledged.
func (w *workload) begin() (stop func() []string) {
	ctx, cancel := context.WithCancel(w.Context())
	var mu sync.Mutex
	var acknowledged []string
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				id := uuid.NewString()
				event := map[string]any{
					"id": id, "type": "news.item.added", "source": "/torture", "organizationId": organization.String(),
					"data": map[string]any{"id": id, "title": "Storm"},
				}
				if w.post(w.admin+"/admin/events", w.token, event, nil) != nil {
					continue // not acknowledged: it may or may not come
				}
				mu.Lock()
				acknowledged = append(acknowledged, id)
				mu.Unlock()
			}
		})
	}
	return func() []string {
		w.eventually("nothing was acknowledged", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(acknowledged) > 0
		})
		cancel()
		group.Wait()
		return acknowledged
	}
}

func (w *workload) receive(_ http.ResponseWriter, request *http.Request) {
	if request.Method != http.MethodPost {
		return
	}
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // killed in the middle
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.verifier.Verify(body, request.Header); err != nil {
		w.Errorf("signature: %v", err)
	}
	var envelope struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(body, &envelope); err != nil {
		w.Errorf("body: %v", err)
	}
	if w.came[envelope.ID] == nil {
		w.came[envelope.ID] = map[string]int{}
	}
	w.came[envelope.ID][request.Header.Get("webhook-id")]++
	w.total++
	w.told[envelope.ID] = body
	if w.onArrival != nil {
		w.onArrival(envelope.ID, w.came[envelope.ID][request.Header.Get("webhook-id")] == 1)
	}
}

// reconcile waits until everything that was acknowledged has come.
func (w *workload) reconcile(acknowledged []string) {
	w.Helper()
	w.eventually("every acknowledged event is delivered", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return !slices.ContainsFunc(acknowledged, func(id string) bool { return len(w.came[id]) == 0 })
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	for event, ids := range w.came {
		if len(ids) != 1 {
			w.Errorf("event %s came under %d webhook-ids", event, len(ids))
		}
	}
}
