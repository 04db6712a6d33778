package adminapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/query"
)

func TestSourcesArePausedAndResumed(t *testing.T) {
	t.Parallel()
	s := serveAlone(t)
	var made, answer adminapi.Created
	s.do(t, "POST", "/admin/sources", `{"type":"site","url":"https://example.org/events"}`).into(t, 201, &made)
	path := "/admin/sources/" + made.ID.String()
	shown := func() query.Source {
		t.Helper()
		var list adminapi.List[query.Source]
		s.do(t, "GET", "/admin/sources", "").into(t, 200, &list)
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
		`{}`: "reason is required", `{"reason":" "}`: "reason must not be empty", `{"reason":7}`: "reason",
		`{"reason":"` + strings.Repeat("x", 1001) + `"}`: "reason must have at most 1000 characters",
		`{"why":"x"}`:           "why is not a known field",
		`{"reason":"a\u0000b"}`: "reason must not contain NUL",
	} {
		s.do(t, "POST", path+"/pause", body).refused(t, 400, "INVALID_BODY", message)
	}
	s.do(t, "POST", path+"/resume", `{"now":true}`).refused(t, 400, "INVALID_BODY", "now is not a known field")
	for _, action := range []string{"/pause", "/resume"} {
		body := map[string]string{"/pause": `{"reason":"x"}`}[action]
		s.do(t, "POST", "/admin/sources/"+uuid.NewString()+action, body).refused(t, 404, "NOT_FOUND", "source not found")
		s.do(t, "POST", "/admin/sources/7"+action, body).refused(t, 400, "INVALID_PARAMS", "id must be a UUID")
		s.do(t, "GET", path+action, "").refused(t, 404, "NOT_FOUND", "POST")
	}
}

func TestSourcesAreNarrowedDown(t *testing.T) {
	t.Parallel()
	s := serveAlone(t)
	var made adminapi.Created
	for _, body := range []string{
		`{"type":"site","url":"https://example.org/events"}`, `{"type":"sitemap","url":"https://example.org/sitemap.xml"}`,
		`{"type":"twitter","handle":"Town_Hall"}`,
	} {
		s.do(t, "POST", "/admin/sources", body).into(t, 201, &made)
	}
	s.do(t, "POST", "/admin/sources/"+made.ID.String()+"/pause", `{"reason":"no contract"}`).into(t, 200, nil)
	for narrowed, want := range map[string]string{
		"": "site sitemap twitter", "?state=paused": "twitter", "?state=registered": "site sitemap",
		"?type=sitemap":  "sitemap",
		"?q=EXAMPLE.org": "site sitemap", "?q=town_h": "twitter", "?q=town%25": "",
		"?state=registered&type=site&q=events": "site", "?state=failing": "",
	} {
		var list adminapi.List[query.Source]
		s.do(t, "GET", "/admin/sources"+narrowed, "").into(t, 200, &list)
		var types []string
		for _, source := range list.Items {
			types = append(types, source.Type)
		}
		if got := strings.Join(types, " "); got != want || list.Items == nil {
			t.Errorf("%q gives %q, want %q", narrowed, got, want)
		}
	}
	for query, message := range map[string]string{
		"?state=broken": "state must be one of registered, collecting, ok, failing, needs_credentials, needs_javascript, " +
			"paused",
		"?type=radio": "type must be one of site, sitemap, siteIndexPage, instagram, facebook, tiktok, twitter",
		"?state=":     "state must be one of", "?q=a%00b": "q must be", "?q=%ff": "q must be",
		"?host=x":  "host is not a known query parameter: use state, type, q",
		"?q=a&q=b": "q is given twice",
	} {
		s.do(t, "GET", "/admin/sources"+query, "").refused(t, 400, "INVALID_QUERY", message)
	}
	var states adminapi.SourceStates
	s.do(t, "GET", "/admin/sources/states", "").into(t, 200, &states)
	if states.Total != 3 || states.States["registered"] != 2 || states.States["paused"] != 1 || len(states.States) != 2 {
		t.Errorf("states: %+v", states)
	}
	s.do(t, "GET", "/admin/sources/states?q=x", "").refused(t, 400, "INVALID_QUERY", "q is not a known query parameter")
}
