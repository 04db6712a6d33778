package adminapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/command/credential"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

func TestTokenIsRequired(t *testing.T) {
	s := serve(t)
	for name, header := range map[string]string{
		"missing": "", "wrong": "Bearer " + strings.Repeat("x", len(token)), "another scheme": "Basic " + token,
		"prefix": "Bearer " + token[:31],
	} {
		for _, route := range [][2]string{
			{"GET", "/admin/sources"},
			{"POST", "/admin/events"},
			{"GET", "/nowhere"},
			{"PROPFIND", "/healthz"},
		} {
			r := httptest.NewRequestWithContext(t.Context(), route[0], route[1], strings.NewReader("not read"))
			if header != "" {
				r.Header.Set("Authorization", header)
			}
			got := s.send(r)
			got.refused(t, 401, "AUTHENTICATION_FAILED", "admin token")
			if t.Failed() {
				t.Fatalf("%s token, %v", name, route)
			}
		}
	}
	s.do(t, "GET", "/nowhere", "").refused(t, 404, "NOT_FOUND", "no such route")
	s.do(t, "PATCH", "/admin/sources", "").refused(t, 404, "NOT_FOUND", "GET or POST")
	if strings.Contains(s.Logged.String(), token) {
		t.Error("the log shows the token")
	}
}

