package httpapi_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/aggregates/source"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore/storetest/must"
	"carillon/projections/sources"
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
	s := serve(t)
	var plain, full, read feedView
	answer := s.post(t, "/feeds/events", `{"name":"Downtown","description":"Near"}`)
	answer.into(t, 201, &plain)
	if !plain.Enabled || plain.EnabledSource != "system" || plain.Config.Version != 1 ||
		!strings.Contains(answer.body, `"enabledReason":null`) {
		t.Errorf("created %s", answer.body)
	}
	s.post(t, "/feeds/events", `{"name":"Uptown","description":"Far","enabled":false,"config":{"version":2.5}}`).into(t,
		201, &full)
	if full.Enabled || full.Config.Version != 2.5 {
		t.Errorf("created %+v", full)
	}
	s.wrote(t, "feed-"+plain.ID, "feed.created.v1")
	s.get(t, "/feeds/events/"+full.ID).into(t, 200, &read)
	if diff := cmp.Diff(full, read); diff != "" {
		t.Errorf("created and read differ (-created +read):\n%s", diff)
	}
	list := into[[]feedView](t, 200, s.get(t, "/feeds/events?whatever=1"))
	if diff := cmp.Diff([]feedView{plain, full}, list); diff != "" {
		t.Errorf("list (-created +listed):\n%s", diff)
	}
	s.get(t, "/feeds/events/"+uuid.NewString()).refused(t, 404, "NOT_FOUND", "feed not found")
}

func TestSourceIsAttachedAndListed(t *testing.T) {
	s := serve(t)
	source := must.Get(s.Commands.RegisterSource(t.Context(), apitest.Operator, command.RegisterSource{
		Type: "site",
		URL:  "https://example.org/events",
	}))(t)
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
	if len(list) != 0 {
		t.Errorf("a new feed has sources %v", list)
	}
	var first, again view
	body := `{"sourceType":"site","sourceId":"` + source.ID.String() + `"}`
	s.post(t, path, body).into(t, 201, &first)
	s.post(t, path, body).into(t, 201, &again)
	s.get(t, path).into(t, 200, &list)
	if diff := cmp.Diff([]view{first}, list); diff != "" || first != again || first.EventFeedID != feed.ID ||
		first.SourceID != source.ID.String() {
		t.Errorf("attached %+v, again %+v, list (-attached +listed):\n%s", first, again, diff)
	}
	for body, want := range map[string][2]string{
		`{"sourceType":"site","sourceId":"` + uuid.NewString() + `"}`: {"NOT_FOUND",
			"not found"},
		`{"sourceType":"site","sourceId":"7"}`: {"BAD_REQUEST",
			"sourceId must be a UUID"},
		`{"sourceType":"radio","sourceId":"` + source.ID.String() + `"}`: {"BAD_REQUEST",
			"sourceType must be one of site, sitemap"},
		`{"sourceType":"sitemap","sourceId":"` + source.ID.String() + `"}`: {"BAD_REQUEST",
			"is of type site"},
		`{"sourceType":"site"}`: {"BAD_REQUEST",
			"sourceId is required"},
		`{"sourceType":"site","url":"https://example.org/none"}`: {"NOT_FOUND",
			"ask your operator"},
		`{"sourceType":"site","url":"/x"}`: {"BAD_REQUEST",
			"url must be absolute"},
		`{"sourceType":"twitter","url":"https://example.org/"}`: {"BAD_REQUEST",
			"named by its url"},
		`{"sourceType":"site","url":"https://example.org/","timezone":"Mars"}`: {"BAD_REQUEST", "IANA"},
		`{"sourceType":"site","url":"https://example.org/","sourceId":"` + source.ID.String() + `"}`: {"BAD_REQUEST",
			"beside sourceId"},
		`{"sourceType":"site","timezone":"Europe/Rome","sourceId":"` + source.ID.String() + `"}`: {"BAD_REQUEST",
			"beside url"},
	} {
		s.post(t, path, body).refusedAs(t, want)
	}
	s.post(t, "/feeds/events/7/sources", body).refused(t, 404, "NOT_FOUND", "not found")
}

func TestItemListParameters(t *testing.T) {
	s := serve(t)
	feed := into[feedView](t, 201, s.post(t, "/feeds/events", `{"name":"n","description":"d"}`))
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
			got := s.get(t, version+path+"?"+query)
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
			s.get(t, version+path+query).into(t, 200, &page)
			if page.Items == nil || page.Total != 0 || page.Pagination["hasMore"] != false {
				t.Errorf("%s%s: %+v", version, query, page)
			}
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
		if !strings.Contains(got.body, `"sourceType":"`+sourceType+`","sourceId":"`+made.ID.String()+`"`) {
			t.Errorf("%s is attached as %s", sourceType, got.body)
		}
	}
}

// TestAttachSourceByURL attaches the source there is, or a registered one where the operator allows it, within a limit
// that counts both alike.
func TestAttachSourceByURL(t *testing.T) {
	s := serveAlone(t)
	_, path := s.eventFeed(t)
	address := "https://example.org/" + uuid.NewString()
	known := must.Get(s.Commands.RegisterSource(t.Context(), apitest.Operator, command.RegisterSource{
		Type:     "site",
		URL:      address,
		Timezone: "Europe/Rome",
	}))(t)
	s.Await(t, known.Position, sources.ReadModel.Name)
	attach := func(key, more string) response {
		return s.as(key).post(t, path+"/sources", fmt.Sprintf(`{"sourceType":"site","url":"%s%s"}`, address, more))
	}
	var made struct {
		SourceID uuid.UUID `json:"sourceId"`
	}
	attach("", "").into(t, 201, &made)
	if made.SourceID != known.ID {
		t.Errorf("attached %s, want %s, which has the address", made.SourceID, known.ID)
	}
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
	if err := s.Pool.QueryRow(t.Context(), "SELECT count(*) FROM sources.sources").Scan(&count); err != nil || count != 2 {
		t.Errorf("%d sources, %v; want the operator's and one of the organization", count, err)
	}
}
