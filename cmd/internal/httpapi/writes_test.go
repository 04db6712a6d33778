package httpapi_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
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
	s.post(t, subscriptionsPath, `{"externalId":"known","eventTypes":["*"],"scopeKind":"all"}`).into(t, 201, &subscribed)
	feed := into[feedView](t, 201, s.post(t, "/feeds/events", `{"name":"Concerts","description":"In town"}`))

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
	answers := map[string]map[string]any{} // the last one about each thing
	url := receiverURL(t, 204)
	whole := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"config":{"url":%q,"headers":{"X-A":"1"}},"debounceWindowSeconds":5}`, name, url)
	}
	for _, w := range []struct {
		method, path, body string
		status             int
		want               string // members of the answer
	}{
		{"POST", destinationsPath, `{"externalId":"posted",` + whole("Posted")[1:], 201,
			`{"externalId":"posted","name":"Posted","status":"enabled"}`},
		{"PUT", destinationsPath + "/put", whole("Put"), 201, `{"externalId":"put","name":"Put","debounceWindowSeconds":5}`},
		{"PUT", destinationsPath + "/put", whole("Put again"), 200, `{"externalId":"put","name":"Put again"}`},
		{"PUT", destinationsPath + "/" + known.ID, whole("Replaced"), 200, `{"externalId":"known","name":"Replaced"}`},
		{"PATCH", destinationsPath + "/known", `{"externalId":"renamed","status":"disabled"}`, 200,
			`{"externalId":"renamed","name":"Replaced","status":"disabled"}`},
		{"POST", subscriptionsPath, `{"eventTypes":["news.*"],"scopeKind":"all"}`, 201,
			`{"eventTypes":["news.*"],"active":true}`},
		{"PUT", subscriptionsPath + "/put", `{"eventTypes":["news.*"],"scopeKind":"feed_type","feedType":"news"}`, 201,
			`{"externalId":"put","feedType":"news"}`},
		{"PUT", subscriptionsPath + "/put", allOf, 200, `{"externalId":"put","feedType":null}`},
		{"PATCH", subscriptionsPath + "/known", `{"active":false}`, 200, `{"externalId":"known","active":false}`},
		{"POST", feedsPath, `{"name":"Fairs","description":"Out of town"}`, 201, `{"name":"Fairs","enabled":true}`},
		{"PATCH", feedsPath + "/" + feed.ID, `{"name":"Gigs","enabled":false}`, 200,
			`{"name":"Gigs","enabled":false,"enabledSource":"api"}`},
	} {
		got := into[map[string]any](t, w.status, s.sends(t, w.method, w.path, w.body))
		var members map[string]any
		must.OK(t, json.Unmarshal([]byte(w.want), &members))
		for field, want := range members {
			assert.Alike(t, got[field], want, "%s %s: %s", w.method, w.path, field)
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
	assert.Equal(t, len(answers), 8, "things were written")

	s.StartReadModels(t)
	for _, model := range []projections.ReadModel{destinations.ReadModel, subscriptions.ReadModel, feeds.ReadModel} {
		s.Await(t, written[model.Name], model.Name)
	}
	for path, answer := range answers {
		response := s.get(t, path)
		read := into[map[string]any](t, http.StatusOK, response)
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
	s := serve(t)
	vault := must.Get(sealing.NewVault(stuckKeys{s.Keys}, bytes.Repeat([]byte{7}, 32)))(t)
	s.Commands.Vault = vault
	s.destination(t, "crm")
	s.delete(t, destinationsPath+"/crm").into(t, 200, new(any))
	s.get(t, destinationsPath+"/crm").refused(t, 404, "NOT_FOUND", "destination not found")
	s.destination(t, "crm")
}

// Each setting that is declared is set by POST, by PUT and by PATCH alone, cleared by PUT without it, and read back in
// every answer.
func TestSettingsReachEveryAnswer(t *testing.T) {
	s := serve(t)
	ask := func(method, path string, status int, body map[string]any) (answer map[string]any) {
		t.Helper()
		text := ""
		if body != nil {
			encoded := must.Get(json.Marshal(body))(t)
			text = string(encoded)
		}
		s.do(t, request{method: method, path: destinationsPath + path, body: text}).into(t, status, &answer)
		return answer
	}
	for _, d := range destination.Fields {
		given := map[string]any{"numeric": 7.0, "decimal": 2.5, "checkbox": true, "": "of-" + d.Name}[d.Input]
		if d.Field == destination.FieldURL {
			given = receiverURL(t, 204)
		}
		if d.Field == destination.FieldHeaders {
			given = map[string]any{"X-A": "b"}
		}
		place := func(of map[string]any) map[string]any {
			if d.Field.Has(destination.FieldURL | destination.FieldHeaders) {
				return of["config"].(map[string]any)
			}
			return of
		}
		shows := func(what string, answer map[string]any) {
			t.Helper()
			assert.Alike(t, place(answer)[d.Name], given, "%s, %s", d.Name, what)
		}
		plain := map[string]any{"name": "CRM", "config": map[string]any{"url": receiverURL(t, 204)}}
		whole := map[string]any{"name": "CRM", "config": map[string]any{"url": receiverURL(t, 204)}}
		alone := map[string]any{"config": map[string]any{}}
		place(whole)[d.Name], place(alone)[d.Name] = given, given

		created := ask("POST", "", 201, whole)
		path := fmt.Sprint("/", created["id"])
		shows("created", created)
		shows("read", ask("GET", path, 200, nil))
		items := ask("GET", "?limit=100", 200, nil)["items"].([]any)
		listed := slices.IndexFunc(items, func(item any) bool { return item.(map[string]any)["id"] == created["id"] })
		shows("listed", items[listed].(map[string]any))
		shows("kept by a change of another", ask("PATCH", path, 200, map[string]any{"status": "disabled"}))
		if d.Field == destination.FieldExternalID { // PUT has it in its path
			path = fmt.Sprint("/", ask("POST", "", 201, plain)["id"])
			given = "another"
			alone[d.Name] = given
		} else {
			cleared := ask("PUT", path, 200, plain)
			assert.True(t, !cmp.Equal(given, place(cleared)[d.Name]), "%s is not cleared by PUT", d.Name)
			shows("replaced", ask("PUT", path, 200, whole))
			ask("PUT", path, 200, plain)
		}
		shows("changed alone", ask("PATCH", path, 200, alone))
		shows("read after PATCH", ask("GET", path, 200, nil))
	}
}

// TestDeletedRightAfterChange deletes a destination between a write's append and its answer.
func TestDeletedRightAfterChange(t *testing.T) {
	s := serve(t)
	for path, body := range map[string]string{
		"": `{"name":"CRM 2"}`, "/subscriptions/all": `{"active":false}`,
		"/subscriptions/new": allOf,
	} {
		s.rewire(t, func(*httpapi.Dependencies) {})
		created := s.destination(t, "")
		s.put(t, destinationsPath+"/"+created.ID+"/subscriptions/all", allOf).into(t, 201, new(any))
		s.rewire(t, func(p *httpapi.Dependencies) {
			p.Await = func(ctx context.Context, _ eventstore.Position, _ ...string) bool {
				deleted, err := s.Commands.DeleteDestination(ctx, command.Caller{Organization: s.org},
					command.DeleteDestination{ID: uuid.MustParse(created.ID)})
				return err == nil && s.Patient(ctx, deleted.Position, destinations.ReadModel.Name, subscriptions.ReadModel.Name)
			}
		})
		method := "PATCH"
		if path == "/subscriptions/new" {
			method = "PUT"
		}
		s.do(t, request{method: method, path: destinationsPath + "/" + created.ID + path, body: body}).refused(t, 404,
			"NOT_FOUND", "not found")
	}
}

func TestNamesAreOfOneOrganization(t *testing.T) {
	s := serve(t)
	_, other := s.Organization(t, "Library")
	s.destination(t, "crm")
	s.as(other).post(t, destinationsPath, destinationBody(t, `"externalId":"crm",`)).into(t, 201, new(any))
}

// Every event of a write has the reason of the request.
func TestReasonOfWrite(t *testing.T) {
	s := serve(t)
	var created destinationView
	because := map[string]string{wire.ReasonHeader: " Umzug nach Zürich, ticket 7 "}
	s.do(t, request{
		method: "POST",
		path:   "/events/destinations",
		body:   destinationBody(t, ""),
		header: because,
	}).into(t, 201, &created)
	count := 0
	stream := destination.Aggregate.Stream(uuid.MustParse(created.ID))
	for recorded, err := range s.Store.Read(t.Context(), stream, 0) {
		must.OK(t, err)
		meta := must.Get(eventstore.ParseMetadata(recorded.Metadata))(t)
		assert.Equal(t, meta.Reason, "Umzug nach Zürich, ticket 7", "%s has the reason", recorded.Type)
		count++
	}
	assert.Equal(t, count, 2, "events")
	for reason, want := range map[string]string{
		"two\tcolumns":           "X-Carillon-Reason must be plain text in one line: leave out tabs",
		strings.Repeat("ö", 501): "X-Carillon-Reason must have at most 500 characters",
	} {
		s.do(t, request{
			method: "DELETE",
			path:   "/events/destinations/" + created.ID,
			header: map[string]string{wire.ReasonHeader: reason},
		}).refused(t, 400, "INVALID_BODY", want)
	}
	twice := s.request(t, request{method: "DELETE", path: "/events/destinations/" + created.ID}, nil)
	twice.Header[wire.ReasonHeader] = []string{"one", "two"}
	for sent, want := range map[string]string{"Umzug nach Z\xfcrich": "Umzug nach Zürich", "Zürich ✓": "Zürich ✓"} {
		old := s.request(t, request{method: "DELETE", path: "/events/destinations/" + created.ID}, nil)
		old.Header[wire.ReasonHeader] = []string{sent}
		got, err := wire.ReasonOf(old)
		assert.True(t, got == want && err == nil, "%q is read as %q, %v", sent, got, err)
	}
	if _, err := wire.ReasonOf(twice); err == nil || !strings.Contains(err.Error(), "must be sent once") {
		t.Errorf("two reasons: %v", err)
	}
}
