package httpapi_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore/storetest/must"
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
	s := serve(t)
	s.destination(t, "crm")
	feed := s.feed(t, s.org)
	const path = destinationsPath + "/crm/subscriptions/"
	pinned := `{"eventTypes":["news.*","event.item.updated"],"scopeKind":"feeds","feeds":` + pins(feed) + `}`
	created := into[subscriptionView](t, 201, s.put(t, path+"city", pinned))
	if *created.ExternalID != "city" || !created.Active || len(created.Feeds) != 1 ||
		created.Feeds[0].FeedID != feed.String() {
		t.Errorf("created %+v", created)
	}
	for _, ref := range []string{"city", created.ID} {
		var same, found subscriptionView
		s.put(t, path+ref, pinned).into(t, 200, &same)
		s.get(t, path+ref).into(t, 200, &found)
		if cmp.Diff(created, same) != "" || cmp.Diff(created, found) != "" {
			t.Errorf("%s: the same again: %+v, read: %+v, want %+v", ref, same, found, created)
		}
	}
	s.wrote(t, "subscription-"+created.ID, "subscription.created.v1")
	replaced := into[subscriptionView](t, 200, s.put(t, path+"city",
		`{"eventTypes":["*"],"scopeKind":"feed_type","feedType":"news"}`))
	if replaced.ID != created.ID || len(replaced.Feeds) != 0 || *replaced.FeedType != "news" ||
		*replaced.ExternalID != "city" {
		t.Errorf("replaced %+v, want the pins cleared", replaced)
	}
	s.wrote(t, "subscription-"+created.ID, "subscription.created.v1", "subscription.revised.v1")
	for ref, feed := range map[string]uuid.UUID{"city": feed, created.ID: s.feed(t, s.org)} {
		body := `{"eventTypes":["news.*"],"scopeKind":"feeds","feeds":` + pins(feed) + `}`
		s.put(t, path+ref, body).into(t, 200, &replaced)
		if len(replaced.Feeds) != 1 || replaced.Feeds[0].FeedID != feed.String() || replaced.EventTypes[0] != "news.*" {
			t.Errorf("replaced %+v, want other pins", replaced)
		}
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
		{"city", `{"eventTypes":["*"],"scopeKind":"feeds"}`, 400, "INVALID_BODY", "feeds must pin"},
		{"city", `{"eventTypes":["*"],"scopeKind":"feeds","feeds":` + unknown + `}`, 404, "NOT_FOUND", "feeds[0]"},
		{"new", `{"eventTypes":["*"],"scopeKind":"feeds","feeds":` + unknown + `}`, 404, "NOT_FOUND", "feeds[0]"},
	} {
		s.put(t, path+tt.ref, tt.body).refused(t, tt.status, tt.code, tt.message)
	}
	s.get(t, path+"new").refused(t, 404, "NOT_FOUND", "subscription not found")
}

func TestPatchSubscriptionMerges(t *testing.T) {
	s := serve(t)
	s.destination(t, "crm")
	one, two := s.feed(t, s.org), s.feed(t, s.org)
	const path = destinationsPath + "/crm/subscriptions/"
	want := into[subscriptionView](t, 201, s.put(t, path+"city",
		`{"eventTypes":["news.*"],"scopeKind":"feeds","feeds":`+pins(one)+`}`))
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
		s.patch(t, path+want.ID, step.body).into(t, 200, &got)
		s.get(t, path+want.ID).into(t, 200, &found)
		step.change(&want)
		if diff := cmp.Diff(want, got); diff != "" || cmp.Diff(got, found) != "" {
			t.Errorf("PATCH %s (-want +got):\n%s\nread afterwards: %+v", step.body, diff, found)
		}
		if wrote := s.EventTypes(t, stream)[len(before):]; !slices.Equal(wrote, step.events) {
			t.Errorf("PATCH %s wrote %v, want %v", step.body, wrote, step.events)
		}
	}
	// the old name is free
	s.put(t, path+"city", allOf).into(t, 201, new(any))
	for body, want := range map[string][2]string{
		`{"eventTypes":["delivery.test"]}`:      {"VALIDATION_FAILED", "delivery.test"},
		`{"scopeKind":"all","feedType":"news"}`: {"INVALID_BODY", "feedType is allowed"},
		// merged, it has no pins
		`{"scopeKind":"feeds"}`:                                  {"INVALID_BODY", "feeds must pin"},
		`{"feeds":` + pins(one) + `}`:                            {"INVALID_BODY", "feeds is allowed"},
		`{"externalId":"city"}`:                                  {"ALREADY_EXISTS", `"city"`},
		`{"scopeKind":"feeds","feeds":` + pins(uuid.New()) + `}`: {"NOT_FOUND", "feeds[0]"},
	} {
		s.patch(t, path+"town", body).refusedAs(t, want)
	}
	s.patch(t, path+"town", `{"feeds":[]}`).into(t, 200, new(any)) // no pins, as before
}

