package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/destinations"
	"carillon/projections/feeds"
	"carillon/projections/subscriptions"
)

// A recorded write is answered with its result, and reads show it once the read models continue.
func (s *server) writesWhileStill(t *testing.T) {
	t.Helper()
	known := s.destination(t, "known")
	var subscribed subscriptionView
	subscriptionsPath := destinationsPath + "/" + known.ID + "/subscriptions"
	s.do(t, request{
		method: "POST",
		path:   subscriptionsPath,
		body:   `{"externalId":"known","eventTypes":["*"],"scopeKind":"all"}`,
	}).into(t, 201, &subscribed)
	var feed feedView
	s.do(t, request{method: "POST", path: "/feeds/events", body: `{"name":"Concerts","description":"In town"}`}).into(t,
		201, &feed)

	s.StopReadModels()
	written := map[string]eventstore.Position{} // the last write that each consumer has to see
	s.rewire(t, func(p *httpapi.Dependencies) {
		p.Await = func(ctx context.Context, to eventstore.Position, consumers ...string) bool {
			for _, consumer := range consumers {
				written[consumer] = to
			}
			ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			return s.Progress.Await(ctx, to, consumers...)
		}
	})
	url := receiverURL(t, 204)
	whole := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"config":{"url":%q,"headers":{"X-A":"1"}},"debounceWindowSeconds":5}`, name, url)
	}
	writes := []struct {
		method, path, body string
		status             int
		want               map[string]any // of the answer
	}{
		{"POST", destinationsPath, `{"externalId":"posted",` + whole("Posted")[1:], 201, map[string]any{
			"externalId": "posted",
			"name":       "Posted",
			"status":     "enabled",
		}},
		{"PUT", destinationsPath + "/put", whole("Put"), 201, map[string]any{
			"externalId":            "put",
			"name":                  "Put",
			"debounceWindowSeconds": 5.,
		}},
		{"PUT", destinationsPath + "/put", whole("Put again"), 200, map[string]any{"externalId": "put", "name": "Put again"}},
		{"PUT", destinationsPath + "/" + known.ID, whole("Replaced"), 200, map[string]any{
			"externalId": "known",
			"name":       "Replaced",
		}},
		{
			"PATCH", destinationsPath + "/known", `{"externalId":"renamed","status":"disabled"}`, 200,
			map[string]any{"externalId": "renamed", "name": "Replaced", "status": "disabled"},
		},
		{"POST", subscriptionsPath, `{"eventTypes":["news.*"],"scopeKind":"all"}`, 201, map[string]any{
			"eventTypes": []any{"news.*"},
			"active":     true,
		}},
		{"PUT", subscriptionsPath + "/put", `{"eventTypes":["news.*"],"scopeKind":"feed_type","feedType":"news"}`, 201,
			map[string]any{"externalId": "put", "feedType": "news"}},
		{"PUT", subscriptionsPath + "/put", `{"eventTypes":["*"],"scopeKind":"all"}`, 200, map[string]any{
			"externalId": "put",
			"feedType":   nil,
		}},
		{"PATCH", subscriptionsPath + "/known", `{"active":false}`, 200, map[string]any{
			"externalId": "known",
			"active":     false,
		}},
		{"POST", "/feeds/events", `{"name":"Fairs","description":"Out of town"}`, 201, map[string]any{
			"name":    "Fairs",
			"enabled": true,
		}},
		{"PATCH", "/feeds/events/" + feed.ID, `{"name":"Gigs","enabled":false}`, 200, map[string]any{
			"name":          "Gigs",
			"enabled":       false,
			"enabledSource": "api",
		}},
	}
	answers := map[string]map[string]any{} // the last one about each thing
	for _, w := range writes {
		var got map[string]any
		s.do(t, request{method: w.method, path: w.path, body: w.body}).into(t, w.status, &got)
		for field, want := range w.want {
			if diff := cmp.Diff(want, got[field]); diff != "" {
				t.Errorf("%s %s: %s (-want +got):\n%s", w.method, w.path, field, diff)
			}
		}
		collection := destinationsPath
		switch {
		case got["destinationId"] != nil:
			collection = subscriptionsPath
		case got["enabledSource"] != nil:
			collection = "/feeds/events"
		}
		answers[fmt.Sprintf("%s/%s", collection, got["id"])] = got
	}
	if len(answers) != 8 {
		t.Errorf("%d things were written, want 8", len(answers))
	}

	s.StartReadModels(t)
	for _, model := range []projections.ReadModel{destinations.ReadModel, subscriptions.ReadModel, feeds.ReadModel} {
		s.Await(t, written[model.Name], model.Name)
	}
	for path, answer := range answers {
		response := s.do(t, request{path: path})
		var read map[string]any
		response.into(t, http.StatusOK, &read)
		for _, field := range []string{"validation", "secrets"} { // shown in another way by the answer to a create
			delete(answer, field)
			delete(read, field)
		}
		if answer["enabledReason"] == nil { // the answer says so, a read leaves it out
			delete(answer, "enabledReason")
		}
		if diff := cmp.Diff(answer, read); diff != "" {
			text, _ := json.Marshal(answer)
			t.Errorf("%s was answered %s; read (-answer +read):\n%s", path, text, diff)
		}
	}
}

// stuckKeys are data keys that can't be deleted now.
type stuckKeys struct{ *apitest.Keys }

func (stuckKeys) Delete(context.Context, uuid.UUID) error { return command.ErrUnavailable }

// TestDeletionDoesNotWaitForDataKey: it is recorded, and the cascade of deletions shreds the key later.
func TestDeletionDoesNotWaitForDataKey(t *testing.T) {
	t.Parallel()
	s := serve(t)
	vault, err := sealing.NewVault(stuckKeys{s.Keys}, bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	s.Commands.Vault = vault
	s.destination(t, "crm")
	s.do(t, request{method: "DELETE", path: destinationsPath + "/crm"}).into(t, 200, new(any))
	s.do(t, request{path: destinationsPath + "/crm"}).refused(t, 404, "NOT_FOUND", "destination not found")
	s.destination(t, "crm")
}
