package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/eventstore"
	"carillon/projections/feeds"
)

func TestPatchFeedMerges(t *testing.T) {
	t.Parallel()
	s := serve(t)
	made, path := s.eventFeed(t)
	want := made
	for _, tt := range []struct {
		body   string
		change func(*feedView)
		events []string
	}{
		{`{}`, func(*feedView) {}, nil},
		{`{"config":{}}`, func(*feedView) {}, nil},
		// as it is
		{`{"name":"Downtown","description":"Near","enabled":true,"config":{"version":1}}`, func(*feedView) {}, nil},
		{`{"name":"Uptown"}`, func(f *feedView) { f.Name = "Uptown" }, []string{"feed.revised.v1"}},
		{`{"description":"Far"}`, func(f *feedView) { f.Description = "Far" }, []string{"feed.revised.v1"}},
		{`{"config":{"version":2.5}}`, func(f *feedView) { f.Config.Version = 2.5 }, []string{"feed.revised.v1"}},
		{`{"enabled":false}`, func(f *feedView) { f.Enabled, f.EnabledSource = false, "api" }, []string{"feed.disabled.v1"}},
		{`{"enabled":false}`, func(*feedView) {}, nil},
		{`{"name":"Town","enabled":true}`, func(f *feedView) {
			f.Name, f.Enabled = "Town", true
		}, []string{"feed.revised.v1", "feed.enabled.v1"}},
	} {
		before := s.EventTypes(t, "feed-"+made.ID)
		var got, read feedView
		answer := s.do(t, request{method: "PATCH", path: path, body: tt.body})
		answer.into(t, 200, &got)
		tt.change(&want)
		if (len(tt.events) > 0) != got.UpdatedAt.After(want.UpdatedAt) {
			t.Errorf("%s: updatedAt was %s and is %s", tt.body, want.UpdatedAt, got.UpdatedAt)
		}
		want.UpdatedAt = got.UpdatedAt
		shown := s.do(t, request{path: path})
		shown.into(t, 200, &read)
		if strings.Contains(shown.body, "enabledReason") {
			t.Errorf("%s: read again, %s has a reason", tt.body, shown.body)
		}
		if diff := cmp.Diff([]feedView{want, want}, []feedView{got, read}); diff != "" {
			t.Errorf("%s: answered and read (-want +got):\n%s", tt.body, diff)
		}
		if !strings.Contains(answer.body, `"enabledReason":null`) {
			t.Errorf("%s: the answer %s does not say that there is no reason", tt.body, answer.body)
		}
		if events := s.EventTypes(t, "feed-"+made.ID)[len(before):]; !slices.Equal(events, tt.events) {
			t.Errorf("%s: recorded %v, want %v", tt.body, events, tt.events)
		}
	}
}

// The last actor that switched a feed is named with its reason; over the API no reason can be given.
func TestFeedDisabledByAdminIsEnabled(t *testing.T) {
	t.Parallel()
	s := serve(t)
	made, path := s.eventFeed(t)
	off := false
	out, err := feed.Aggregate.Execute(t.Context(), s.Store, uuid.MustParse(made.ID), feed.Revise{
		Organization: s.org,
		Enabled:      &off,
		By:           feed.ByAdmin,
		Reason:       "maintenance",
		At:           made.UpdatedAt,
	}, feed.Options{Metadata: eventstore.Metadata{Actor: "operator"}})
	if err != nil {
		t.Fatal(err)
	}
	s.Await(t, out.Position, feeds.ReadModel.Name)
	var got feedView
	s.do(t, request{path: path}).into(t, 200, &got)
	if got.Enabled || got.EnabledSource != "admin" || got.EnabledReason == nil || *got.EnabledReason != "maintenance" {
		t.Errorf("disabled by an admin: %+v", got)
	}
	s.do(t, request{method: "PATCH", path: path, body: `{"name":"New"}`}).into(t, 200, &got)
	if got.Enabled || got.EnabledSource != "admin" || got.EnabledReason == nil {
		t.Errorf("renamed: %+v", got)
	}
	var changed, read feedView
	s.do(t, request{method: "PATCH", path: path, body: `{"enabled":true}`}).into(t, 200, &changed)
	s.do(t, request{path: path}).into(t, 200, &read)
	for _, f := range []feedView{changed, read} {
		if !f.Enabled || f.EnabledSource != "api" || f.EnabledReason != nil {
			t.Errorf("enabled over the API: %+v", f)
		}
	}
}

func TestPatchFeedIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	made, path := s.eventFeed(t)
	reader := s.share(t, made.ID)
	before := s.EventTypes(t, "feed-"+made.ID)
	for body, want := range map[string][2]string{
		`{"name":""}`:                           {"name", "must not be empty"},
		`{"name":" \t"}`:                        {"name", "must not be empty"},
		`{"description":""}`:                    {"description", "must not be empty"},
		`{"description":"a\u0000b"}`:            {"description", "NUL"},
		`{"name":null}`:                         {"name", "must not be null"},
		`{"enabled":null}`:                      {"enabled", "must not be null"},
		`{"enabled":"false"}`:                   {"enabled", "must be a boolean, not a string"},
		`{"enabled":0}`:                         {"enabled", "must be a boolean, not a number"},
		`{"config":null}`:                       {"config", "must not be null"},
		`{"config":{"version":"2"}}`:            {"config.version", "must be a number, not a string"},
		`{"config":{"version":1e400}}`:          {"config.version", "must be a number"},
		`{"config":{"revision":2}}`:             {"config.revision", "not a known field"},
		`{"enabledReason":"because"}`:           {"enabledReason", "not a known field"},
		`{"id":"` + uuid.NewString() + `"}`:     {"id", "not a known field"},
		`{"name":"fine","description":["not"]}`: {"description", "must be a string, not an array"},
		`[]`:                                    {"body", "must be an object"},
	} {
		s.do(t, request{method: "PATCH", path: path, body: body}).blames(t, want[0], want[1])
	}
	s.do(t, request{
		method: "PATCH",
		path:   path,
		key:    reader,
		body:   `{"name":"Mine"}`,
	}).refused(t, 403, "FORBIDDEN", "only the organization that owns")
	s.do(t, request{method: "DELETE", path: path, key: reader}).refused(t, 403, "FORBIDDEN",
		"only the organization that owns")
	for _, id := range []string{uuid.NewString(), "7"} {
		s.do(t, request{method: "PATCH", path: feedsPath + "/" + id, body: `{"name":"x"}`}).refused(t, 404, "NOT_FOUND",
			"not found")
		s.do(t, request{method: "DELETE", path: feedsPath + "/" + id}).refused(t, 404, "NOT_FOUND", "not found")
	}
	if after := s.EventTypes(t, "feed-"+made.ID); len(after) != len(before) {
		t.Errorf("refused requests recorded %v", after[len(before):])
	}
}

func TestDisabledFeedGetsNoNewItems(t *testing.T) {
	t.Parallel()
	s := serve(t)
	source := s.site(t)
	s.observe(t, source, s.concert("Before", tomorrow()))
	_, path := s.eventFeed(t)
	_, other := s.eventFeed(t)
	s.attach(t, path, source)
	s.attach(t, other, source)
	s.items(t, path, 1)
	s.do(t, request{method: "PATCH", path: path, body: `{"enabled":false}`}).into(t, 200, new(any))
	s.observe(t, source, s.concert("Meanwhile", tomorrow()))
	s.items(t, other, 2)
	s.observe(t, source, s.concert("Later", tomorrow()))
	s.items(t, other, 3)
	s.items(t, path, 1) // its items stay readable
	s.do(t, request{method: "PATCH", path: path, body: `{"enabled":true}`}).into(t, 200, new(any))
	s.items(t, path, 3)
}

