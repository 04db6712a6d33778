package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/command/catalog"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/feeds"
)

// destinationBody is the body that creates a destination at a receiver that answers 204, with more members before.
func destinationBody(t *testing.T, more string) string {
	t.Helper()
	return `{` + more + `"name":"CRM","config":{"url":"` + receiverURL(t, http.StatusNoContent) +
		`","headers":{"X-Token":"t0ken"}}}`
}

type destinationView struct {
	ID         string  `json:"id"`
	ExternalID *string `json:"externalId"`
	Name       string  `json:"name"`
	Transport  string  `json:"transport"`
	Config     struct {
		URL     string            `json:"url"`
		Headers map[string]string `json:"headers"`
	} `json:"config"`
	DebounceWindowSeconds int          `json:"debounceWindowSeconds"`
	MaxRequestsPerSecond  *float64     `json:"maxRequestsPerSecond"`
	Traceparent           bool         `json:"traceparent"`
	Status                string       `json:"status"`
	StatusReason          *string      `json:"statusReason"`
	ConsecutiveFailures   int          `json:"consecutiveFailures"`
	LastSuccessAt         *time.Time   `json:"lastSuccessAt"`
	LastFailureAt         *time.Time   `json:"lastFailureAt"`
	LastErrorMessage      *string      `json:"lastErrorMessage"`
	Secrets               []secretView `json:"secrets"`
	Validation            *struct {
		Reachable      bool `json:"reachable"`
		StatusCode     *int `json:"statusCode"`
		ResponseTimeMs int  `json:"responseTimeMs"`
	} `json:"validation"`
}

func TestDestinationIsCreatedAndRead(t *testing.T) {
	s := serve(t)
	body := destinationBody(t, `"externalId":"crm","debounceWindowSeconds":5,`)
	created := into[destinationView](t, 201, s.post(t, destinationsPath, body))
	var read destinationView
	must.True(t, len(created.Secrets) == 1 && len(created.Secrets[0].Secret) == len("whsec_")+44 &&
		created.Secrets[0].ExpiresAt == nil, "secrets = %+v, want one in full that never expires", created.Secrets)
	assert.True(t, created.Status == "enabled" && created.Transport == "webhook" && created.DebounceWindowSeconds == 5 &&
		created.Config.Headers["X-Token"] == "t0ken", "created %+v", created)
	if v := created.Validation; v == nil || !v.Reachable || v.StatusCode == nil || *v.StatusCode != http.StatusNoContent {
		t.Errorf("validation = %+v, want it reachable with 204", v)
	}
	s.wrote(t, "destination-"+created.ID, "destination.created.v2", "destination.secret-minted.v1")
	for _, ref := range []string{created.ID, "crm"} {
		s.get(t, "/events/destinations/"+ref).into(t, 200, &read)
	}
	full := created.Secrets[0].Secret
	masked := read.Secrets[0].Secret
	assert.True(t, !strings.Contains(masked, full[6:40]) && strings.HasPrefix(masked, "whsec_") &&
		strings.HasSuffix(masked, full[len(full)-4:]), "masked secret = %s", masked)
	created.Validation, created.Secrets, read.Secrets = nil, nil, nil
	assert.Same(t, read, created)
	s.post(t, destinationsPath, body).refused(t, 409, "ALREADY_EXISTS", `"crm"`)
}

func TestDestinationsAreListedOldestFirst(t *testing.T) {
	s := serve(t)
	ids := make([]string, 0, 3)
	for range 3 {
		ids = append(ids, s.destination(t, "").ID)
	}
	for query, want := range map[string]struct {
		ids     []string
		hasMore bool
	}{"": {ids, false}, "?limit=2": {ids[:2], true}, "?limit=2&offset=1": {ids[1:], false}, "?offset=3": {nil, false},
		"?offset=9223372036854775807": {nil, false}, "?offset=9223372036854775808": {nil, false}} {
		page := into[page[destinationView]](t, 200, s.get(t, "/events/destinations"+query))
		got := make([]string, 0, len(page.Items))
		for _, item := range page.Items {
			got = append(got, item.ID)
		}
		assert.True(t, slices.Equal(got, want.ids) && page.Total == 3 && page.Pagination.HasMore == want.hasMore,
			"%s: %v of %d, more %v; want %v", query, got, page.Total, page.Pagination.HasMore, want)
	}
}

