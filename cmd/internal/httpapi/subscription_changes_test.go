package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/projections/feeds"
)

type pinView struct {
	FeedType string `json:"feedType"`
	FeedID   string `json:"feedId"`
}

type subscriptionView struct {
	ID            string    `json:"id"`
	DestinationID string    `json:"destinationId"`
	ExternalID    *string   `json:"externalId"`
	EventTypes    []string  `json:"eventTypes"`
	ScopeKind     string    `json:"scopeKind"`
	FeedType      *string   `json:"feedType"`
	Feeds         []pinView `json:"feeds"`
	Active        bool      `json:"active"`
}

func pins(feeds ...uuid.UUID) string {
	list := make([]string, len(feeds))
	for i, feed := range feeds {
		list[i] = `{"feedType":"news","feedId":"` + feed.String() + `"}`
	}
	return `[` + strings.Join(list, ",") + `]`
}

func TestPutSubscription(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.destination(t, "crm")
	feed := s.feed(t, s.org)
	const path = destinationsPath + "/crm/subscriptions/"
	pinned := `{"eventTypes":["news.*","event.item.updated"],"scopeKind":"feeds","feeds":` + pins(feed) + `}`
	var created subscriptionView
	s.do(t, request{method: "PUT", path: path + "city", body: pinned}).into(t, 201, &created)
	if *created.ExternalID != "city" || !created.Active || len(created.Feeds) != 1 ||
		created.Feeds[0].FeedID != feed.String() {
		t.Errorf("created %+v", created)
	}
	for _, ref := range []string{"city", created.ID} {
		var same, found subscriptionView
		s.do(t, request{method: "PUT", path: path + ref, body: pinned}).into(t, 200, &same)
		s.do(t, request{path: path + ref}).into(t, 200, &found)
		if cmp.Diff(created, same) != "" || cmp.Diff(created, found) != "" {
			t.Errorf("%s: the same again: %+v, read: %+v, want %+v", ref, same, found, created)
		}
	}
	if got := s.EventTypes(t, "subscription-"+created.ID); !slices.Equal(got, []string{"subscription.created.v1"}) {
		t.Errorf("events = %v, want no more than one", got)
	}
	var replaced subscriptionView
	s.do(t, request{
		method: "PUT",
		path:   path + "city",
		body:   `{"eventTypes":["*"],"scopeKind":"feed_type","feedType":"news"}`,
	}).into(t, 200, &replaced)
	if replaced.ID != created.ID || len(replaced.Feeds) != 0 || *replaced.FeedType != "news" ||
		*replaced.ExternalID != "city" {
		t.Errorf("replaced %+v, want the pins cleared", replaced)
	}
	if got := s.EventTypes(t, "subscription-"+created.ID); !slices.Equal(got, []string{"subscription.created.v1",
		"subscription.revised.v1"}) {
		t.Errorf("events = %v, want one revision", got)
	}
	unknown := pins(uuid.New())
	for _, tt := range []struct {
		ref, body     string
		status        int
		code, message string
	}{
		{uuid.NewString(), pinned, 404, "NOT_FOUND", "subscription not found"},
		{"a%20b", pinned, 400, "VALIDATION_FAILED", "subRef must be"},
		{"city", `{"externalId":"city","eventTypes":["*"],"scopeKind":"all"}`, 400, "INVALID_BODY",
			"externalId is not a known field"},
		{"city", `{"eventTypes":["*"],"scopeKind":"all","active":true}`, 400, "INVALID_BODY", "active is not a known field"},
		{"city", `{"scopeKind":"all"}`, 400, "INVALID_BODY", "eventTypes is required"},
		{"city", `{"eventTypes":["*"],"scopeKind":"feeds"}`, 400, "INVALID_BODY", "feeds must pin"},
		{"city", `{"eventTypes":["*"],"scopeKind":"all","feeds":` + pins(feed) + `}`, 400, "INVALID_BODY",
			"feeds is allowed"},
		{"city", `{"eventTypes":["nothing.at.all"],"scopeKind":"all"}`, 400, "VALIDATION_FAILED", "nothing.at.all"},
		{"city", `{"eventTypes":["*"],"scopeKind":"feeds","feeds":` + unknown + `}`, 404, "NOT_FOUND", "feeds[0]"},
		{"new", `{"eventTypes":["*"],"scopeKind":"feeds","feeds":` + unknown + `}`, 404, "NOT_FOUND", "feeds[0]"},
	} {
		s.do(t, request{method: "PUT", path: path + tt.ref, body: tt.body}).refused(t, tt.status, tt.code, tt.message)
	}
	s.do(t, request{path: path + "new"}).refused(t, 404, "NOT_FOUND", "subscription not found")
}

