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
	org, orgPath := s.organization(t)
	organizations := into[adminapi.List[query.Organization]](t, 200, s.do(t, "GET", "/admin/organizations", ""))
	o := organizations.Items
	assert.True(t, len(o) == 1 && o[0].ID == org && o[0].Name == "Town hall", "organizations: %+v", o)
	_, other := s.organization(t)
	keys := orgPath + "/keys"
	got := s.do(t, "GET", keys, "")
	assert.True(t, strings.Contains(got.body, `"items":[]`), "no keys: %s", got.body)
	var first, second adminapi.IssuedKey
	s.do(t, "POST", keys, `{"name":"crm"}`).into(t, 201, &first)
	s.do(t, "POST", keys, `{"expiresAt":"2100-01-01T00:00:00Z"}`).into(t, 201, &second)
	s.do(t, "POST", other+"/keys", `{}`).into(t, 201, &adminapi.IssuedKey{})
	valid := func() []query.Key {
		return must.Get(s.Queries.FindKeys(t.Context(), []string{first.ID}, time.Now()))(t)
	}
	parsed, ok := credential.Parse(credential.APIKey, first.Key)
	must.True(t, ok && parsed.ID == first.ID, "issued %q", first.Key)
	found := valid()
	assert.True(t, len(found) == 1 && found[0].Organization == org, "the key can't be read: %+v", found)
	s.do(t, "DELETE", keys+"/"+first.ID, "").into(t, 200, nil)
	assert.Equal(t, len(valid()), 0, "the revoked key is valid")
	want := []string{"organization.registered.v1", "organization.key-issued.v2", "organization.key-issued.v2",
		"organization.key-revoked.v1"}
	assert.Slices(t, s.EventTypes(t, "organization-"+org.String()), want, "events")

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
		of := "/admin/organizations/"
		s.do(t, method, of+uuid.NewString()+"/keys", body).refused(t, 404, "NOT_FOUND", "organization not found")
		s.do(t, method, of+"7/keys", body).refused(t, 400, "INVALID_PARAMS", "id must be a UUID")
	}
	s.do(t, "DELETE", keys+"/nobody00", "").refused(t, 404, "NOT_FOUND", "key not found")
	s.do(t, "POST", "/admin/organizations", `{}`).refused(t, 400, "INVALID_BODY", "name is required")
}

const oneSource = `{"type":"site","url":"https://example.org/events","timezone":"Europe/Rome"}`

func TestSources(t *testing.T) {
	s := serveAlone(t)
	first, path := s.source(t, oneSource)
	again, _ := s.source(t, oneSource)
	s.source(t, `{"type":"instagram","handle":"@townhall"}`)
	assert.Equal(t, first, again, "the same source twice")
	s.do(t, "POST", path+"/collect", "").into(t, 202, new(adminapi.Created))
	list := s.sources(t, "")
	assert.True(t, len(list) == 2 && list[0].URL == "https://example.org/events" && list[1].Handle == "townhall" &&
		list[0].DueAt != nil, "sources: %+v", list)
	for range 2 {
		settings := `{"ignoreLists":true,"selectors":{"event":"#p > li","start":".when"}}`
		s.do(t, "PUT", path+"/settings", settings).into(t, 200, new(adminapi.Created))
	}
	assert.Equal(t, strings.Join(strings.Fields(string(s.sources(t, "")[0].Settings)), ""),
		`{"selectors":{"event":"#p>li","start":".when"},"ignoreLists":true}`, "settings")
	want := []string{"source.registered.v1", "source.collection-requested.v1", "source.revised.v1"}
	assert.Slices(t, s.EventTypes(t, "source-"+first.String()), want, "events")
}