func TestSubscriptionIsCreatedAndListed(t *testing.T) {
	s := serve(t)
	destination := s.destination(t, "crm")
	const path = "/events/destinations/crm/subscriptions"
	created := into[subscriptionView](t, 201,
		s.post(t, path, `{"externalId":"all","eventTypes":["*","news.item.added"],"scopeKind":"all"}`))
	assert.True(t, created.DestinationID == destination.ID && created.Active && created.ScopeKind == "all" &&
		len(created.EventTypes) == 2, "created %+v", created)
	s.wrote(t, "subscription-"+created.ID, "subscription.created.v1")
	page := into[page[subscriptionView]](t, 200, s.get(t, path))
	assert.Alike(t, page.Items, []subscriptionView{created}, "listed")
	assert.Equal(t, page.Total, 1, "total")
	for body, want := range map[string][2]string{
		`{"eventTypes":["*"],"scopeKind":"all","externalId":"all"}`: {"ALREADY_EXISTS", `"all"`},
		`{"scopeKind":"all"}`:  {"INVALID_BODY", "eventTypes is required"},
		`{"eventTypes":["*"]}`: {"INVALID_BODY", "scopeKind is required"},
		`{"eventTypes":["*"],"scopeKind":"feeds","feeds":[{"feedType":"event"}]}`: {"INVALID_BODY",
			"feeds[0].feedId is required"},
		`{"eventTypes":[],"scopeKind":"all"}`:                   {"INVALID_BODY", "eventTypes must"},
		`{"eventTypes":["news*"],"scopeKind":"all"}`:            {"INVALID_BODY", "eventTypes[0]"},
		`{"eventTypes":[7],"scopeKind":"all"}`:                  {"INVALID_BODY", "eventTypes[0] must be a string"},
		`{"eventTypes":["no.such.type"],"scopeKind":"all"}`:     {"VALIDATION_FAILED", "no.such.type"},
		`{"eventTypes":["delivery.test"],"scopeKind":"all"}`:    {"VALIDATION_FAILED", "delivery.test"},
		`{"eventTypes":["*"],"scopeKind":"some"}`:               {"INVALID_BODY", "scopeKind must be"},
		`{"eventTypes":["*"],"scopeKind":"feed_type"}`:          {"INVALID_BODY", "feedType"},
		`{"eventTypes":["*"],"scopeKind":"all","feedType":"x"}`: {"INVALID_BODY", "feedType must be one of"},
		`{"eventTypes":["*"],"scopeKind":"feeds","feeds":[{"feedType":"event",` +
			`"feedId":"7"}]}`: {"INVALID_BODY", "feeds[0].feedId must be a UUID"},
		`{"eventTypes":["*"],"scopeKind":"feeds","feeds":[{"feedType":"event","feedId":"` + destination.ID +
			`","x":1}]}`: {"INVALID_BODY", "feeds[0].x is not a known field"},
		`{"eventTypes":["*"],"scopeKind":"feeds","feeds":[{"feedType":"event","feedId":"` + destination.ID +
			`"}]}`: {"NOT_FOUND", "feeds[0]"},
	} {
		s.post(t, path, body).refusedAs(t, want)
	}
}

func TestEventTypesAreListed(t *testing.T) {
	s := serve(t)
	var list struct {
		Types []struct {
			Type             string         `json:"type"`
			CurrentlyEmitted bool           `json:"currentlyEmitted"`
			Schema           map[string]any `json:"schema"`
		} `json:"types"`
	}
	s.get(t, "/events/types").into(t, 200, &list)
	types := must.Get(catalog.Types())(t)
	must.Equal(t, len(list.Types), len(types), "types")
	for i, entry := range list.Types {
		assert.True(t, entry.Type == types[i].Name && entry.CurrentlyEmitted == types[i].CurrentlyEmitted &&
			entry.Schema["type"] == "object", "listed is %+v, and declared %s", entry, types[i].Name)
	}
}

