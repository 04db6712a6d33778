package httpapi_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/source"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
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
	UpdatedAt time.Time `json:"updatedAt"`
}

func TestFeedIsCreatedAndRead(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var plain, full, read feedView
	answer := s.do(t, request{method: "POST", path: "/feeds/events", body: `{"name":"Downtown","description":"Near"}`})
	answer.into(t, 201, &plain)
	if !plain.Enabled || plain.EnabledSource != "system" || plain.Config.Version != 1 ||
		!strings.Contains(answer.body, `"enabledReason":null`) {
		t.Errorf("created %s", answer.body)
	}
	s.do(t, request{
		method: "POST",
		path:   "/feeds/events",
		body:   `{"name":"Uptown","description":"Far","enabled":false,"config":{"version":2.5}}`,
	}).into(t, 201, &full)
	if full.Enabled || full.Config.Version != 2.5 {
		t.Errorf("created %+v", full)
	}
	if got := s.EventTypes(t, "feed-"+plain.ID); !slices.Equal(got, []string{"feed.created.v1"}) {
		t.Errorf("events = %v", got)
	}
	s.do(t, request{path: "/feeds/events/" + full.ID}).into(t, 200, &read)
	if diff := cmp.Diff(full, read); diff != "" {
		t.Errorf("created and read differ (-created +read):\n%s", diff)
	}
	var list []feedView
	s.do(t, request{path: "/feeds/events?whatever=1"}).into(t, 200, &list)
	if diff := cmp.Diff([]feedView{plain, full}, list); diff != "" {
		t.Errorf("list (-created +listed):\n%s", diff)
	}
	s.do(t, request{path: "/feeds/events/" + uuid.NewString()}).refused(t, 404, "NOT_FOUND", "feed not found")
}

func TestSourceIsAttachedAndListed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	source, err := s.Commands.RegisterSource(t.Context(), apitest.Operator, command.RegisterSource{
		Type: "site",
		URL:  "https://example.org/events",
	})
	if err != nil {
		t.Fatal(err)
	}
	var feed feedView
	s.do(t, request{method: "POST", path: "/feeds/events", body: `{"name":"n","description":"d"}`}).into(t, 201, &feed)
	path := "/feeds/events/" + feed.ID + "/sources"
	type view struct {
		ID          string    `json:"id"`
		EventFeedID string    `json:"eventFeedId"`
		SourceType  string    `json:"sourceType"`
		SourceID    string    `json:"sourceId"`
		CreatedAt   time.Time `json:"createdAt"`
	}
	var list []view
	s.do(t, request{path: path}).into(t, 200, &list)
	if len(list) != 0 {
		t.Errorf("a new feed has sources %v", list)
	}
	var first, again view
	body := `{"sourceType":"site","sourceId":"` + source.ID.String() + `"}`
	s.do(t, request{method: "POST", path: path, body: body}).into(t, 201, &first)
	s.do(t, request{method: "POST", path: path, body: body}).into(t, 201, &again)
	s.do(t, request{path: path}).into(t, 200, &list)
	if diff := cmp.Diff([]view{first}, list); diff != "" || first != again || first.EventFeedID != feed.ID ||
		first.SourceID != source.ID.String() {
		t.Errorf("attached %+v, again %+v, list (-attached +listed):\n%s", first, again, diff)
	}
	for body, want := range map[string][3]string{
		`{"sourceType":"site","sourceId":"` + uuid.NewString() + `"}`: {
			"404", "NOT_FOUND", "not found",
		},
		`{"sourceType":"site","sourceId":"7"}`: {
			"400", "BAD_REQUEST", "sourceId must be a UUID",
		},
		`{"sourceType":"radio","sourceId":"` + source.ID.String() + `"}`: {
			"400", "BAD_REQUEST", "sourceType must be one of site, sitemap",
		},
		`{"sourceType":"sitemap","sourceId":"` + source.ID.String() + `"}`: {
			"400", "BAD_REQUEST", "is of type site",
		},
		`{"sourceType":"site"}`: {
			"400", "BAD_REQUEST", "sourceId is required",
		},
		`{"sourceType":"site","url":"https://example.org/none"}`: {
			"404", "NOT_FOUND", "ask your operator",
		},
		`{"sourceType":"site","url":"/x"}`: {
			"400", "BAD_REQUEST", "url must be absolute",
		},
		`{"sourceType":"twitter","url":"https://example.org/"}`: {
			"400", "BAD_REQUEST", "named by its url",
		},
		`{"sourceType":"site","url":"https://example.org/","timezone":"Mars"}`: {
			"400", "BAD_REQUEST", "IANA",
		},
		`{"sourceType":"site","url":"https://example.org/","sourceId":"` + source.ID.String() + `"}`: {
			"400", "BAD_REQUEST", "beside sourceId",
		},
		`{"sourceType":"site","timezone":"Europe/Rome","sourceId":"` + source.ID.String() + `"}`: {
			"400", "BAD_REQUEST", "beside url",
		},
	} {
		status := map[string]int{"400": 400, "404": 404}[want[0]]
		s.do(t, request{method: "POST", path: path, body: body}).refused(t, status, want[1], want[2])
	}
	for _, path := range []string{"/feeds/events/" + uuid.NewString() + "/sources", "/feeds/events/7/sources"} {
		s.do(t, request{path: path}).refused(t, 404, "NOT_FOUND", "not found")
		s.do(t, request{method: "POST", path: path, body: body}).refused(t, 404, "NOT_FOUND", "not found")
	}
	reader, key := s.Organization(t, "Reader")
	if _, err := s.Commands.ShareFeed(t.Context(), apitest.Operator, command.ShareFeed{
		FeedType:     "event",
		FeedID:       uuid.MustParse(feed.ID),
		Organization: reader,
	}); err != nil {
		t.Fatal(err)
	}
	s.do(t, request{
		method: "POST",
		path:   path,
		key:    key,
		body:   body,
	}).refused(t, 403, "FORBIDDEN", "")
}

