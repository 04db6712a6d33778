package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	DebounceWindowSeconds int        `json:"debounceWindowSeconds"`
	MaxRequestsPerSecond  *float64   `json:"maxRequestsPerSecond"`
	Traceparent           bool       `json:"traceparent"`
	Status                string     `json:"status"`
	StatusReason          *string    `json:"statusReason"`
	ConsecutiveFailures   int        `json:"consecutiveFailures"`
	LastSuccessAt         *time.Time `json:"lastSuccessAt"`
	LastFailureAt         *time.Time `json:"lastFailureAt"`
	LastErrorMessage      *string    `json:"lastErrorMessage"`
	Secrets               []struct {
		ID        string     `json:"id"`
		Secret    string     `json:"secret"`
		CreatedAt time.Time  `json:"createdAt"`
		ExpiresAt *time.Time `json:"expiresAt"`
	} `json:"secrets"`
	Validation *struct {
		Reachable      bool `json:"reachable"`
		StatusCode     *int `json:"statusCode"`
		ResponseTimeMs int  `json:"responseTimeMs"`
	} `json:"validation"`
}

func TestDestinationIsCreatedAndRead(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var created, read destinationView
	s.do(t, request{
		method: "POST",
		path:   "/events/destinations",
		body:   destinationBody(t, `"externalId":"crm","debounceWindowSeconds":5,`),
	}).into(t, 201, &created)
	if len(created.Secrets) != 1 || len(created.Secrets[0].Secret) != len("whsec_")+44 ||
		created.Secrets[0].ExpiresAt != nil {
		t.Fatalf("secrets = %+v, want one in full that never expires", created.Secrets)
	}
	if created.Status != "enabled" || created.Transport != "webhook" || created.DebounceWindowSeconds != 5 ||
		created.Config.Headers["X-Token"] != "t0ken" {
		t.Errorf("created %+v", created)
	}
	if v := created.Validation; v == nil || !v.Reachable || v.StatusCode == nil || *v.StatusCode != http.StatusNoContent {
		t.Errorf("validation = %+v, want it reachable with 204", v)
	}
	want := []string{"destination.created.v2", "destination.secret-minted.v1"}
	if got := s.EventTypes(t, "destination-"+created.ID); !slices.Equal(got, want) {
		t.Errorf("events = %v, want %v", got, want)
	}
	for _, ref := range []string{created.ID, "crm"} {
		s.do(t, request{path: "/events/destinations/" + ref}).into(t, 200, &read)
	}
	full := created.Secrets[0].Secret
	if masked := read.Secrets[0].Secret; strings.Contains(masked, full[6:40]) || !strings.HasPrefix(masked, "whsec_") ||
		!strings.HasSuffix(masked, full[len(full)-4:]) {
		t.Errorf("masked secret = %s", masked)
	}
	created.Validation, created.Secrets, read.Secrets = nil, nil, nil
	if diff := cmp.Diff(created, read); diff != "" {
		t.Errorf("created and read differ (-created +read):\n%s", diff)
	}
	s.do(t, request{method: "POST", path: "/events/destinations", body: destinationBody(t, `"externalId":"crm",`)}).
		refused(t, 409, "ALREADY_EXISTS", `"crm"`)
}

func TestDestinationsAreListedOldestFirst(t *testing.T) {
	t.Parallel()
	s := serve(t)
	ids := make([]string, 0, 3)
	for range 3 {
		var created destinationView
		s.do(t, request{method: "POST", path: "/events/destinations", body: destinationBody(t, "")}).into(t, 201, &created)
		ids = append(ids, created.ID)
	}
	for query, want := range map[string]struct {
		ids     []string
		hasMore bool
	}{"": {ids, false}, "?limit=2": {ids[:2], true}, "?limit=2&offset=1": {ids[1:], false}, "?offset=3": {nil, false}} {
		var page struct {
			Items      []destinationView `json:"items"`
			Total      int               `json:"total"`
			Pagination struct {
				Limit, Offset int
				HasMore       bool `json:"hasMore"`
			} `json:"pagination"`
		}
		s.do(t, request{path: "/events/destinations" + query}).into(t, 200, &page)
		got := make([]string, 0, len(page.Items))
		for _, item := range page.Items {
			got = append(got, item.ID)
		}
		if !slices.Equal(got, want.ids) || page.Total != 3 || page.Pagination.HasMore != want.hasMore {
			t.Errorf("%s: %v of %d, more %v; want %v", query, got, page.Total, page.Pagination.HasMore, want)
		}
	}
}

