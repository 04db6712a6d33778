package adminapi_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/cmd/internal/adminapi"
	"carillon/eventstore/storetest/must"
	"carillon/projections/items"
	"carillon/query"
)

func TestSourcesArePausedAndResumed(t *testing.T) {
	s := serveAlone(t)
	var made, answer adminapi.Created
	s.do(t, "POST", "/admin/sources", `{"type":"site","url":"https://example.org/events"}`).into(t, 201, &made)
	path := "/admin/sources/" + made.ID.String()
	shown := func() query.Source {
		t.Helper()
		list := into[adminapi.List[query.Source]](t, 200, s.do(t, "GET", "/admin/sources", ""))
		if len(list.Items) != 1 {
			t.Fatalf("sources: %+v", list)
		}
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
	if got.State != "paused" || got.PausedAt == nil || got.PausedFor != "the owner objects" ||
		got.PausedBy != "operator" ||
		!got.Since.Equal(*got.PausedAt) || got.DueAt != nil ||
		!strings.Contains(got.Advice, "source resume "+made.ID.String()) {
		t.Errorf("paused: %+v, %+v", got, got.PausedAt)
	}
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
	if got := s.EventTypes(t, "source-"+made.ID.String()); !slices.Equal(got, want) {
		t.Errorf("events = %v, want %v", got, want)
	}
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
	if got := s.EventTypes(t, "source-"+made.ID.String()); !slices.Equal(got, want) {
		t.Errorf("events = %v, want %v", got, want)
	}
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
	if len(list.Items) != 1 || list.Items[0].Type != "site" {
		t.Errorf("narrowed down: %+v", list.Items)
	}
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
	if states.Total != 3 || states.States["registered"] != 2 || states.States["paused"] != 1 || len(states.States) != 2 {
		t.Errorf("states: %+v", states)
	}
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
		if diff := cmp.Diff(field, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if len(whole.Sources) != 2 || whole.StaleSince != nil || whole.Sources[0].URL == "" {
		t.Errorf("sources: %+v, stale since %v", whole.Sources, whole.StaleSince)
	}
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
