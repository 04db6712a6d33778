package adminapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/cmd/internal/adminapi"
	"carillon/command/credential"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/items"
	"carillon/query"
)

func TestHealthNeedsNoToken(t *testing.T) {
	s := serve(t)
	get := func(path string) response {
		return s.send(httptest.NewRequestWithContext(t.Context(), "GET", path, nil))
	}
	health := into[adminapi.Health](t, 200, get("/healthz"))
	get("/readyz").into(t, 200, &health)
	assert.Slices(t, health.Components, []string{"eventstore", "postgres"}, "ready: %+v", health)
	if got := get("/metrics"); got.status != http.StatusOK || !strings.Contains(got.body, "carillon_test 0") {
		t.Errorf("metrics: %d %s", got.status, got.body)
	}
	s.down["postgres"] = errDown
	got := get("/readyz")
	got.refused(t, 503, "SERVICE_UNAVAILABLE", "not ready: postgres")
	assert.True(t, !strings.Contains(got.body, "hunter2") && strings.Contains(s.Logged.String(), "connection refused"),
		"the cause belongs into the log only: %s", got.body)
	get("/healthz").into(t, 200, &health)
}

func TestOrganizationsAndKeys(t *testing.T) {
	s := serveAlone(t)
	var org, other adminapi.Created
	s.do(t, "POST", "/admin/organizations", `{"name":"Town hall"}`).into(t, 201, &org)
	organizations := into[adminapi.List[query.Organization]](t, 200, s.do(t, "GET", "/admin/organizations", ""))
	o := organizations.Items
	assert.True(t, len(o) == 1 && o[0].ID == org.ID && o[0].Name == "Town hall", "organizations: %+v", o)
	s.do(t, "POST", "/admin/organizations", `{"name":"Reader"}`).into(t, 201, &other)
	path := func(of string) string { return "/admin/organizations/" + of + "/keys" }
	keys := path(org.ID.String())
	got := s.do(t, "GET", keys, "")
	assert.True(t, strings.Contains(got.body, `"items":[]`), "no keys: %s", got.body)
	var first, second adminapi.IssuedKey
	s.do(t, "POST", keys, `{"name":"crm"}`).into(t, 201, &first)
	s.do(t, "POST", keys, `{"expiresAt":"2100-01-01T00:00:00Z"}`).into(t, 201, &second)
	s.do(t, "POST", path(other.ID.String()), `{}`).into(t, 201, &adminapi.IssuedKey{})
	valid := func() []query.Key {
		return must.Get(s.Queries.FindKeys(t.Context(), []string{first.ID}, time.Now()))(t)
	}
	parsed, ok := credential.Parse(credential.APIKey, first.Key)
	must.True(t, ok && parsed.ID == first.ID, "issued %q", first.Key)
	found := valid()
	assert.True(t, len(found) == 1 && found[0].Organization == org.ID, "the key can't be read: %+v", found)
	s.do(t, "DELETE", keys+"/"+first.ID, "").into(t, 200, nil)
	assert.Equal(t, len(valid()), 0, "the revoked key is valid")
	want := []string{"organization.registered.v1", "organization.key-issued.v2", "organization.key-issued.v2",
		"organization.key-revoked.v1"}
	assert.Slices(t, s.EventTypes(t, "organization-"+org.ID.String()), want, "events")

	var list adminapi.List[query.Credential]
	answer := s.do(t, "GET", keys, "")
	answer.into(t, 200, &list)
	must.Equal(t, len(list.Items), 2, "keys: %s", answer.body)
	newest, oldest := list.Items[0], list.Items[1]
	assert.True(t, newest.ID == second.ID && newest.ExpiresAt != nil && newest.ExpiresAt.Year() == 2100 &&
		newest.RevokedAt == nil && !newest.CreatedAt.IsZero(), "the newest: %+v", newest)
	assert.True(t, oldest.ID == first.ID && oldest.Name == "crm" && oldest.ExpiresAt == nil && oldest.RevokedAt != nil,
		"the oldest: %+v", oldest)
	assert.True(t, !strings.Contains(answer.body, strings.TrimPrefix(second.Key, "ck_"+second.ID+"_")) &&
		!strings.Contains(answer.body, "hash") && strings.Count(answer.body, `"revokedAt":null`) == 1,
		"the list holds more than ids, or one key of two was not revoked: %s", answer.body)
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
	assert.Equal(t, first, again, "the same source twice: %v and %v", first.ID, again.ID)
	s.do(t, "POST", "/admin/sources/"+first.ID.String()+"/collect", "").into(t, 202, &again)
	list := into[adminapi.List[query.Source]](t, 200, s.do(t, "GET", "/admin/sources", ""))
	assert.True(t, len(list.Items) == 2 && list.Items[0].URL == "https://example.org/events" &&
		list.Items[1].Handle == "townhall" && list.Items[0].DueAt != nil, "sources: %+v", list.Items)
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
	assert.Equal(t, created.ID, id, "registered")
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
	assert.True(t, len(list.Items) == 1 && list.Items[0].Position == "7/7", "projections: %+v", list)
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

func TestSourcesArePausedAndResumed(t *testing.T) {
	s := serveAlone(t)
	var made, answer adminapi.Created
	s.do(t, "POST", "/admin/sources", `{"type":"site","url":"https://example.org/events"}`).into(t, 201, &made)
	path := "/admin/sources/" + made.ID.String()
	shown := func() query.Source {
		t.Helper()
		list := into[adminapi.List[query.Source]](t, 200, s.do(t, "GET", "/admin/sources", ""))
		must.Equal(t, len(list.Items), 1, "sources: %+v", list)
		return list.Items[0]
	}
	if got := shown(); got.State != "registered" || got.PausedAt != nil || !got.Since.Equal(got.CreatedAt) ||
		got.Interval != 1800 {
		t.Errorf("registered: %+v", got)
	}
	for range 2 {
		s.do(t, "POST", path+"/pause", `{"reason":"the owner objects"}`).into(t, 200, &answer)
	}
	got := shown()
	assert.True(t, got.State == "paused" && got.PausedAt != nil && got.PausedFor == "the owner objects" &&
		got.PausedBy == "operator" && got.Since.Equal(*got.PausedAt) && got.DueAt == nil &&
		strings.Contains(got.Advice, "source resume "+made.ID.String()), "paused: %+v, %+v", got, got.PausedAt)
	s.do(t, "POST", path+"/collect", "").refused(t, 409, "CONFLICT",
		"source is paused: the owner objects; resume it first")
	for range 2 {
		s.do(t, "POST", path+"/resume", "").into(t, 200, &answer)
	}
	if got := shown(); got.State != "registered" || got.PausedAt != nil || answer.ID != made.ID {
		t.Errorf("resumed: %+v", got)
	}
	s.do(t, "POST", path+"/collect", "").into(t, 202, &answer)
	want := []string{"source.registered.v1", "source.paused.v1", "source.resumed.v1", "source.collection-requested.v1"}
	assert.Slices(t, s.EventTypes(t, "source-"+made.ID.String()), want, "events")
	for body, message := range map[string]string{
		`{}`: "reason is required", `{"reason":" "}`: "reason must not be empty",
		`{"reason":"` + strings.Repeat("x", 1001) + `"}`: "reason must have at most 1000 characters",
	} {
		s.do(t, "POST", path+"/pause", body).refused(t, 400, "INVALID_BODY", message)
	}
	for _, action := range []string{"/pause", "/resume"} {
		body := map[string]string{"/pause": `{"reason":"x"}`}[action]
		s.do(t, "POST", "/admin/sources/"+uuid.NewString()+action, body).refused(t, 404, "NOT_FOUND", "source not found")
		s.do(t, "POST", "/admin/sources/7"+action, body).refused(t, 400, "INVALID_PARAMS", "id must be a UUID")
		s.do(t, "GET", path+action, "").refused(t, 404, "NOT_FOUND", "POST")
	}
}

func TestSettingsOfSources(t *testing.T) {
	s := serveAlone(t)
	var made, answer adminapi.Created
	s.do(t, "POST", "/admin/sources", `{"type":"site","url":"https://example.org/events"}`).into(t, 201, &made)
	path := "/admin/sources/" + made.ID.String() + "/settings"
	for range 2 {
		s.do(t, "PUT", path, `{"ignoreLists":true,"selectors":{"event":"#p > li","start":".when"}}`).into(t, 200, &answer)
	}
	list := into[adminapi.List[query.Source]](t, 200, s.do(t, "GET", "/admin/sources", ""))
	if got := string(list.Items[0].Settings); strings.Join(strings.Fields(got), "") !=
		`{"selectors":{"event":"#p>li","start":".when"},"ignoreLists":true}` {
		t.Errorf("settings: %s", got)
	}
	want := []string{"source.registered.v1", "source.revised.v1"}
	assert.Slices(t, s.EventTypes(t, "source-"+made.ID.String()), want, "events")
	for body, message := range map[string]string{
		`{"selectors":{"event":"li:has(a)"}}`: "event must be a CSS selector", `{"lists":true}`: "lists is not a known",
		`{"selectors":{"title":"b"}}`: "event is required",
	} {
		s.do(t, "PUT", path, body).refused(t, 400, "INVALID_BODY", message)
	}
	s.do(t, "PUT", "/admin/sources/"+uuid.NewString()+"/settings", `{"ignoreLists":true}`).
		refused(t, 404, "NOT_FOUND", "source not found")
}

func TestSourcesAreNarrowedDown(t *testing.T) {
	s := serveAlone(t)
	var made adminapi.Created
	for _, body := range []string{
		`{"type":"site","url":"https://example.org/events"}`, `{"type":"sitemap","url":"https://example.org/sitemap.xml"}`,
		`{"type":"twitter","handle":"Town_Hall"}`,
	} {
		s.do(t, "POST", "/admin/sources", body).into(t, 201, &made)
	}
	s.do(t, "POST", "/admin/sources/"+made.ID.String()+"/pause", `{"reason":"no contract"}`).into(t, 200, nil)
	list := into[adminapi.List[query.Source]](t, 200,
		s.do(t, "GET", "/admin/sources?state=registered&type=site&q=EXAMPLE", ""))
	assert.True(t, len(list.Items) == 1 && list.Items[0].Type == "site", "narrowed down: %+v", list.Items)
	for query, message := range map[string]string{
		"?state=broken": "state must be one of registered, collecting, ok, failing, needs_credentials, needs_javascript, " +
			"paused",
		"?type=radio": "type must be one of site, sitemap, siteIndexPage, instagram, facebook, tiktok, twitter",
		"?state=":     "state must be one of",
		"?host=x":     "host is not a known query parameter: use state, type, q",
		"?q=a&q=b":    "q is given twice",
	} {
		s.do(t, "GET", "/admin/sources"+query, "").refused(t, 400, "INVALID_QUERY", message)
	}
	states := into[adminapi.SourceStates](t, 200, s.do(t, "GET", "/admin/sources/states", ""))
	assert.True(t, states.Total == 3 && states.States["registered"] == 2 && states.States["paused"] == 1 &&
		len(states.States) == 2, "states: %+v", states)
	s.do(t, "GET", "/admin/sources/states?q=x", "").refused(t, 400, "INVALID_QUERY", "q is not a known query parameter")
}

func TestHappening_originsOfFields(t *testing.T) {
	s := serve(t)
	var page, list adminapi.Created
	s.do(t, "POST", "/admin/sources", `{"type":"site","url":"https://hall.example/1"}`).into(t, 201, &page)
	s.do(t, "POST", "/admin/sources", `{"type":"siteIndexPage","url":"https://town.example/events"}`).into(t, 201, &list)
	id := uuid.New()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	start := time.Date(2026, 12, 5, 19, 0, 0, 0, time.UTC)
	observe := func(source uuid.UUID, standing happening.Standing, title, description, syntax string,
		status happening.Status) {
		t.Helper()
		instance := happening.DeriveInstanceID("k", "1")
		out := must.Get(happening.Aggregate.Execute(t.Context(), s.Store, id, happening.Observe{
			SourceID: source,
			Key:      "k",
			At:       now,
			Standing: standing,
			Source:   happening.Block{Type: "site", URL: "https://" + title + ".example/"},
			Details: happening.Details{
				Title:       title,
				Description: description,
				Time:        happening.Time{TemporalPattern: happening.Singular, Timezone: "Europe/Rome"},
				Instances: []happening.Instance{{ID: instance, Status: status, Occurrences: []happening.Occurrence{
					{ID: happening.DeriveOccurrenceID(instance, 0), Start: start, Status: status},
				}}},
			},
			Origins: []happening.Origin{{
				Page:   "https://" + title + ".example/p",
				Syntax: syntax,
				Paths: map[happening.Field]string{
					happening.FieldTitle: syntax + ".name", happening.FieldStart: syntax + ".startDate",
				},
			}},
		}, happening.Options{}))(t)
		s.Patient(t.Context(), out.Position, items.ReadModel.Name)
	}
	observe(list.ID, happening.FromListing, "list", "<p>The list has a description.</p>", "rdfa", happening.Cancelled)
	observe(page.ID, happening.FromOwnPage, "page", "", "json-ld", happening.Scheduled)
	fields := func() (map[string]adminapi.HappeningField, adminapi.Happening) {
		t.Helper()
		shown := into[adminapi.Happening](t, 200, s.do(t, "GET", "/admin/happenings/"+id.String(), ""))
		byName := map[string]adminapi.HappeningField{}
		for _, field := range shown.Fields {
			byName[field.Field] = field
		}
		return byName, shown
	}
	got, whole := fields()
	// origin is a value on the page of its name.
	origin := func(source uuid.UUID, name, syntax, path string, value any) []adminapi.HappeningOrigin {
		o := adminapi.HappeningOrigin{SourceID: source, At: now, Value: value}
		if syntax != "" {
			o.Page, o.Syntax, o.Path = "https://"+name+".example/p", syntax, syntax+path
		}
		return []adminapi.HappeningOrigin{o}
	}
	cancelled, scheduled := []any{"cancelled"}, []any{"scheduled"}
	want := map[string]adminapi.HappeningField{
		"title": {
			Field:  "title",
			Value:  "page",
			From:   origin(page.ID, "page", "json-ld", ".name", "page"),
			Others: origin(list.ID, "list", "rdfa", ".name", "list"),
		},
		"status": {
			Field:  "status",
			Value:  cancelled,
			From:   origin(list.ID, "list", "", "", cancelled),
			Others: origin(page.ID, "page", "", "", scheduled),
		},
	}
	for name, field := range want {
		assert.Alike(t, got[name], field, "%s", name)
	}
	assert.True(t, len(whole.Sources) == 2 && whole.StaleSince == nil && whole.Sources[0].URL != "",
		"sources: %+v, stale since %v", whole.Sources, whole.StaleSince)
	for n, source := range []uuid.UUID{page.ID, list.ID} {
		at := now.Add(time.Duration(n+1) * time.Hour)
		out := must.Get(happening.Aggregate.Execute(t.Context(), s.Store, id,
			happening.MarkStale{SourceID: source, At: at},
			happening.Options{}))(t)
		s.Patient(t.Context(), out.Position, items.ReadModel.Name)
	}
	if _, whole = fields(); whole.StaleSince == nil || !whole.StaleSince.Equal(now.Add(2*time.Hour)) {
		t.Errorf("no source shows it since %v", whole.StaleSince)
	}
	s.do(t, "GET", "/admin/happenings/"+uuid.NewString(), "").refused(t, 404, "NOT_FOUND", "no event has this id")
	s.do(t, "GET", "/admin/happenings/x", "").refused(t, 400, "INVALID_PARAMS", "id")
}