func TestItemListParameters(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var feed feedView
	s.do(t, request{method: "POST", path: "/feeds/events", body: `{"name":"n","description":"d"}`}).into(t, 201, &feed)
	path := "/feeds/events/" + feed.ID + "/items"
	at := func(d time.Duration) string { return url.QueryEscape(time.Now().Add(d).UTC().Format(time.RFC3339)) }
	const day = 24 * time.Hour
	for query, field := range map[string]string{
		"limit=0": "limit", "limit=101": "limit", "limit=x": "limit", "limit=1.5": "limit", "offset=-1": "offset",
		"status=done": "status", "orderBy=title": "orderBy", "orderBy=": "orderBy", "include=source,owner": "include",
		"include=":        "include",
		"since=yesterday": "since", "until=2026-13-01": "until", "since=2026-11-21T25:00:00Z": "since",
		"since=" + at(-9*day): "since",
		"since=" + at(32*day): "since", "until=" + at(32*day): "until", "until=" + at(-9*day): "until",
		"until=" + at(-time.Hour):                  "until",
		"since=" + at(2*day) + "&until=" + at(day): "since", "limit=1&limit=2": "limit",
	} {
		for _, version := range []string{"", "/v0"} {
			got := s.do(t, request{path: version + path + "?" + query})
			if field == "include" && version != "" { // not a parameter of that list, and so ignored
				got.into(t, 200, new(any))
				continue
			}
			got.blames(t, field, field)
		}
	}
	var page struct {
		Items      []any          `json:"items"`
		Total      int            `json:"total"`
		Pagination map[string]any `json:"pagination"`
	}
	for _, query := range []string{
		"", "?limit=100&offset=7", "?since=" + at(-7*day) + "&until=" + at(30*day), "?since=" + at(29*day),
		"?status=scheduled&orderBy=created&include=source",
		"?since=" + time.Now().UTC().Format(time.DateOnly), "?other=ignored",
	} {
		for _, version := range []string{"", "/v0"} {
			s.do(t, request{path: version + path + query}).into(t, 200, &page)
			if page.Items == nil || page.Total != 0 || page.Pagination["hasMore"] != false {
				t.Errorf("%s%s: %+v", version, query, page)
			}
		}
	}
	for _, version := range []string{"", "/v0"} {
		s.do(t, request{path: version + "/feeds/events/" + uuid.NewString() + "/items"}).refused(t, 404, "NOT_FOUND",
			"feed not found")
		s.do(t, request{path: version + "/feeds/events/7/items"}).refused(t, 404, "NOT_FOUND", "not found")
	}
}

// A source of each of the seven types is attached, listed and detached, under the type that it has.
func TestSourcesOfAllTypesAreAttached(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, path := s.eventFeed(t)
	type association struct {
		ID         string `json:"id"`
		SourceType string `json:"sourceType"`
		SourceID   string `json:"sourceId"`
	}
	for _, sourceType := range source.Types() {
		in := command.RegisterSource{Type: sourceType, Handle: "townhall"}
		if source.IsPage(sourceType) {
			in = command.RegisterSource{Type: sourceType, URL: "https://example.org/" + sourceType}
		}
		made, err := s.Commands.RegisterSource(t.Context(), apitest.Operator, in)
		if err != nil {
			t.Fatal(err)
		}
		var attached association
		var listed []association
		body := `{"sourceType":"` + sourceType + `","sourceId":"` + made.ID.String() + `"}`
		s.do(t, request{method: "POST", path: path + "/sources", body: body}).into(t, 201, &attached)
		if attached.SourceType != sourceType || attached.SourceID != made.ID.String() {
			t.Errorf("attached %+v", attached)
		}
		s.do(t, request{path: path + "/sources"}).into(t, 200, &listed)
		if len(listed) != 1 || listed[0] != attached {
			t.Errorf("listed %+v, want %+v", listed, attached)
		}
		if got := s.do(t, request{method: "DELETE", path: path + "/sources/" + attached.ID}); got.status != 200 {
			t.Errorf("detach %s: %d", sourceType, got.status)
		}
	}
}