// Refusals name the field or parameter that is wrong.
func TestSourceRefusals(t *testing.T) {
	s := serve(t)
	_, path := s.source(t, `{"type":"site","url":"https://example.org/refused"}`)
	for _, tt := range []struct{ method, path, body, message string }{
		{"POST", "/admin/sources", `{"type":"radio"}`, "type must be one of site"},
		{"POST", "/admin/sources", `{"type":"site"}`, "url must not be empty"},
		{"POST", "/admin/sources", `{"type":"site","url":"example.org"}`, "url must be absolute"},
		{"POST", "/admin/sources", `{"type":"twitter"}`, "handle is required"},
		{"POST", "/admin/sources", `{"type":"site","url":"https://example.org","timezone":"Mars/Base"}`,
			"timezone must be"},
		{"POST", path + "/pause", `{}`, "reason is required"},
		{"POST", path + "/pause", `{"reason":" "}`, "reason must not be empty"},
		{"POST", path + "/pause", `{"reason":"` + strings.Repeat("x", 1001) + `"}`,
			"reason must have at most 1000 characters"},
		{"PUT", path + "/settings", `{"selectors":{"event":"li:has(a)"}}`, "event must be a CSS selector"},
		{"PUT", path + "/settings", `{"lists":true}`, "lists is not a known"},
		{"PUT", path + "/settings", `{"selectors":{"title":"b"}}`, "event is required"},
	} {
		s.do(t, tt.method, tt.path, tt.body).refused(t, 400, "INVALID_BODY", tt.message)
	}
	for query, message := range map[string]string{
		"?state=broken": "state must be one of registered, collecting, ok, failing, needs_credentials, " +
			"needs_javascript, paused",
		"?type=radio": "type must be one of site, sitemap, siteIndexPage, instagram, facebook, tiktok, twitter",
		"?state=":     "state must be one of",
		"?host=x":     "host is not a known query parameter: use state, type, q",
		"?q=a&q=b":    "q is given twice",
		"/states?q=x": "q is not a known query parameter",
	} {
		s.do(t, "GET", "/admin/sources"+query, "").refused(t, 400, "INVALID_QUERY", message)
	}
	for action, body := range map[string]string{
		"POST /pause":   `{"reason":"x"}`,
		"POST /resume":  "",
		"POST /collect": "",
		"PUT /settings": `{"ignoreLists":true}`,
	} {
		method, action, _ := strings.Cut(action, " ")
		of := "/admin/sources/" + uuid.NewString()
		s.do(t, method, of+action, body).refused(t, 404, "NOT_FOUND", "source not found")
		s.do(t, method, "/admin/sources/7"+action, body).refused(t, 400, "INVALID_PARAMS", "id must be a UUID")
		s.do(t, "GET", path+action, "").refused(t, 404, "NOT_FOUND", method)
	}
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
	for _, body := range []string{`{"sample":0}`, `{"sample":101}`, `{"sample":-1}`} {
		s.do(t, "POST", "/admin/projections/feeds/verify", body).refused(t, 400, "INVALID_BODY",
			"sample must be more than 0 and at most 100")
	}
	for action, body := range map[string]string{"rebuild": "", "verify": `{"sample":2.5}`} {
		s.projections.rebuilding = ""
		s.do(t, "POST", "/admin/projections/unknown/"+action, "").refused(t, 404, "NOT_FOUND", "GET /admin/projections")
		s.do(t, "POST", "/admin/projections/feeds/"+action, body).into(t, 202, &adminapi.Rebuilding{})
		s.do(t, "POST", "/admin/projections/feeds/"+action, "").refused(t, 409, "CONFLICT", "already")
	}
}

func TestSourcesArePausedAndResumed(t *testing.T) {
	s := serveAlone(t)
	id, path := s.source(t, oneSource)
	var answer adminapi.Created
	shown := func() query.Source { return s.sources(t, "")[0] }
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
		strings.Contains(got.Advice, "source resume "+id.String()), "paused: %+v, %+v", got, got.PausedAt)
	s.do(t, "POST", path+"/collect", "").refused(t, 409, "CONFLICT",
		"source is paused: the owner objects; resume it first")
	for range 2 {
		s.do(t, "POST", path+"/resume", "").into(t, 200, &answer)
	}
	if got := shown(); got.State != "registered" || got.PausedAt != nil || answer.ID != id {
		t.Errorf("resumed: %+v", got)
	}
	s.do(t, "POST", path+"/collect", "").into(t, 202, &answer)
	want := []string{"source.registered.v1", "source.paused.v1", "source.resumed.v1", "source.collection-requested.v1"}
	assert.Slices(t, s.EventTypes(t, "source-"+id.String()), want, "events")
}

func TestSourcesAreNarrowedDown(t *testing.T) {
	s := serveAlone(t)
	s.source(t, oneSource)
	s.source(t, `{"type":"sitemap","url":"https://example.org/sitemap.xml"}`)
	_, path := s.source(t, `{"type":"twitter","handle":"Town_Hall"}`)
	s.do(t, "POST", path+"/pause", `{"reason":"no contract"}`).into(t, 200, nil)
	list := s.sources(t, "?state=registered&type=site&q=EXAMPLE")
	assert.True(t, len(list) == 1 && list[0].Type == "site", "narrowed down: %+v", list)
	states := into[adminapi.SourceStates](t, 200, s.do(t, "GET", "/admin/sources/states", ""))
	assert.True(t, states.Total == 3 && states.States["registered"] == 2 && states.States["paused"] == 1 &&
		len(states.States) == 2, "states: %+v", states)
}

func TestHappening_originsOfFields(t *testing.T) {
	s := serve(t)
	page, _ := s.source(t, `{"type":"site","url":"https://hall.example/1"}`)
	list, _ := s.source(t, `{"type":"siteIndexPage","url":"https://town.example/events"}`)
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
	observe(list, happening.FromListing, "list", "<p>The list has a description.</p>", "rdfa", happening.Cancelled)
	observe(page, happening.FromOwnPage, "page", "", "json-ld", happening.Scheduled)
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
			From:   origin(page, "page", "json-ld", ".name", "page"),
			Others: origin(list, "list", "rdfa", ".name", "list"),
		},
		"status": {
			Field:  "status",
			Value:  cancelled,
			From:   origin(list, "list", "", "", cancelled),
			Others: origin(page, "page", "", "", scheduled),
		},
	}
	for name, field := range want {
		assert.Alike(t, got[name], field, "%s", name)
	}
	assert.True(t, len(whole.Sources) == 2 && whole.StaleSince == nil && whole.Sources[0].URL != "",
		"sources: %+v, stale since %v", whole.Sources, whole.StaleSince)
	for n, source := range []uuid.UUID{page, list} {
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