func TestPatchSubscriptionMerges(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.destination(t, "crm")
	one, two := s.feed(t, s.org), s.feed(t, s.org)
	const path = destinationsPath + "/crm/subscriptions/"
	var want subscriptionView
	s.do(t, request{
		method: "PUT",
		path:   path + "city",
		body:   `{"eventTypes":["news.*"],"scopeKind":"feeds","feeds":` + pins(one) + `}`,
	}).into(t, 201, &want)
	renamed, news := "town", "news"
	for _, step := range []struct {
		body   string
		change func(*subscriptionView)
		events []string
	}{
		{`{}`, func(*subscriptionView) {}, nil},
		{`{"eventTypes":["*"]}`, func(v *subscriptionView) {
			v.EventTypes = []string{"*"}
		}, []string{"subscription.revised.v1"}},
		{`{"feeds":` + pins(two, one) + `}`, func(v *subscriptionView) {
			v.Feeds = []pinView{{"news", two.String()}, {"news", one.String()}}
		}, []string{"subscription.revised.v1"}},
		{`{"active":false}`, func(v *subscriptionView) { v.Active = false }, []string{"subscription.deactivated.v1"}},
		{`{"active":true}`, func(v *subscriptionView) { v.Active = true }, []string{"subscription.activated.v1"}},
		{`{"active":true}`, func(*subscriptionView) {}, nil},
		{`{"externalId":"town"}`, func(v *subscriptionView) { v.ExternalID = &renamed }, []string{"subscription.revised.v1"}},
		{`{"scopeKind":"feed_type","feedType":"news"}`, func(v *subscriptionView) {
			v.ScopeKind, v.FeedType, v.Feeds = "feed_type", &news, []pinView{}
		}, []string{"subscription.revised.v1"}},
	} {
		stream := "subscription-" + want.ID
		before := s.EventTypes(t, stream)
		var got, found subscriptionView
		s.do(t, request{method: "PATCH", path: path + want.ID, body: step.body}).into(t, 200, &got)
		s.do(t, request{path: path + want.ID}).into(t, 200, &found)
		step.change(&want)
		if diff := cmp.Diff(want, got); diff != "" || cmp.Diff(got, found) != "" {
			t.Errorf("PATCH %s (-want +got):\n%s\nread afterwards: %+v", step.body, diff, found)
		}
		if wrote := s.EventTypes(t, stream)[len(before):]; !slices.Equal(wrote, step.events) {
			t.Errorf("PATCH %s wrote %v, want %v", step.body, wrote, step.events)
		}
	}
	// the old name is free
	s.do(t, request{method: "PUT", path: path + "city", body: `{"eventTypes":["*"],"scopeKind":"all"}`}).into(t,
		201, new(any))
	for body, want := range map[string][3]string{
		`{"eventTypes":[]}`:                {"400", "INVALID_BODY", "eventTypes must"},
		`{"eventTypes":null}`:              {"400", "INVALID_BODY", "eventTypes must not be null"},
		`{"eventTypes":["delivery.test"]}`: {"400", "VALIDATION_FAILED", "delivery.test"},
		// merged, it has no pins
		`{"scopeKind":"feeds"}`:                                  {"400", "INVALID_BODY", "feeds must pin"},
		`{"scopeKind":"all","feedType":"news"}`:                  {"400", "INVALID_BODY", "feedType is allowed"},
		`{"feeds":[]}`:                                           {"", "", ""}, // no pins, as before
		`{"feeds":` + pins(one) + `}`:                            {"400", "INVALID_BODY", "feeds is allowed"},
		`{"active":"yes"}`:                                       {"400", "INVALID_BODY", "active must be a boolean"},
		`{"id":"x"}`:                                             {"400", "INVALID_BODY", "id is not a known field"},
		`{"externalId":"` + uuid.NewString() + `"}`:              {"400", "INVALID_BODY", "externalId must not"},
		`{"externalId":"city"}`:                                  {"409", "ALREADY_EXISTS", `"city"`},
		`{"scopeKind":"feeds","feeds":` + pins(uuid.New()) + `}`: {"404", "NOT_FOUND", "feeds[0]"},
	} {
		got := s.do(t, request{method: "PATCH", path: path + "town", body: body})
		if want[0] == "" {
			got.into(t, 200, new(any))
			continue
		}
		got.refused(t, map[string]int{"400": 400, "404": 404, "409": 409}[want[0]], want[1], want[2])
	}
}

