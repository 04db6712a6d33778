package httpapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/organization"
	"carillon/aggregates/source"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/feeds"
	"carillon/projections/sources"
	"carillon/query"
)

type feedView struct {
	ID            string  `json:"id"`
	Name          string  `json:"name"`
	Description   string  `json:"description"`
	Enabled       bool    `json:"enabled"`
	EnabledSource string  `json:"enabledSource"`
	EnabledReason *string `json:"enabledReason"`
	Config        struct {
		Version float64 `json:"version"`
	} `json:"config"`
	CreatedAt time.Time `json:"createdAt"`
}

func TestFeedIsCreatedAndRead(t *testing.T) {
	s := serve(t)
	var plain, full, read feedView
	answer := s.post(t, "/feeds/events", `{"name":"Downtown","description":"Near"}`)
	answer.into(t, 201, &plain)
	assert.True(t, plain.Enabled && plain.EnabledSource == "system" && plain.Config.Version == 1 &&
		strings.Contains(answer.body, `"enabledReason":null`), "created %s", answer.body)
	s.post(t, "/feeds/events", `{"name":"Uptown","description":"Far","enabled":false,"config":{"version":2.5}}`).into(t,
		201, &full)
	assert.True(t, !full.Enabled && full.Config.Version == 2.5, "created %+v", full)
	s.wrote(t, "feed-"+plain.ID, "feed.created.v1")
	s.get(t, "/feeds/events/"+full.ID).into(t, 200, &read)
	assert.Same(t, read, full)
	list := into[[]feedView](t, 200, s.get(t, "/feeds/events?whatever=1"))
	assert.Same(t, list, []feedView{plain, full})
	s.get(t, "/feeds/events/"+uuid.NewString()).refused(t, 404, "NOT_FOUND", "feed not found")
}

func TestSourceIsAttachedAndListed(t *testing.T) {
	s := serve(t)
	source := s.site(t).String()
	feed := into[feedView](t, 201, s.post(t, "/feeds/events", `{"name":"n","description":"d"}`))
	path := "/feeds/events/" + feed.ID + "/sources"
	type view struct {
		ID          string    `json:"id"`
		EventFeedID string    `json:"eventFeedId"`
		SourceType  string    `json:"sourceType"`
		SourceID    string    `json:"sourceId"`
		CreatedAt   time.Time `json:"createdAt"`
	}
	list := into[[]view](t, 200, s.get(t, path))
	assert.Equal(t, len(list), 0, "a new feed has sources %v", list)
	var first, again view
	body := `{"sourceType":"site","sourceId":"` + source + `"}`
	s.post(t, path, body).into(t, 201, &first)
	s.post(t, path, body).into(t, 201, &again)
	s.get(t, path).into(t, 200, &list)
	if diff := cmp.Diff([]view{first}, list); diff != "" || first != again || first.EventFeedID != feed.ID ||
		first.SourceID != source {
		t.Errorf("attached %+v, again %+v, list (-attached +listed):\n%s", first, again, diff)
	}
	for body, want := range map[string][2]string{
		`{"sourceType":"site","sourceId":"` + uuid.NewString() + `"}`: {"NOT_FOUND", "not found"},
		`{"sourceType":"site","sourceId":"7"}`:                        {"BAD_REQUEST", "sourceId must be a UUID"},
		`{"sourceType":"radio","sourceId":"` + source + `"}`: {"BAD_REQUEST",
			"sourceType must be one of site, sitemap"},
		`{"sourceType":"sitemap","sourceId":"` + source + `"}`:                 {"BAD_REQUEST", "is of type site"},
		`{"sourceType":"site"}`:                                                {"BAD_REQUEST", "sourceId is required"},
		`{"sourceType":"site","url":"https://example.org/none"}`:               {"NOT_FOUND", "ask your operator"},
		`{"sourceType":"site","url":"/x"}`:                                     {"BAD_REQUEST", "url must be absolute"},
		`{"sourceType":"twitter","url":"https://example.org/"}`:                {"BAD_REQUEST", "named by its url"},
		`{"sourceType":"site","url":"https://example.org/","timezone":"Mars"}`: {"BAD_REQUEST", "IANA"},
		`{"sourceType":"site","url":"https://example.org/","sourceId":"` + source + `"}`: {"BAD_REQUEST",
			"beside sourceId"},
		`{"sourceType":"site","timezone":"Europe/Rome","sourceId":"` + source + `"}`: {"BAD_REQUEST",
			"beside url"},
	} {
		s.post(t, path, body).refusedAs(t, want)
	}
	s.post(t, "/feeds/events/7/sources", body).refused(t, 404, "NOT_FOUND", "not found")
}