const ownSecret = "whsec_b3duIHNlY3JldCBvZiBhIHJlY2VpdmVyLCAzMiBieXRlcw=="

// A receiver that moves here verifies by the secret it has; the destination can begin disabled.
func TestDestinationWithOwnSecret(t *testing.T) {
	s := serve(t)
	created := into[destinationView](t, 201, s.post(t, "/events/destinations", destinationBody(t,
		`"externalId":"moved","secret":"`+ownSecret+`","enabled":false,`)))
	assert.True(t, created.Status == "disabled" && len(created.Secrets) == 1 && created.Secrets[0].Secret == ownSecret,
		"created %+v, want it disabled, with the secret that was sent", created)
	s.wrote(t, "destination-"+created.ID, "destination.created.v2", "destination.secret-minted.v1",
		"destination.disabled.v1")
	read := into[destinationView](t, 200, s.get(t, "/events/destinations/moved"))
	assert.True(t, read.Status == "disabled" && read.Secrets[0].Secret != ownSecret,
		"read %+v, want it disabled, its secret masked", read)
	for _, method := range []string{"PUT", "PATCH"} {
		body := destinationBody(t, `"secret":"`+ownSecret+`",`)
		s.sends(t, method, "/events/destinations/moved", body).refused(t, 400, "INVALID_BODY", "secret")
	}
}