func TestSubscriptionIsCreatedAndListed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var destination destinationView
	s.do(t, request{method: "POST", path: "/events/destinations", body: destinationBody(t, `"externalId":"crm",`)}).into(t,
		201, &destination)
	type view struct {
		ID            string   `json:"id"`
		DestinationID string   `json:"destinationId"`
		ExternalID    *string  `json:"externalId"`
		EventTypes    []string `json:"eventTypes"`
		ScopeKind     string   `json:"scopeKind"`
		Active        bool     `json:"active"`
	}
	var created view
	const path = "/events/destinations/crm/subscriptions"
	s.do(t, request{
		method: "POST",
		path:   path,
		body:   `{"externalId":"all","eventTypes":["*","news.item.added"],"scopeKind":"all"}`,
	}).into(t, 201, &created)
	if created.DestinationID != destination.ID || !created.Active || created.ScopeKind != "all" ||
		len(created.EventTypes) != 2 {
		t.Errorf("created %+v", created)
	}
	if got := s.EventTypes(t, "subscription-"+created.ID); !slices.Equal(got, []string{"subscription.created.v1"}) {
		t.Errorf("events = %v", got)
	}
	var page struct {
		Items      []view `json:"items"`
		Total      int    `json:"total"`
		Pagination any    `json:"pagination"`
	}
	s.do(t, request{path: path}).into(t, 200, &page)
	if diff := cmp.Diff([]view{created}, page.Items); diff != "" || page.Total != 1 {
		t.Errorf("list (-created +listed):\n%s", diff)
	}
	for body, want := range map[string][3]string{
		`{"eventTypes":["*"],"scopeKind":"all","externalId":"all"}`: {"409", "ALREADY_EXISTS", `"all"`},
		`{"scopeKind":"all"}`: {"400", "INVALID_BODY",
			"eventTypes is required"},
		`{"eventTypes":[],` +
			`"scopeKind":"all"}`: {"400", "INVALID_BODY", "eventTypes must"},
		`{"eventTypes":["news*"],` +
			`"scopeKind":"all"}`: {"400", "INVALID_BODY", "eventTypes[0]"},
		`{"eventTypes":[7],` +
			`"scopeKind":"all"}`: {"400", "INVALID_BODY", "eventTypes[0] must be a string"},
		`{"eventTypes":["no.such.type"],` +
			`"scopeKind":"all"}`: {"400", "VALIDATION_FAILED", "no.such.type"},
		`{"eventTypes":["delivery.test"],` +
			`"scopeKind":"all"}`: {"400", "VALIDATION_FAILED", "delivery.test"},
		`{"eventTypes":` +
			`["*"]}`: {"400", "INVALID_BODY", "scopeKind is required"},
		`{"eventTypes":["*"],` +
			`"scopeKind":"some"}`: {"400", "INVALID_BODY", "scopeKind must be"},
		`{"eventTypes":["*"],` +
			`"scopeKind":"feed_type"}`: {"400", "INVALID_BODY", "feedType"},
		`{"eventTypes":["*"],"scopeKind":"all",` +
			`"feedType":"x"}`: {"400", "INVALID_BODY", "feedType must be one of"},
		`{"eventTypes":["*"],"scopeKind":"feeds",` +
			`"feeds":[{"feedType":"event"}]}`: {"400", "INVALID_BODY", "feeds[0].feedId is required"},
		`{"eventTypes":["*"],"scopeKind":"feeds","feeds":[{"feedType":"event",` +
			`"feedId":"7"}]}`: {"400", "INVALID_BODY", "feeds[0].feedId must be a UUID"},
		`{"eventTypes":["*"],"scopeKind":"feeds","feeds":[{"feedType":"event","feedId":"` + destination.ID +
			`","x":1}]}`: {"400", "INVALID_BODY", "feeds[0].x is not a known field"},
		`{"eventTypes":["*"],"scopeKind":"feeds","feeds":[{"feedType":"event","feedId":"` + destination.ID + `"}]}`: {"404",
			"NOT_FOUND", "feeds[0]"},
	} {
		got := s.do(t, request{method: "POST", path: path, body: body})
		status := map[string]int{"400": 400, "404": 404, "409": 409}[want[0]]
		got.refused(t, status, want[1], want[2])
	}
}

func TestEventTypesAreListed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var list struct {
		Types []struct {
			Type             string         `json:"type"`
			Description      string         `json:"description"`
			CurrentlyEmitted bool           `json:"currentlyEmitted"`
			FeedType         string         `json:"feedType"`
			Schema           map[string]any `json:"schema"`
		} `json:"types"`
	}
	s.do(t, request{path: "/events/types"}).into(t, 200, &list)
	emitted := 0
	for _, entry := range list.Types {
		if entry.CurrentlyEmitted {
			emitted++
		}
		if entry.Schema["type"] != "object" {
			t.Errorf("%s has no schema of an object: %v", entry.Type, entry.Schema)
		}
	}
	if len(list.Types) != 7 || emitted != 6 {
		t.Errorf("%d types, %d of them emitted; want 7 and 6", len(list.Types), emitted)
	}
}