// A list of feeds comes whole, and in parts: each may have a long description.
func TestFeedsComeInParts(t *testing.T) {
	s := serve(t)
	var want []string
	for i := range 25 { // more than are read at once, twice
		want = append(want, fmt.Sprint("feed ", i))
		s.post(t, feedsPath, fmt.Sprintf(`{"name":"%s","description":"d"}`, want[i])).into(t, 201, new(any))
	}
	got := s.get(t, feedsPath)
	var names []string
	for _, feed := range into[[]feedView](t, 200, got) {
		names = append(names, feed.Name)
	}
	assert.True(t, slices.Equal(names, want) && got.header.Get("Content-Length") == "", "feeds %v, length %q", names,
		got.header.Get("Content-Length"))
}

func TestItemListParameters(t *testing.T) {
	s := serve(t)
	feed := into[feedView](t, 201, s.post(t, "/feeds/events", `{"name":"n","description":"d"}`))
	path := "/feeds/events/" + feed.ID + "/items"
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=101": "limit", "limit=x": "limit", "limit=1.5": "limit", "offset=-1": "offset",
		"status=done": "status", "orderBy=title": "orderBy", "orderBy=": "orderBy", "include=source,owner": "include",
		"include=":        "include",
		"since=yesterday": "since", "until=2026-13-01": "until", "since=2026-11-21T25:00:00Z": "since",
		"limit=1&limit=2": "limit",
	} {
		for _, version := range []string{"", "/v0"} {
			got := s.get(t, version+path+"?"+query)
			if field == "include" && version != "" { // not a parameter of that list, and so ignored
				got.into(t, 200, new(any))
				continue
			}
			got.blames(t, field, field)
		}
	}
	var page page[any]
	for _, query := range []string{
		"", "?limit=100&offset=7", "?status=scheduled&orderBy=created&include=source",
		"?since=" + time.Now().UTC().Format(time.DateOnly), "?other=ignored",
	} {
		for _, version := range []string{"", "/v0"} {
			s.get(t, version+path+query).into(t, 200, &page)
			assert.True(t, page.Items != nil && page.Total == 0 && !page.Pagination.HasMore, "%s%s: %+v", version, query, page)
		}
	}
	for _, version := range []string{"", "/v0"} {
		s.get(t, version+"/feeds/events/"+uuid.NewString()+"/items").refused(t, 404, "NOT_FOUND", "feed not found")
		s.get(t, version+"/feeds/events/7/items").refused(t, 404, "NOT_FOUND", "not found")
	}
}

// A source of each of the seven types is attached under the type that it has.
func TestSourcesOfAllTypesAreAttached(t *testing.T) {
	s := serve(t)
	_, path := s.eventFeed(t)
	for _, sourceType := range source.Types() {
		in := command.RegisterSource{Type: sourceType, Handle: "townhall"}
		if source.IsPage(sourceType) {
			in = command.RegisterSource{Type: sourceType, URL: "https://example.org/" + sourceType}
		}
		made := must.Get(s.Commands.RegisterSource(t.Context(), apitest.Operator, in))(t)
		got := s.post(t, path+"/sources", `{"sourceType":"`+sourceType+`","sourceId":"`+made.ID.String()+`"}`)
		got.into(t, 201, new(any))
		assert.True(t, strings.Contains(got.body, `"sourceType":"`+sourceType+`","sourceId":"`+made.ID.String()+`"`),
			"%s is attached as %s", sourceType, got.body)
	}
}

// TestAttachSourceByURL attaches the source there is, or a registered one where the operator allows it, within a limit
// that counts both alike.
func TestAttachSourceByURL(t *testing.T) {
	s := serveAlone(t)
	_, path := s.eventFeed(t)
	address := "https://example.org/" + uuid.NewString()
	known := s.Source(t, address, "Europe/Rome")
	attach := func(key, more string) response {
		return s.as(key).post(t, path+"/sources", fmt.Sprintf(`{"sourceType":"site","url":"%s%s"}`, address, more))
	}
	var made struct {
		SourceID uuid.UUID `json:"sourceId"`
	}
	attach("", "").into(t, 201, &made)
	assert.Equal(t, made.SourceID, known, "attached … which has the address")
	attach("", `","timezone":"Europe/Oslo`).refused(t, 404, "NOT_FOUND", "ask your operator")
	attach("", "?own").refused(t, 404, "NOT_FOUND", "ask your operator")

	s.Commands.OrganizationSources = true
	s.limit(t, organization.Limits{organization.LimitSourceAddressesPerDay: 2})
	_, stranger := s.Organization(t, "Stranger")
	attach(stranger, "?own").refused(t, 404, "NOT_FOUND", "feed not found")
	attach("", "?own").into(t, 201, &made)
	attach("", "").into(t, 201, &made)
	attach("", "?second").refused(t, 429, "RATE_LIMITED", "limit sourceAddressesPerDay")
	attach("", "").refused(t, 429, "RATE_LIMITED", "limit sourceAddressesPerDay")
	head := must.Get(s.Store.Head(t.Context()))(t)
	s.Await(t, head, sources.ReadModel.Name)
	count := 0
	err := s.Pool.QueryRow(t.Context(), "SELECT count(*) FROM sources.sources").Scan(&count)
	assert.True(t, err == nil && count == 2, "%d sources, %v; want the operator's and one of the organization", count, err)
}