// The address for notices is a destination with a name of its own, which PUT, GET and DELETE reach by their path.
func TestNoticesAddress(t *testing.T) {
	s := serve(t)
	const path = "/events/notices"
	s.get(t, path).refused(t, 404, "NOT_FOUND", "destination not found")
	var made, again, read, named destinationView
	s.put(t, path, destinationBody(t, "")).into(t, 201, &made)
	must.True(t, made.ExternalID != nil && *made.ExternalID == "carillon.notices" && len(made.Secrets) == 1,
		"made %+v", made)
	s.put(t, path, destinationBody(t, "")).into(t, 200, &again)
	s.get(t, path).into(t, 200, &read)
	s.get(t, destinationsPath+"/carillon.notices").into(t, 200, &named)
	assert.True(t, again.ID == made.ID && read.ID == made.ID && named.ID == made.ID,
		"ids %s, %s, %s and %s, want one", made.ID, again.ID, read.ID, named.ID)
	s.post(t, destinationsPath+"/carillon.notices/subscriptions",
		`{"eventTypes":["delivery.exhausted"],"scopeKind":"all"}`).refused(t, 400, "VALIDATION_FAILED", "PUT /events/notices")
	s.delete(t, path).into(t, 200, nil)
	s.get(t, path).refused(t, 404, "NOT_FOUND", "destination not found")
}

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
	feed := s.NewsFeed(t, s.org, "City")
	const path = destinationsPath + "/crm/subscriptions/"
	pinned := `{"eventTypes":["news.*","event.item.updated"],"scopeKind":"feeds","feeds":` + pins(feed) + `}`
	created := into[subscriptionView](t, 201, s.put(t, path+"city", pinned))
	assert.True(t, *created.ExternalID == "city" && created.Active && len(created.Feeds) == 1 &&
		created.Feeds[0].FeedID == feed.String(), "created %+v", created)
	for _, ref := range []string{"city", created.ID} {
		var same, found subscriptionView
		s.put(t, path+ref, pinned).into(t, 200, &same)
		s.get(t, path+ref).into(t, 200, &found)
		assert.True(t, cmp.Diff(created, same) == "" && cmp.Diff(created, found) == "",
			"%s: the same again: %+v, read: %+v, want %+v", ref, same, found, created)
	}
	s.wrote(t, "subscription-"+created.ID, "subscription.created.v1")
	replaced := into[subscriptionView](t, 200, s.put(t, path+"city",
		`{"eventTypes":["*"],"scopeKind":"feed_type","feedType":"news"}`))
	assert.True(t, replaced.ID == created.ID && len(replaced.Feeds) == 0 && *replaced.FeedType == "news" &&
		*replaced.ExternalID == "city", "replaced %+v, want the pins cleared", replaced)
	s.wrote(t, "subscription-"+created.ID, "subscription.created.v1", "subscription.revised.v1")
	for ref, feed := range map[string]uuid.UUID{"city": feed, created.ID: s.NewsFeed(t, s.org, "City")} {
		body := `{"eventTypes":["news.*"],"scopeKind":"feeds","feeds":` + pins(feed) + `}`
		s.put(t, path+ref, body).into(t, 200, &replaced)
		assert.True(t, len(replaced.Feeds) == 1 && replaced.Feeds[0].FeedID == feed.String() &&
			replaced.EventTypes[0] == "news.*", "replaced %+v, want other pins", replaced)
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
	one, two := s.NewsFeed(t, s.org, "City"), s.NewsFeed(t, s.org, "City")
	const path = destinationsPath + "/crm/subscriptions/"
	want := into[subscriptionView](t, 201, s.put(t, path+"city",
		`{"eventTypes":["news.*"],"scopeKind":"feeds","feeds":`+pins(one)+`}`))
	renamed, news := "town", "news"
	merges(t, s, path+want.ID, "subscription-"+want.ID, want, []patch[subscriptionView]{
		{`{}`, nil, nil},
		{`{"eventTypes":["*"]}`, func(v *subscriptionView) {
			v.EventTypes = []string{"*"}
		}, []string{"subscription.revised.v1"}},
		{`{"feeds":` + pins(two, one) + `}`, func(v *subscriptionView) {
			v.Feeds = []pinView{{"news", two.String()}, {"news", one.String()}}
		}, []string{"subscription.revised.v1"}},
		{`{"active":false}`, func(v *subscriptionView) { v.Active = false }, []string{"subscription.deactivated.v1"}},
		{`{"active":true}`, func(v *subscriptionView) { v.Active = true }, []string{"subscription.activated.v1"}},
		{`{"active":true}`, nil, nil},
		{`{"externalId":"town"}`, func(v *subscriptionView) { v.ExternalID = &renamed }, []string{"subscription.revised.v1"}},
		{`{"scopeKind":"feed_type","feedType":"news"}`, func(v *subscriptionView) {
			v.ScopeKind, v.FeedType, v.Feeds = "feed_type", &news, []pinView{}
		}, []string{"subscription.revised.v1"}},
	}...)
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
	feed := s.NewsFeed(t, library, "City")
	const path = destinationsPath + "/crm/subscriptions"
	body := `{"eventTypes":["*"],"scopeKind":"feeds","feeds":` + pins(feed) + `}`
	s.post(t, path, body).refused(t, 404, "NOT_FOUND", "feeds[0]")
	theirs := s.put(t, path+"/city", body)
	missing := s.put(t, path+"/city", strings.ReplaceAll(body, feed.String(), library.String()))
	assert.True(t, strings.ReplaceAll(missing.body, library.String(), feed.String()) == theirs.body,
		"of another's feed: %s\nof a missing feed: %s", theirs.body, missing.body)
	s.Share(t, "news", feed, s.org)
	s.put(t, path+"/city", body).into(t, 201, new(any))
	s.patch(t, path+"/city", `{"active":false}`).into(t, 200, new(any))
	unshare := command.UnshareFeed{FeedType: "news", FeedID: feed, Organization: s.org}
	ended := must.Get(s.Commands.UnshareFeed(t.Context(), apitest.Operator, unshare))(t)
	s.Await(t, ended.Position, feeds.ReadModel.Name)
	s.put(t, path+"/city", body).refused(t, 404, "NOT_FOUND", "feeds[0]")
	// the stored pin
	s.patch(t, path+"/city", `{"active":true}`).refused(t, 404, "NOT_FOUND", "feeds[0]")
	s.patch(t, path+"/city", `{"active":true,"scopeKind":"all"}`).into(t, 200, new(any))
}