func TestSubscriptionIsOfItsDestinationOnly(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.destination(t, "crm")
	s.destination(t, "erp")
	var crm, erp subscriptionView
	all := `{"externalId":"all","eventTypes":["*"],"scopeKind":"all"}`
	s.do(t, request{method: "POST", path: destinationsPath + "/crm/subscriptions", body: all}).into(t, 201, &crm)
	// names are of one destination
	s.do(t, request{method: "POST", path: destinationsPath + "/erp/subscriptions", body: all}).into(t, 201, &erp)
	for _, in := range surface {
		if strings.Contains(in.path, "{subRef}") {
			in.path = strings.NewReplacer("{ref}", "erp", "{subRef}", crm.ID).Replace(in.path)
			s.do(t, in).refused(t, 404, "NOT_FOUND", "subscription not found")
		}
	}
	got := s.do(t, request{method: "DELETE", path: destinationsPath + "/crm/subscriptions/all"})
	if got.status != http.StatusOK || got.body != `{"success":true}` {
		t.Errorf("DELETE: %d %s", got.status, got.body)
	}
	for _, ref := range []string{"all", crm.ID} {
		s.do(t, request{path: destinationsPath + "/crm/subscriptions/" + ref}).refused(t, 404, "NOT_FOUND",
			"subscription not found")
		s.do(t, request{method: "DELETE", path: destinationsPath + "/crm/subscriptions/" + ref}).refused(t, 404, "NOT_FOUND",
			"subscription not found")
	}
	s.do(t, request{path: destinationsPath + "/erp/subscriptions/all"}).into(t, 200, new(any)) // the other stays
	s.do(t, request{method: "POST", path: destinationsPath + "/crm/subscriptions", body: all}).into(t, 201, new(any))
}

func TestSubscriptionsAreListedOldestFirst(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.destination(t, "crm")
	ids := make([]string, 3)
	for i := range ids {
		var created subscriptionView
		s.do(t, request{
			method: "POST",
			path:   destinationsPath + "/crm/subscriptions",
			body:   `{"eventTypes":["*"],"scopeKind":"all"}`,
		}).into(t, 201, &created)
		ids[i] = created.ID
	}
	for query, want := range map[string][]string{
		"":                  ids,
		"?limit=2":          ids[:2],
		"?limit=1&offset=1": ids[1:2],
		"?offset=3":         {},
	} {
		var page subscriptionPage
		s.do(t, request{path: destinationsPath + "/crm/subscriptions" + query}).into(t, 200, &page)
		got := make([]string, 0, 3)
		for _, item := range page.Items {
			got = append(got, item.ID)
		}
		if !slices.Equal(got, want) || page.Total != 3 {
			t.Errorf("%s: %v of %d, want %v of 3", query, got, page.Total, want)
		}
	}
}

type subscriptionPage struct {
	Items []subscriptionView `json:"items"`
	Total int                `json:"total"`
}

func TestPinsNeedAccessAtEachWrite(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.destination(t, "crm")
	library, _ := s.Organization(t, "Library")
	feed := s.feed(t, library)
	const path = destinationsPath + "/crm/subscriptions"
	body := `{"eventTypes":["*"],"scopeKind":"feeds","feeds":` + pins(feed) + `}`
	s.do(t, request{method: "POST", path: path, body: body}).refused(t, 404, "NOT_FOUND", "feeds[0]")
	theirs := s.do(t, request{method: "PUT", path: path + "/city", body: body})
	missing := s.do(t, request{
		method: "PUT",
		path:   path + "/city",
		body:   strings.ReplaceAll(body, feed.String(), library.String()),
	})
	if strings.ReplaceAll(missing.body, library.String(), feed.String()) != theirs.body {
		t.Errorf("of another's feed: %s\nof a missing feed: %s", theirs.body, missing.body)
	}
	share := command.ShareFeed{FeedType: "news", FeedID: feed, Organization: s.org}
	shared, err := s.Commands.ShareFeed(t.Context(), apitest.Operator, share)
	if err != nil {
		t.Fatal(err)
	}
	s.Await(t, shared.Position, feeds.ReadModel.Name)
	s.do(t, request{method: "PUT", path: path + "/city", body: body}).into(t, 201, new(any))
	s.do(t, request{method: "PATCH", path: path + "/city", body: `{"active":false}`}).into(t, 200, new(any))
	if shared, err = s.Commands.UnshareFeed(t.Context(), apitest.Operator, command.UnshareFeed(share)); err != nil {
		t.Fatal(err)
	}
	s.Await(t, shared.Position, feeds.ReadModel.Name)
	s.do(t, request{method: "PUT", path: path + "/city", body: body}).refused(t, 404, "NOT_FOUND", "feeds[0]")
	// the stored pin
	s.do(t, request{method: "PATCH", path: path + "/city", body: `{"active":true}`}).refused(t, 404, "NOT_FOUND",
		"feeds[0]")
	s.do(t, request{method: "PATCH", path: path + "/city", body: `{"active":true,"scopeKind":"all"}`}).into(t,
		200, new(any))
}