func TestPatchFeedMerges(t *testing.T) {
	s := serve(t)
	made, path := s.eventFeed(t)
	revised := []string{"feed.revised.v1"}
	merges(t, s, path, "feed-"+made.ID, made, []patch[feedView]{
		{`{}`, nil, nil},
		{`{"config":{}}`, nil, nil},
		{`{"name":"Downtown","description":"Near","enabled":true,"config":{"version":1}}`, nil, nil}, // as it is
		{`{"name":"Uptown"}`, func(f *feedView) { f.Name = "Uptown" }, revised},
		{`{"description":"Far"}`, func(f *feedView) { f.Description = "Far" }, revised},
		{`{"config":{"version":2.5}}`, func(f *feedView) { f.Config.Version = 2.5 }, revised},
		{`{"enabled":false}`, func(f *feedView) { f.Enabled, f.EnabledSource = false, "api" }, []string{"feed.disabled.v1"}},
		{`{"enabled":false}`, nil, nil},
		{`{"name":"Town","enabled":true}`, func(f *feedView) {
			f.Name, f.Enabled = "Town", true
		}, []string{"feed.revised.v1", "feed.enabled.v1"}},
	}...)
	answer, shown := s.patch(t, path, `{}`), s.get(t, path)
	assert.True(t, strings.Contains(answer.body, `"enabledReason":null`) &&
		!strings.Contains(shown.body, "enabledReason"),
		"without a reason a change is answered %s, and a read %s", answer.body, shown.body)
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
		At:           made.CreatedAt,
	}, feed.Options{Metadata: eventstore.Metadata{Actor: "operator"}}))(t)
	s.Await(t, out.Position, feeds.ReadModel.Name)
	shows := func(got response, enabled bool, source, reason string) {
		t.Helper()
		f := into[feedView](t, 200, got)
		assert.True(t, f.Enabled == enabled && f.EnabledSource == source && query.Of(f.EnabledReason) == reason,
			"%+v", f)
	}
	shows(s.get(t, path), false, "admin", "maintenance")
	shows(s.patch(t, path, `{"name":"New"}`), false, "admin", "maintenance")
	shows(s.patch(t, path, `{"enabled":true}`), true, "api", "")
	shows(s.get(t, path), true, "api", "")
}

func TestPatchFeedIsRefused(t *testing.T) {
	s := serve(t)
	made, path := s.eventFeed(t)
	before := s.EventTypes(t, "feed-"+made.ID)
	for body, want := range map[string][2]string{
		`{"description":""}`:                {"description", "must not be empty"},
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
	s.delete(t, path+"/sources/"+association).refused(t, 404, "NOT_FOUND",
		"source association not found: GET /feeds/events/{id}/sources lists those of a feed")

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
	assert.True(t, len(list) == 1 && list[0].ID == stays, "sources left: %+v", list)
	assert.True(t, s.attach(t, path, first) != association, "a new association has the id of the old one")
	assert.Equal(t, s.items(t, path, 2)["Alone"], ids["Alone"], "it came back as … and was %v", ids)
}

func TestDeletedFeedIsGoneWithItsSourcesAndItems(t *testing.T) {
	s := serve(t)
	w := s.filledFeed(t)
	path := feedsPath + "/" + w.feed
	_, other := s.eventFeed(t)
	s.attach(t, other, uuid.MustParse(w.source))
	reader := s.share(t, w.feed)
	s.items(t, other, 1)
	s.post(t, path+"/items/"+w.item+"/feedback", `{"rating":"positive"}`).into(t, 200, new(any))

	s.delete(t, path).done(t)
	if events := s.EventTypes(t, "feed-"+w.feed); events[len(events)-1] != "feed.deleted.v1" {
		t.Errorf("recorded %v", events)
	}
	for _, in := range surface {
		if !in.ofFeeds() || !strings.Contains(in.path, "{") {
			continue
		}
		in = fill(in, w.pairs()...)
		s.do(t, in).refused(t, 404, "NOT_FOUND", "not found")
		in.key = reader
		s.do(t, in).refused(t, 404, "NOT_FOUND", "not found")
	}
	list := into[[]feedView](t, 200, s.get(t, feedsPath))
	assert.True(t, len(list) == 1 && list[0].ID != w.feed, "listed after the delete: %+v", list)
	for _, table := range []string{"feeds.associations", "feeds.shares", "items.items", "items.occurrences",
		"items.attachments", "items.feedback"} {
		var rows int
		err := s.Pool.QueryRow(t.Context(), "SELECT count(*) FROM "+table+" WHERE feed_id = $1", w.feed).Scan(&rows)
		assert.True(t, err == nil && rows == 0, "%s keeps %d rows of the feed, %v", table, rows, err)
	}
	s.items(t, other, 1) // the same event in another feed
}
