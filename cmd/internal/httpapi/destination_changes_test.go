package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"carillon/cmd/internal/suite"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

const destinationsPath = "/events/destinations"

// receiver answers with the status that the path of a request begins with.
var receiver = suite.Fixture(func(tb testing.TB) string {
	tb.Helper()
	answer := func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.Atoi(strings.Split(r.URL.Path, "/")[1])
		if err != nil {
			status = http.StatusNotFound
		}
		w.WriteHeader(status)
	}
	server := httptest.NewTLSServer(http.HandlerFunc(answer))
	tb.Cleanup(server.Close)
	return server.URL
})

// receiverURL is a new address of an endpoint that answers with a status.
func receiverURL(t *testing.T, status int) string {
	t.Helper()
	return fmt.Sprintf("%s/%d/hook/%s", receiver(t), status, uuid.NewString())
}

// destination creates one, with an externalId where name is not empty.
func (s *server) destination(t *testing.T, name string) (created destinationView) {
	t.Helper()
	more := ""
	if name != "" {
		more = `"externalId":"` + name + `",`
	}
	s.post(t, destinationsPath, destinationBody(t, more)).into(t, 201, &created)
	return created
}

func (s *server) read(t *testing.T, ref string) (found destinationView) {
	t.Helper()
	s.get(t, destinationsPath+"/"+ref).into(t, 200, &found)
	return found
}

func TestPutCreatesThenReplacesThenChangesNothing(t *testing.T) {
	s := serve(t)
	url := receiverURL(t, 204)
	full := `{"name":"CRM","transport":"webhook","config":{"url":"` + url +
		`","headers":{"X-Token":"t0ken"}},"debounceWindowSeconds":7}`
	var created, replaced destinationView
	s.put(t, destinationsPath+"/crm", full).into(t, 201, &created)
	assert.True(t, created.ExternalID != nil && *created.ExternalID == "crm" && created.Validation != nil &&
		created.Validation.Reachable, "created %+v, want externalId crm and the probe's result", created)
	assert.True(t, len(created.Secrets) == 1 && len(created.Secrets[0].Secret) == len("whsec_")+44,
		"secrets = %+v, want the first in full", created.Secrets)
	stream := "destination-" + created.ID
	written := []string{"destination.created.v2", "destination.secret-minted.v1"}
	for _, ref := range []string{"crm", created.ID, strings.ToUpper(created.ID)} {
		s.put(t, destinationsPath+"/"+ref, full).into(t, 200, &replaced)
	}
	s.wrote(t, stream, written...)
	if replaced.Validation != nil || strings.Contains(replaced.Secrets[0].Secret, created.Secrets[0].Secret[6:40]) {
		t.Errorf("replaced %+v, want no validation and masked secrets", replaced)
	}
	replaced = destinationView{}
	s.put(t, destinationsPath+"/crm", `{"name":"CRM 2","config":{"url":"`+url+`"}}`).into(t, 200, &replaced)
	assert.True(t, replaced.ID == created.ID && replaced.Name == "CRM 2" && len(replaced.Config.Headers) == 0 &&
		replaced.DebounceWindowSeconds == 0, "replaced %+v, want the omitted fields cleared", replaced)
	assert.True(t, *replaced.ExternalID == "crm" && replaced.Secrets[0].ID == created.Secrets[0].ID &&
		len(replaced.Secrets) == 1, "replaced %+v, want externalId and secret kept", replaced)
	assert.Same(t, s.read(t, "crm"), replaced)
	s.wrote(t, stream, append(written, "destination.revised.v2")...)
}

func TestPutIsRefused(t *testing.T) {
	s := serve(t)
	url := receiverURL(t, 204)
	s.put(t, destinationsPath+"/crm", `{"name":"CRM","config":{"url":"`+url+`"}}`).into(t, 201, new(any))
	good := `{"name":"x","config":{"url":"` + url + `"}}`
	tests := []struct{ ref, body, code, message string }{
		{"crm", `{"name":"x","externalId":"crm","config":{"url":"` + url + `"}}`, "INVALID_BODY",
			"externalId is not a known field"},
		{"crm", `{"name":"x","status":"disabled","config":{"url":"` + url + `"}}`, "INVALID_BODY",
			"status is not a known field"},
		{"a%20b", good, "VALIDATION_FAILED", "ref must be a UUID or an externalId"},
		{strings.Repeat("x", 256), good, "VALIDATION_FAILED", "ref must be"},
	}
	for _, tt := range tests {
		s.put(t, destinationsPath+"/"+tt.ref, tt.body).refused(t, 400, tt.code, tt.message)
	}
	s.put(t, destinationsPath+"/"+uuid.NewString(), good).refused(t, 404, "NOT_FOUND", "destination not found")
	s.get(t, destinationsPath+"/new").refused(t, 404, "NOT_FOUND", "destination not found")
}