func TestPatchesAtOnceAreAllMerged(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, path := s.eventFeed(t)
	bodies := []string{`{"name":"N"}`, `{"description":"D"}`, `{"config":{"version":7}}`, `{"enabled":false}`}
	statuses := make(chan int, len(bodies))
	for _, body := range bodies {
		go func() { statuses <- s.do(t, request{method: "PATCH", path: path, body: body}).status }()
	}
	for range bodies {
		if status := <-statuses; status != 200 {
			t.Errorf("answered %d", status)
		}
	}
	var got feedView
	s.do(t, request{path: path}).into(t, 200, &got)
	if got.Name != "N" || got.Description != "D" || got.Config.Version != 7 || got.Enabled {
		t.Errorf("merged: %+v", got)
	}
}

func TestDetachedSourceTakesItsItems(t *testing.T) {
	t.Parallel()
	s := serve(t)
	first, second := s.site(t), s.site(t)
	s.observe(t, first, s.concert("Alone", tomorrow()))
	s.observe(t, first, s.concert("Both", tomorrow()))
	s.observe(t, second, s.concert("Both", tomorrow()))
	made, path := s.eventFeed(t)
	_, other := s.eventFeed(t)
	association, stays := s.attach(t, path, first), s.attach(t, path, second)
	elsewhere := s.attach(t, other, first)
	reader := s.share(t, made.ID)
	ids := s.items(t, path, 2)
	s.items(t, other, 2)

	s.do(t, request{method: "DELETE", path: path + "/sources/" + association, key: reader}).refused(t, 403, "FORBIDDEN",
		"only the organization that owns")
	// the source's own id is not one of an association
	for _, wrong := range []string{first.String(), elsewhere, uuid.NewString(), "7"} {
		s.do(t, request{method: "DELETE", path: path + "/sources/" + wrong}).refused(t, 404, "NOT_FOUND", "not found")
	}
	got := s.do(t, request{method: "DELETE", path: path + "/sources/" + association})
	if got.status != http.StatusOK || got.body != `{"success":true}` {
		t.Errorf("answered %d %s", got.status, got.body)
	}
	if events := s.EventTypes(t, "feed-"+made.ID); events[len(events)-1] != "feed.source-detached.v1" {
		t.Errorf("recorded %v", events)
	}
	s.do(t, request{method: "DELETE", path: path + "/sources/" + association}).refused(t, 404, "NOT_FOUND",
		"source association not found")

	var page itemsPage // at once, by the rule that a write is read by the next request
	s.do(t, request{path: path + "/items"}).into(t, 200, &page)
	if titles := page.titles(); !slices.Equal(titles, []string{"Both"}) || page.Total != 1 {
		t.Errorf("after the detachment the feed has %v", titles)
	}
	s.do(t, request{path: "/v0" + path + "/items"}).into(t, 200, &page)
	if page.Total != 1 {
		t.Errorf("after the detachment the legacy list has %v", page.titles())
	}
	gone := path + "/items/" + ids["Alone"]
	s.do(t, request{path: gone}).refused(t, 404, "NOT_FOUND", "item not found")
	s.do(t, request{method: "POST", path: gone + "/feedback", body: `{"rating":"negative"}`}).refused(t, 404, "NOT_FOUND",
		"item not found")
	var list []struct {
		ID string `json:"id"`
	}
	s.do(t, request{path: path + "/sources"}).into(t, 200, &list)
	if len(list) != 1 || list[0].ID != stays {
		t.Errorf("sources left: %+v", list)
	}
	s.items(t, other, 2)

	apitest.Eventually(t, "it is on record that the item was removed", func() bool {
		return slices.Equal(s.EventTypes(t, "item-"+ids["Alone"]), []string{"item.added.v1", "item.removed.v1"})
	})
	if again := s.attach(t, path, first); again == association {
		t.Error("a new association has the id of the old one")
	}
	if back := s.items(t, path, 2); back["Alone"] != ids["Alone"] {
		t.Errorf("it came back as %v, and was %v", back, ids)
	}
}