func TestHealthNeedsNoToken(t *testing.T) {
	s := serve(t)
	get := func(path string) response {
		return s.send(httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
	}
	health := into[adminapi.Health](t, 200, get("/healthz"))
	get("/readyz").into(t, 200, &health)
	if !slices.Equal(health.Components, []string{"eventstore", "postgres"}) {
		t.Errorf("ready: %+v", health)
	}
	if got := get("/metrics"); got.status != http.StatusOK || !strings.Contains(got.body, "carillon_test 0") {
		t.Errorf("metrics: %d %s", got.status, got.body)
	}
	s.down["postgres"] = errDown
	got := get("/readyz")
	got.refused(t, 503, "SERVICE_UNAVAILABLE", "not ready: postgres")
	if strings.Contains(got.body, "hunter2") || !strings.Contains(s.Logged.String(), "connection refused") {
		t.Errorf("the cause belongs into the log only: %s", got.body)
	}
	get("/healthz").into(t, 200, &health)
}

func TestOrganizationsAndKeys(t *testing.T) {
	s := serveAlone(t)
	var org, other adminapi.Created
	s.do(t, "POST", "/admin/organizations", `{"name":"Town hall"}`).into(t, 201, &org)
	organizations := into[adminapi.List[query.Organization]](t, 200, s.do(t, "GET", "/admin/organizations", ""))
	if o := organizations.Items; len(o) != 1 || o[0].ID != org.ID || o[0].Name != "Town hall" {
		t.Errorf("organizations: %+v", o)
	}
	s.do(t, "POST", "/admin/organizations", `{"name":"Reader"}`).into(t, 201, &other)
	path := func(of string) string { return "/admin/organizations/" + of + "/keys" }
	keys := path(org.ID.String())
	if got := s.do(t, "GET", keys, ""); !strings.Contains(got.body, `"items":[]`) {
		t.Errorf("no keys: %s", got.body)
	}
	var first, second adminapi.IssuedKey
	s.do(t, "POST", keys, `{"name":"crm"}`).into(t, 201, &first)
	s.do(t, "POST", keys, `{"expiresAt":"2100-01-01T00:00:00Z"}`).into(t, 201, &second)
	s.do(t, "POST", path(other.ID.String()), `{}`).into(t, 201, &adminapi.IssuedKey{})
	valid := func() []query.Key {
		return must.Get(s.Queries.FindKeys(t.Context(), []string{first.ID}, time.Now()))(t)
	}
	if parsed, ok := credential.Parse(credential.APIKey, first.Key); !ok || parsed.ID != first.ID {
		t.Fatalf("issued %q", first.Key)
	}
	if found := valid(); len(found) != 1 || found[0].Organization != org.ID {
		t.Errorf("the key can't be read: %+v", found)
	}
	s.do(t, "DELETE", keys+"/"+first.ID, "").into(t, 200, nil)
	if len(valid()) != 0 {
		t.Error("the revoked key is valid")
	}
	want := []string{"organization.registered.v1", "organization.key-issued.v2", "organization.key-issued.v2",
		"organization.key-revoked.v1"}
	if got := s.EventTypes(t, "organization-"+org.ID.String()); !slices.Equal(got, want) {
		t.Errorf("events = %v, want %v", got, want)
	}

	var list adminapi.List[query.Credential]
	answer := s.do(t, "GET", keys, "")
	answer.into(t, 200, &list)
	if len(list.Items) != 2 {
		t.Fatalf("keys: %s", answer.body)
	}
	newest, oldest := list.Items[0], list.Items[1]
	if newest.ID != second.ID || newest.ExpiresAt == nil || newest.ExpiresAt.Year() != 2100 || newest.RevokedAt != nil ||
		newest.CreatedAt.IsZero() {
		t.Errorf("the newest: %+v", newest)
	}
	if oldest.ID != first.ID || oldest.Name != "crm" || oldest.ExpiresAt != nil || oldest.RevokedAt == nil {
		t.Errorf("the oldest: %+v", oldest)
	}
	if strings.Contains(answer.body, strings.TrimPrefix(second.Key, "ck_"+second.ID+"_")) ||
		strings.Contains(answer.body, "hash") || strings.Count(answer.body, `"revokedAt":null`) != 1 {
		t.Errorf("the list holds more than ids, or one key of two was not revoked: %s", answer.body)
	}
	for body, message := range map[string]string{
		`{"expiresAt":"tomorrow"}`: "expiresAt must be", `{"expiresAt":"2020-01-01T00:00:00Z"}`: "future",
		`{"names":"x"}`: "names is not a known field",
	} {
		s.do(t, "POST", keys, body).refused(t, 400, "INVALID_BODY", message)
	}
	for method, body := range map[string]string{"POST": `{}`, "GET": ""} {
		s.do(t, method, path(uuid.NewString()), body).refused(t, 404, "NOT_FOUND", "organization not found")
		s.do(t, method, path("7"), body).refused(t, 400, "INVALID_PARAMS", "id must be a UUID")
	}
	s.do(t, "DELETE", keys+"/nobody00", "").refused(t, 404, "NOT_FOUND", "key not found")
	s.do(t, "POST", "/admin/organizations", `{}`).refused(t, 400, "INVALID_BODY", "name is required")
}

func TestSources(t *testing.T) {
	s := serveAlone(t)
	var first, again, handle adminapi.Created
	s.do(t, "POST", "/admin/sources", `{"type":"site","url":"https://example.org/events","timezone":"Europe/Rome"}`).
		into(t, 201, &first)
	s.do(t, "POST", "/admin/sources", `{"type":"site","url":"https://example.org/events","timezone":"Europe/Rome"}`).
		into(t, 201, &again)
	s.do(t, "POST", "/admin/sources", `{"type":"instagram","handle":"@townhall"}`).into(t, 201, &handle)
	if first != again {
		t.Errorf("the same source twice: %v and %v", first.ID, again.ID)
	}
	s.do(t, "POST", "/admin/sources/"+first.ID.String()+"/collect", "").into(t, 202, &again)
	list := into[adminapi.List[query.Source]](t, 200, s.do(t, "GET", "/admin/sources", ""))
	if len(list.Items) != 2 || list.Items[0].URL != "https://example.org/events" || list.Items[1].Handle != "townhall" ||
		list.Items[0].DueAt == nil {
		t.Errorf("sources: %+v", list.Items)
	}
	for body, message := range map[string]string{
		`{"type":"radio"}`: "type must be one of site", `{"type":"site"}`: "url must not be empty",
		`{"type":"site","url":"example.org"}`:                                "url must be absolute",
		`{"type":"twitter"}`:                                                 "handle is required",
		`{"type":"site","url":"https://example.org","timezone":"Mars/Base"}`: "timezone must be",
	} {
		s.do(t, "POST", "/admin/sources", body).refused(t, 400, "INVALID_BODY", message)
	}
	s.do(t, "POST", "/admin/sources/"+uuid.NewString()+"/collect", "").refused(t, 404, "NOT_FOUND", "source not found")
}

func TestFeedsAreRegisteredAndShared(t *testing.T) {
	s := serve(t)
	owner, _ := s.Organization(t, "Owner")
	reader, _ := s.Organization(t, "Reader")
	id := uuid.New()
	var created adminapi.Created
	body := fmt.Sprintf(`{"id":"%s","feedType":"news","organizationId":"%s","name":"Local news"}`, id, owner)
	s.do(t, "POST", "/admin/feeds", body).into(t, 201, &created)
	if created.ID != id {
		t.Errorf("registered %s, want %s", created.ID, id)
	}
	readable := func() bool { return must.Get(s.Queries.Readable(t.Context(), reader, "news", id))(t) }
	share := fmt.Sprintf("/admin/feeds/news/%s/shares/%s", id, reader)
	for _, step := range []struct {
		method string
		reads  bool
	}{{"PUT", true}, {"PUT", true}, {"DELETE", false}, {"DELETE", false}} {
		s.do(t, step.method, share, "").into(t, 200, nil)
		if readable() != step.reads {
			t.Errorf("after %s readable = %v", step.method, !step.reads)
		}
	}
	s.do(t, "PUT", fmt.Sprintf("/admin/feeds/event/%s/shares/%s", id, reader), "").refused(t, 404, "NOT_FOUND",
		"feed not found")
	s.do(t, "PUT", fmt.Sprintf("/admin/feeds/news/%s/shares/%s", id, uuid.New()), "").refused(t, 404, "NOT_FOUND",
		"organization")
	s.do(t, "PUT", fmt.Sprintf("/admin/feeds/news/7/shares/%s", reader), "").refused(t, 400, "INVALID_PARAMS",
		"feedId must be a UUID")
	s.do(t, "POST", "/admin/feeds", `{"feedType":"radio","organizationId":"7","name":"x"}`).refused(t, 400, "INVALID_BODY",
		"feedType must be one of news, event")
	s.do(t, "POST", "/admin/feeds", fmt.Sprintf(`{"feedType":"news","organizationId":"%s","name":"x"}`, uuid.New())).
		refused(t, 404, "NOT_FOUND", "register it first")
}

func TestProjections(t *testing.T) {
	s := serve(t)
	list := into[adminapi.List[adminapi.Projection]](t, 200, s.do(t, "GET", "/admin/projections", ""))
	if len(list.Items) != 1 || list.Items[0].Position != "7/7" {
		t.Errorf("projections: %+v", list)
	}
	s.do(t, "POST", "/admin/projections/unknown/rebuild", "").refused(t, 404, "NOT_FOUND", "GET /admin/projections")
	s.do(t, "POST", "/admin/projections/feeds/rebuild", "").into(t, 202, &adminapi.Rebuilding{})
	s.do(t, "POST", "/admin/projections/feeds/rebuild", "").refused(t, 409, "CONFLICT", "already")
}

func TestVerifyProjection(t *testing.T) {
	s := serve(t)
	const path = "/admin/projections/feeds/verify"
	s.do(t, "POST", "/admin/projections/unknown/verify", "").refused(t, 404, "NOT_FOUND", "GET /admin/projections")
	for _, body := range []string{`{"sample":0}`, `{"sample":101}`, `{"sample":-1}`} {
		s.do(t, "POST", path, body).refused(t, 400, "INVALID_BODY", "sample must be more than 0 and at most 100")
	}
	s.do(t, "POST", path, `{"sample":2.5}`).into(t, 202, &adminapi.Rebuilding{})
	s.do(t, "POST", path, "").refused(t, 409, "CONFLICT", "already")
}