// Configurations are checked after their form, on every route: creating, creating under a name, replacing, changing a
// part and validating.
func TestURLRules(t *testing.T) {
	s := serve(t)
	s.destination(t, "crm")
	url := receiverURL(t, 204)
	for config, message := range map[string]string{
		`{"url":"http://example.org/hook"}`:                   "https",
		`{"url":"https://10.0.0.1/hook"}`:                     "private or reserved",
		`{"url":"` + url + strings.Repeat("x", 2048) + `"}`:   "2048",
		`{"url":"` + url + `","headers":{"Host":"x"}}`:        "Host",
		`{"url":"` + url + `","headers":{"Webhook-Id":"x"}}`:  "Webhook-Id",
		`{"url":"` + url + `","headers":{"X-A":"a\r\nb: c"}}`: "X-A",
	} {
		for _, route := range []string{"POST ", "PUT /new", "PUT /crm", "PATCH /crm"} {
			method, ref, _ := strings.Cut(route, " ")
			got := s.sends(t, method, destinationsPath+ref, `{"name":"x","config":`+config+`}`)
			got.refused(t, 400, "VALIDATION_FAILED", message)
		}
		s.post(t, destinationsPath+"/validate", `{"config":`+config+`}`).refused(t, 400, "VALIDATION_FAILED", message)
	}
}

func TestPatchMerges(t *testing.T) {
	s := serve(t)
	created := s.destination(t, "crm")
	newName := "crm-2"
	steps := []patch[destinationView]{
		{`{}`, nil, nil},
		{`{"name":"CRM 2"}`, func(d *destinationView) { d.Name = "CRM 2" }, []string{"destination.revised.v2"}},
		{`{"config":{"headers":{"X-A":"1","X-B":"2"}}}`, func(d *destinationView) {
			d.Config.Headers = map[string]string{"X-A": "1", "X-B": "2"}
		}, []string{"destination.revised.v2"}},
		{`{"config":{"headers":{"X-B":"2","X-A":"1"}}}`, nil, nil},
		{`{"config":{"headers":{}},"transport":"webhook"}`, func(d *destinationView) {
			d.Config.Headers = map[string]string{}
		}, []string{"destination.revised.v2"}},
		{`{"maxRequestsPerSecond":0.1}`, func(d *destinationView) { d.MaxRequestsPerSecond = new(0.1) },
			[]string{"destination.revised.v2"}},
		{`{"maxRequestsPerSecond":null}`, func(d *destinationView) { d.MaxRequestsPerSecond = nil },
			[]string{"destination.revised.v2"}},
		{`{"externalId":"crm-2"}`, func(d *destinationView) { d.ExternalID = &newName }, []string{"destination.revised.v2"}},
		{`{"status":"disabled"}`, func(d *destinationView) { d.Status = "disabled" }, []string{"destination.disabled.v1"}},
		{`{"status":"disabled"}`, nil, nil},
		{`{"status":"enabled","name":"CRM 3"}`, func(d *destinationView) { d.Status, d.Name = "enabled", "CRM 3" },
			[]string{"destination.revised.v2", "destination.enabled.v1"}},
	}
	merges(t, s, destinationsPath+"/"+created.ID, "destination-"+created.ID, s.read(t, "crm"), steps...)
	s.get(t, destinationsPath+"/crm").refused(t, 404, "NOT_FOUND", "destination not found")
	s.destination(t, "crm") // the old name is free
	for body, message := range map[string]string{
		`{"status":"auto_disabled"}`:    "status must be one of enabled, disabled",
		`{"status":null}`:               "status must not be null",
		`{"name":""}`:                   "name must not be empty",
		`{"transport":"smtp"}`:          "transport must be one of webhook",
		`{"debounceWindowSeconds":-1}`:  "debounceWindowSeconds must be",
		`{"maxRequestsPerSecond":0.09}`: "a number of requests from 0.1 to 10000",
		`{"traceparent":"yes"}`:         "traceparent must be",
		`{"config":{"url":""}}`:         "config.url must not be empty",
		`{"externalId":".."}`:           "externalId must not",
	} {
		s.patch(t, destinationsPath+"/crm-2", body).refused(t, 400, "INVALID_BODY", message)
	}
	s.patch(t, destinationsPath+"/crm-2", `{"externalId":"crm"}`).refused(t, 409, "ALREADY_EXISTS", `"crm"`)
	s.patch(t, destinationsPath+"/unknown", `{}`).refused(t, 404, "NOT_FOUND", "destination not found")
}