func TestSubscriptionIsOfItsDestinationOnly(t *testing.T) {
	s := serve(t)
	s.destination(t, "crm")
	s.destination(t, "erp")
	var crm, erp subscriptionView
	all := `{"externalId":"all","eventTypes":["*"],"scopeKind":"all"}`
	s.post(t, destinationsPath+"/crm/subscriptions", all).into(t, 201, &crm)
	// names are of one destination
	s.post(t, destinationsPath+"/erp/subscriptions", all).into(t, 201, &erp)
	for _, in := range surface {
		if strings.Contains(in.path, "{subRef}") {
			in.path = strings.NewReplacer("{ref}", "erp", "{subRef}", crm.ID).Replace(in.path)
			s.do(t, in).refused(t, 404, "NOT_FOUND", "subscription not found")
		}
	}
	s.delete(t, destinationsPath+"/crm/subscriptions/all").done(t)
	for _, ref := range []string{"all", crm.ID} {
		s.get(t, destinationsPath+"/crm/subscriptions/"+ref).refused(t, 404, "NOT_FOUND", "subscription not found")
		s.delete(t, destinationsPath+"/crm/subscriptions/"+ref).refused(t, 404, "NOT_FOUND", "subscription not found")
	}
	s.get(t, destinationsPath+"/erp/subscriptions/all").into(t, 200, new(any)) // the other stays
	s.post(t, destinationsPath+"/crm/subscriptions", all).into(t, 201, new(any))
}

func TestPinsNeedAccessAtEachWrite(t *testing.T) {
	s := serve(t)
	s.destination(t, "crm")
	library, _ := s.Organization(t, "Library")
	feed := s.feed(t, library)
	const path = destinationsPath + "/crm/subscriptions"
	body := `{"eventTypes":["*"],"scopeKind":"feeds","feeds":` + pins(feed) + `}`
	s.post(t, path, body).refused(t, 404, "NOT_FOUND", "feeds[0]")
	theirs := s.put(t, path+"/city", body)
	missing := s.put(t, path+"/city", strings.ReplaceAll(body, feed.String(), library.String()))
	if strings.ReplaceAll(missing.body, library.String(), feed.String()) != theirs.body {
		t.Errorf("of another's feed: %s\nof a missing feed: %s", theirs.body, missing.body)
	}
	share := command.ShareFeed{FeedType: "news", FeedID: feed, Organization: s.org}
	shared := must.Get(s.Commands.ShareFeed(t.Context(), apitest.Operator, share))(t)
	s.Await(t, shared.Position, feeds.ReadModel.Name)
	s.put(t, path+"/city", body).into(t, 201, new(any))
	s.patch(t, path+"/city", `{"active":false}`).into(t, 200, new(any))
	shared = must.Get(s.Commands.UnshareFeed(t.Context(), apitest.Operator, command.UnshareFeed(share)))(t)
	s.Await(t, shared.Position, feeds.ReadModel.Name)
	s.put(t, path+"/city", body).refused(t, 404, "NOT_FOUND", "feeds[0]")
	// the stored pin
	s.patch(t, path+"/city", `{"active":true}`).refused(t, 404, "NOT_FOUND", "feeds[0]")
	s.patch(t, path+"/city", `{"active":true,"scopeKind":"all"}`).into(t, 200, new(any))
}
