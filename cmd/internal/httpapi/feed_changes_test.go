package httpapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/eventstore"
	"carillon/eventstore/storetest/must"
	"carillon/projections/feeds"
)

func TestPatchFeedMerges(t *testing.T) {
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
		answer := s.patch(t, path, tt.body)
		answer.into(t, 200, &got)
		tt.change(&want)
		if (len(tt.events) > 0) != got.UpdatedAt.After(want.UpdatedAt) {
			t.Errorf("%s: updatedAt was %s and is %s", tt.body, want.UpdatedAt, got.UpdatedAt)
		}
		want.UpdatedAt = got.UpdatedAt
		shown := s.get(t, path)
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
	s := serve(t)
	made, path := s.eventFeed(t)
	off := false
	out := must.Get(feed.Aggregate.Execute(t.Context(), s.Store, uuid.MustParse(made.ID), feed.Revise{
		Organization: s.org,
		Enabled:      &off,
		By:           feed.ByAdmin,
		Reason:       "maintenance",
		At:           made.UpdatedAt,
	}, feed.Options{Metadata: eventstore.Metadata{Actor: "operator"}}))(t)
	s.Await(t, out.Position, feeds.ReadModel.Name)
	got := into[feedView](t, 200, s.get(t, path))
	if got.Enabled || got.EnabledSource != "admin" || got.EnabledReason == nil || *got.EnabledReason != "maintenance" {
		t.Errorf("disabled by an admin: %+v", got)
	}
	s.patch(t, path, `{"name":"New"}`).into(t, 200, &got)
	if got.Enabled || got.EnabledSource != "admin" || got.EnabledReason == nil {
		t.Errorf("renamed: %+v", got)
	}
	var changed, read feedView
	s.patch(t, path, `{"enabled":true}`).into(t, 200, &changed)
	s.get(t, path).into(t, 200, &read)
	for _, f := range []feedView{changed, read} {
		if !f.Enabled || f.EnabledSource != "api" || f.EnabledReason != nil {
			t.Errorf("enabled over the API: %+v", f)
		}
	}
}

func TestPatchFeedIsRefused(t *testing.T) {
	s := serve(t)
	made, path := s.eventFeed(t)
	before := s.EventTypes(t, "feed-"+made.ID)
	for body, want := range map[string][2]string{
		`{"name":""}`:                       {"name", "must not be empty"},
		`{"description":""}`:                {"description", "must not be empty"},
		`{"description":"a\u0000b"}`:        {"description", "NUL"},
		`{"enabled":0}`:                     {"enabled", "must be a boolean, not a number"},
		`{"config":{"version":1e400}}`:      {"config.version", "must be a number"},
		`{"config":{"revision":2}}`:         {"config.revision", "not a known field"},
		`{"enabledReason":"because"}`:       {"enabledReason", "not a known field"},
		`{"id":"` + uuid.NewString() + `"}`: {"id", "not a known field"},
	} {
		s.patch(t, path, body).blames(t, want[0], want[1])
	}
	for _, id := range []string{uuid.NewString(), "7"} {
		s.patch(t, feedsPath+"/"+id, `{"name":"x"}`).refused(t, 404, "NOT_FOUND", "not found")
		s.delete(t, feedsPath+"/"+id).refused(t, 404, "NOT_FOUND", "not found")
	}
	if after := s.EventTypes(t, "feed-"+made.ID); len(after) != len(before) {
		t.Errorf("refused requests recorded %v", after[len(before):])
	}
}

func TestDetachedSourceTakesItsItems(t *testing.T) {
	s := serve(t)
	first, second := s.site(t), s.site(t)
	s.observe(t, first, s.concert("Alone", tomorrow()))
	s.observe(t, first, s.concert("Both", tomorrow()))
	s.observe(t, second, s.concert("Both", tomorrow()))
	_, path := s.eventFeed(t)
	_, other := s.eventFeed(t)
	association, stays := s.attach(t, path, first), s.attach(t, path, second)
	elsewhere := s.attach(t, other, first)
	ids := s.items(t, path, 2)
	// the source's own id is not one of an association
	for _, wrong := range []string{first.String(), elsewhere, uuid.NewString(), "7"} {
		s.delete(t, path+"/sources/"+wrong).refused(t, 404, "NOT_FOUND", "not found")
	}
	s.delete(t, path+"/sources/"+association).done(t)
	s.delete(t, path+"/sources/"+association).refused(t, 404, "NOT_FOUND", "source association not found")

	for _, version := range []string{"", "/v0"} { // at once, by the rule that a write is read by the next request
		page := into[itemsPage](t, 200, s.get(t, version+path+"/items"))
		if titles := page.titles(); !slices.Equal(titles, []string{"Both"}) || page.Total != 1 {
			t.Errorf("after the detachment the feed has %v", titles)
		}
	}
	s.get(t, path+"/items/"+ids["Alone"]).refused(t, 404, "NOT_FOUND", "item not found")
	var list []struct {
		ID string `json:"id"`
	}
	s.get(t, path+"/sources").into(t, 200, &list)
	if len(list) != 1 || list[0].ID != stays {
		t.Errorf("sources left: %+v", list)
	}
	if again := s.attach(t, path, first); again == association {
		t.Error("a new association has the id of the old one")
	}
	if back := s.items(t, path, 2); back["Alone"] != ids["Alone"] {
		t.Errorf("it came back as %v, and was %v", back, ids)
	}
}

func TestDeletedFeedIsGoneWithItsSourcesAndItems(t *testing.T) {
	s := serve(t)
	source := s.site(t)
	s.observe(t, source, s.concert("Concert", tomorrow()))
	made, path := s.eventFeed(t)
	_, other := s.eventFeed(t)
	association := s.attach(t, path, source)
	s.attach(t, other, source)
	reader := s.share(t, made.ID)
	item := path + "/items/" + s.items(t, path, 1)["Concert"]
	s.items(t, other, 1)
	s.post(t, item+"/feedback", `{"rating":"positive"}`).into(t, 200, new(any))

	s.delete(t, path).done(t)
	if events := s.EventTypes(t, "feed-"+made.ID); events[len(events)-1] != "feed.deleted.v1" {
		t.Errorf("recorded %v", events)
	}
	for _, in := range []request{
		{path: path}, {path: path + "/sources"}, {path: path + "/items"}, {path: "/v0" + path + "/items"}, {path: item},
		{method: "PATCH", path: path, body: `{"name":"x"}`}, {method: "DELETE", path: path},
		{method: "POST", path: path + "/sources", body: `{"sourceType":"site","sourceId":"` + source.String() + `"}`},
		{method: "DELETE", path: path + "/sources/" + association},
		{method: "POST", path: item + "/feedback", body: `{"rating":"positive"}`},
	} {
		s.do(t, in).refused(t, 404, "NOT_FOUND", "not found")
		in.key = reader
		s.do(t, in).refused(t, 404, "NOT_FOUND", "not found")
	}
	list := into[[]feedView](t, 200, s.get(t, feedsPath))
	if len(list) != 1 || list[0].ID == made.ID {
		t.Errorf("listed after the delete: %+v", list)
	}
	for _, table := range []string{"feeds.associations", "feeds.shares", "items.items", "items.occurrences",
		"items.attachments", "items.feedback"} {
		var rows int
		if err := s.Pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table+" WHERE feed_id = $1", made.ID).
			Scan(&rows); err != nil || rows != 0 {
			t.Errorf("%s keeps %d rows of the feed, %v", table, rows, err)
		}
	}
	s.items(t, other, 1) // the same event in another feed
}