func TestDeletedDestinationIsGoneAtOnce(t *testing.T) {
	s := serve(t)
	created := s.destination(t, "crm")
	sealed := func() bool {
		_, err := s.Keys.Find(t.Context(), uuid.MustParse(created.ID))
		return err == nil
	}
	must.True(t, sealed(), "there is no data key to delete")
	subscription := into[idView](t, 201, s.post(t, destinationsPath+"/crm/subscriptions", allOf))
	s.delete(t, destinationsPath+"/crm").done(t)
	for _, ref := range []string{"crm", created.ID} {
		for _, in := range surface {
			if !strings.Contains(in.path, "{ref}") || in.method == "PUT" && !strings.Contains(in.path, "{subRef}") {
				continue
			}
			in = fill(in, "{ref}", ref, "{subRef}", subscription.ID, "{secretId}", created.Secrets[0].ID)
			s.do(t, in).refused(t, 404, "NOT_FOUND", "destination not found")
		}
	}
	assert.True(t, !sealed(), "its data key is still there")
	assert.True(t, s.destination(t, "crm").ID != created.ID, "the deleted destination is back")
	s.wrote(t, "destination-"+created.ID, "destination.created.v2", "destination.secret-minted.v1",
		"destination.deleted.v1")
}

// patch is a step of a test of PATCH.
type patch[T any] struct {
	body   string
	change func(*T) // nil means that nothing changes
	events []string // that it records
}

// merges sends patches one after the other. The answer to each is the thing with its change, as it is read then.
func merges[T any](t *testing.T, s *server, path, stream string, want T, patches ...patch[T]) {
	t.Helper()
	for _, p := range patches {
		before := s.EventTypes(t, stream)
		got := into[T](t, 200, s.patch(t, path, p.body))
		if p.change != nil {
			p.change(&want)
		}
		assert.Alike(t, got, want, "PATCH %s", p.body)
		assert.Alike(t, into[T](t, 200, s.get(t, path)), got, "PATCH %s: the answer and a later read differ", p.body)
		assert.Slices(t, s.EventTypes(t, stream)[len(before):], p.events, "PATCH %s recorded", p.body)
	}
}

// concurrently sends a request n times at once and counts the statuses.
func (s *server) concurrently(t *testing.T, n int, in func(i int) request) map[int]int {
	t.Helper()
	var (
		mu       sync.Mutex
		statuses = map[int]int{}
		all      sync.WaitGroup
	)
	start := make(chan struct{})
	for i := range n {
		all.Go(func() {
			<-start
			got := s.do(t, in(i))
			mu.Lock()
			defer mu.Unlock()
			statuses[got.status]++
		})
	}
	close(start)
	all.Wait()
	return statuses
}

func TestHeadersKeepTheirOrder(t *testing.T) {
	s := serve(t)
	headers := `{"X-1":"a","X-2":"a","X-3":"a","X-4":"a","X-5":"a","X-6":"a","X-7":"a","X-8":"a","X-9":"a"}`
	s.put(t, destinationsPath+"/crm", `{"name":"x","config":{"url":"`+receiverURL(t,
		204)+`","headers":`+headers+`}}`).into(t, 201, new(any))
	got := s.get(t, destinationsPath+"/crm")
	assert.True(t, strings.Contains(got.body, headers), "%s, want the headers sorted by name", got.body)
}
