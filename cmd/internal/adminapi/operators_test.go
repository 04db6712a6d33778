package adminapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/aggregates/auditor"
	"carillon/aggregates/destination"
	"carillon/aggregates/operator"
	"carillon/aggregates/organization"
	"carillon/cmd/internal/adminapi"
	"carillon/command"
	"carillon/command/credential"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

// actors are who recorded the events of a stream, in its order.
func (s *server) actors(t *testing.T, stream string) (actors []string) {
	t.Helper()
	for recorded, err := range s.Store.Read(t.Context(), stream, 0) {
		must.OK(t, err)
		meta := must.Get(eventstore.ParseMetadata(recorded.Metadata))(t)
		actors = append(actors, meta.Actor)
	}
	return actors
}

func TestOperators(t *testing.T) {
	s := serveAlone(t)
	ann := s.issue(t, "operators", `{"name":"ann"}`)
	bob := into[adminapi.IssuedToken](t, 201,
		s.as(t, ann.Token, "POST", "/admin/operators", `{"name":"bob","expiresAt":"2100-01-01T00:00:00Z"}`))
	parsed, ok := credential.Parse(credential.OperatorToken, bob.Token)
	must.True(t, ok && parsed.ID == bob.ID, "issued %+v", bob.ID)
	s.do(t, "POST", "/admin/operators", `{"name":"ann"}`).refused(t, 409, "CONFLICT", "rotate the token")

	// Their actions are recorded under their names.
	org := into[adminapi.Created](t, 201, s.as(t, ann.Token, "POST", "/admin/organizations", `{"name":"Town hall"}`))
	s.as(t, bob.Token, "POST", "/admin/organizations/"+org.ID.String()+"/suspend", `{"reason":"unpaid"}`).into(t, 200, nil)
	s.do(t, "POST", "/admin/organizations/"+org.ID.String()+"/resume", "").into(t, 200, nil)
	want := []string{"operator:ann", "operator:bob", "operator"}
	assert.Slices(t, s.actors(t, organization.Aggregate.Stream(org.ID)), want, "actors")
	assert.Slices(t, s.actors(t, operator.Aggregate.Stream(operator.StreamID("bob"))), []string{"operator:ann"},
		"bob was admitted by")

	// A rotation has no gap: both tokens work until the overlap ends.
	second := into[adminapi.IssuedToken](t, 201, s.as(t, bob.Token, "POST", "/admin/operators/bob/rotate",
		`{"overlapSeconds":3600}`))
	for later, valid := range map[time.Duration]bool{59 * time.Minute: true, 61 * time.Minute: false} {
		s.later.Store(int64(later))
		s.as(t, second.Token, "GET", "/admin/sources", "").into(t, 200, nil)
		if got := s.as(t, bob.Token, "GET", "/admin/sources", ""); (got.status == 200) != valid {
			t.Errorf("after %s: %d %s", later, got.status, got.body)
		}
	}
	s.later.Store(0)
	for _, seconds := range []string{"2592001", "-1"} {
		s.do(t, "POST", "/admin/operators/bob/rotate", `{"overlapSeconds":`+seconds+`}`).refused(t, 400, "INVALID_BODY",
			"overlapSeconds must be 0 to 2592000")
	}
	s.do(t, "POST", "/admin/operators/eve/rotate", "").refused(t, 404, "NOT_FOUND", "operator not found")
	s.do(t, "DELETE", "/admin/operators/eve", "").refused(t, 404, "NOT_FOUND", "operator not found")

	s.do(t, "DELETE", "/admin/operators/bob", "").into(t, 200, nil)
	s.do(t, "DELETE", "/admin/operators/bob", "").into(t, 200, nil)
	for _, dead := range []string{bob.Token, second.Token} {
		s.as(t, dead, "GET", "/admin/sources", "").refused(t, 401, "AUTHENTICATION_FAILED", "admin token")
	}
	s.as(t, ann.Token, "GET", "/admin/sources", "").into(t, 200, nil)

	must.OK(t, s.uses.Flush(t.Context()))
	var list adminapi.List[query.Credential]
	answer := s.do(t, "GET", "/admin/operators", "")
	answer.into(t, 200, &list)
	assert.True(t, len(list.Items) == 3 && list.Items[0].Name == "ann" && list.Items[0].LastUsedAt != nil &&
		list.Items[0].LastUsedAt.Minute() == 0 && list.Items[1].RevokedAt != nil && list.Items[2].RevokedAt != nil,
		"operators: %s", answer.body)
	for _, shown := range []string{answer.body, s.Logged.String()} {
		for _, token := range []string{ann.Token, bob.Token, second.Token} {
			assert.True(t, !strings.Contains(shown, token[12:]), "a token is shown again")
		}
	}
	assert.True(t, strings.Contains(s.Logged.String(), "actor=operator:ann"), "the log does not say who it was")
}

// Actions that leave no other event leave one of their own.
func TestActionsWithoutEventsAreOnRecord(t *testing.T) {
	s := serveAlone(t)
	org, _ := s.Organization(t, "Town hall")
	ann := s.issue(t, "operators", `{"name":"ann"}`)
	for _, request := range [][2]string{
		{"/admin/organizations/" + org.String() + "/console-link", `{"as":"bob","scopes":["read","write"]}`},
		{"/admin/projections/feeds/rebuild"}, {"/admin/keys/rotate-master"}, {"/admin/keys/renew"},
	} {
		path := request[0]
		got := s.as(t, ann.Token, "POST", path, request[1])
		assert.True(t, got.status < 300, "%s: %d %s", path, got.status, got.body)
	}
	for _, refused := range [][2]string{
		{"POST", "/admin/projections/nope/rebuild"}, {"POST", "/admin/projections/nope/verify"},
		{"DELETE", "/admin/analytics/logins/nope"},
	} {
		s.as(t, ann.Token, refused[0], refused[1], "").refused(t, 404, "NOT_FOUND", "")
	}
	var acted []string
	for message, err := range s.Store.Subscribe(t.Context(), eventstore.Start,
		eventstore.Categories(operator.Aggregate.Category)) {
		must.OK(t, err)
		if message.CaughtUp {
			break
		}
		if message.Event == nil || message.Event.Type != "operator.acted.v1" {
			continue
		}
		event := must.Get(operator.Events.Decode(message.Event))(t)
		meta := must.Get(eventstore.ParseMetadata(message.Event.Metadata))(t)
		switch e := event.(type) {
		case operator.Acted:
			acted = append(acted, meta.Actor+" "+e.Action+" "+e.Subject)
		case operator.TokenIssued, operator.TokenRotated, operator.Revoked:
		}
	}
	want := []string{
		"operator:ann make-console-link " + org.String() + " as bob, scopes read write",
		"operator:ann rebuild-projection feeds",
		"operator:ann rotate-master-key ",
		"operator:ann renew-keys ",
	}
	assert.Slices(t, acted, want, "on record")
}

func TestTokensAreNotIssuedByMistake(t *testing.T) {
	s := serve(t)
	for _, of := range []string{"operators", "auditors"} {
		for body, message := range map[string]string{
			`{}`: "name is required", `{"name":""}`: "name", `{"name":"ann","expiresAt":"tomorrow"}`: "expiresAt must be",
			`{"name":"ann","expiresAt":"2020-01-01T00:00:00Z"}`: "future",
			`{"name":"ann","admin":true}`:                       "admin is not a known field",
		} {
			s.do(t, "POST", "/admin/"+of, body).refused(t, 400, "INVALID_BODY", message)
		}
	}
	for _, name := range []string{"Ann", "a/b"} {
		s.do(t, "POST", "/admin/operators", `{"name":"`+name+`"}`).refused(t, 400, "INVALID_BODY", "a-z 0-9")
	}
	s.do(t, "DELETE", "/admin/auditors/nobody00", "").refused(t, 404, "NOT_FOUND", "auditor not found")
}

// who may use a route of the admin API: operators alone, but for what is decided here.
var (
	forOperators = []string{"configured", "operator"}
	forAuditors  = []string{"configured", "operator", "auditor"}
	forBound     = []string{"configured", "operator", "auditor", "bound auditor"}

	decided = map[string][]string{
		"GET /admin/audit":                      forBound,
		"GET /admin/audit/{kind}/{thing}":       forBound,
		"GET /admin/audit/destinations":         forBound,
		"GET /admin/audit/destinations/{id}":    forBound,
		"GET /admin/projections":                forAuditors,
		"POST /admin/projections/{name}/verify": forAuditors,
		"GET /admin/seal":                       forBound,
		"GET /admin/seal/exports/{id}":          forBound,
	}
)

// Each token against each route.
func TestHostileTokenOnEveryRoute(t *testing.T) {
	s := serve(t)
	org, key := s.Organization(t, "Town hall")
	tokens := map[string]string{
		"configured": token, "API key": key, "none": "", "wrong": strings.Repeat("x", len(token)), "prefix": token[:31],
	}
	tokens["operator"] = s.issue(t, "operators", `{"name":"dora"}`).Token
	tokens["revoked operator"] = s.issue(t, "operators", `{"name":"dave"}`).Token
	tokens["auditor"] = s.issue(t, "auditors", `{"name":"Court of audit"}`).Token
	tokens["bound auditor"] = s.issue(t, "auditors", `{"name":"Town","organization":"`+org.String()+`"}`).Token
	s.do(t, "DELETE", "/admin/operators/dave", "").into(t, 200, nil)
	fill := strings.NewReplacer("{id}", uuid.NewString(), "{keyId}", "nobody00", "{feedType}", "news", "{feedId}",
		uuid.NewString(),
		"{organizationId}", uuid.NewString(), "{organization}", uuid.NewString(), "{ref}", "crm",
		"{name}", "unknown", "{profile}", "heap")
	public := []string{"GET /healthz", "GET /readyz", "GET /metrics", "GET /admin/openapi.json"}
	seen := map[string]bool{}
	for _, route := range [][2]string{{"GET", "/nowhere"}, {"PROPFIND", "/healthz"}, {"POST", "/admin/events"}} {
		got := s.as(t, "", route[0], route[1], "", "Authorization", "Basic "+token)
		got.refused(t, 401, "AUTHENTICATION_FAILED", "admin token")
	}
	s.do(t, "GET", "/nowhere", "").refused(t, 404, "NOT_FOUND", "no such route")
	s.do(t, "PATCH", "/admin/sources", "").refused(t, 404, "NOT_FOUND", "GET or POST")
	err := chi.Walk(s.api.Routes(),
		func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			name := method + " " + route
			may, ok := decided[name]
			if seen[name] = true; slices.Contains(public, name) {
				return nil
			}
			if !ok {
				may = forOperators
			}
			for who, token := range tokens {
				// With an invalid body the token is checked first, and nothing is done. Profiles take their time.
				if allowed := slices.Contains(may, who); strings.Contains(route, "pprof/") && allowed {
					continue
				} else if got := s.as(t, token, method, fill.Replace(route), "{"); (got.status != 401) != allowed {
					t.Errorf("%s of %s: %d %s", name, who, got.status, got.body)
				}
			}
			return nil
		})
	must.OK(t, err)
	for name := range decided {
		assert.True(t, seen[name], "%s is no route any more", name)
	}
	assert.True(t, !strings.Contains(s.Logged.String(), token), "the log shows the token")
}

// An address that makes up tokens is refused after a while, except for the configured token and recently
// valid ones.
func TestHostileTokensAreLimited(t *testing.T) {
	s := serve(t)
	s.stopped = time.Now()
	ann := s.issue(t, "operators", `{"name":"erin"}`)
	s.as(t, ann.Token, "GET", "/admin/organizations", "").into(t, 200, new(any))
	limited := false
	for i := range 3000 {
		made := credential.New(credential.OperatorToken)
		if i%2 == 0 {
			made = credential.New(credential.AuditorToken)
		}
		if got := s.as(t, made.Reveal(), "GET", "/admin/organizations", ""); got.status == 429 {
			limited = true
			break
		}
	}
	assert.True(t, limited, "nothing limits tokens that are made up")
	s.do(t, "GET", "/admin/organizations", "").into(t, 200, new(any))
	s.as(t, ann.Token, "GET", "/admin/organizations", "").into(t, 200, new(any))
}

func TestAuditors(t *testing.T) {
	s := serveAlone(t)
	org, key := s.Organization(t, "Town hall")
	id, _, _ := s.life(t, command.Caller{Organization: org, Actor: "key:ab12CD34"})
	expires := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	issued := s.issue(t, "auditors", `{"name":"Court of audit","expiresAt":"`+expires.Format(time.RFC3339)+`"}`)
	lasting := s.issue(t, "auditors", `{"name":"Data protection"}`)
	parsed, ok := credential.Parse(credential.AuditorToken, issued.Token)
	must.True(t, ok && parsed.ID == issued.ID, "issued %+v", issued.ID)

	may := []string{"/admin/audit/destinations/" + id.String(), "/admin/projections"}
	for _, path := range may {
		for _, method := range []string{"GET", "HEAD"} {
			assert.Equal(t, s.as(t, issued.Token, method, path, "").status, 200, "%s %s", method, path)
		}
	}
	s.as(t, issued.Token, "GET", "/admin/audit/destinations/"+uuid.NewString(), "").refused(t, 404, "NOT_FOUND",
		"no destination")
	// All else is closed.
	for _, route := range [][2]string{
		{"POST", may[0]}, {"DELETE", may[0]}, {"POST", "/admin/projections"}, {"GET", "/nowhere"},
		{"GET", "/admin/%61udit/destinations/" + id.String()}, {"GET", "/admin/projections/"},
	} {
		s.as(t, issued.Token, route[0], route[1], "{}").refused(t, 401, "AUTHENTICATION_FAILED", "admin token")
	}
	for name, bad := range map[string]string{
		"another secret": issued.Token[:12] + strings.Repeat("x", 43), "another id": "ca_00000000" + issued.Token[11:],
		"an API key": key, "none": "",
	} {
		assert.Equal(t, s.as(t, bad, "GET", may[0], "").status, 401, "%s", name)
	}

	s.do(t, "DELETE", "/admin/auditors/"+lasting.ID, "").into(t, 200, nil)
	s.do(t, "DELETE", "/admin/auditors/"+lasting.ID, "").into(t, 200, nil)
	s.as(t, lasting.Token, "GET", may[0], "").refused(t, 401, "AUTHENTICATION_FAILED", "while it is valid")
	var list adminapi.List[query.Credential]
	answer := s.do(t, "GET", "/admin/auditors", "")
	answer.into(t, 200, &list)
	assert.True(t, len(list.Items) == 2 && list.Items[0].ID == issued.ID && list.Items[0].ExpiresAt.Equal(expires) &&
		list.Items[0].RevokedAt == nil && list.Items[1].Name == "Data protection" && list.Items[1].RevokedAt != nil &&
		list.Items[1].ExpiresAt == nil, "auditors: %s", answer.body)
	events := s.EventTypes(t, auditor.Aggregate.Stream(auditor.StreamID(lasting.ID)))
	assert.Slices(t, events, []string{"auditor.token-issued.v1", "auditor.token-revoked.v1"}, "events")
	assert.True(t, !strings.Contains(s.Logged.String(), issued.Token) && !strings.Contains(answer.body, issued.Token[12:]),
		"the token is shown again")
	assert.True(t, strings.Contains(s.Logged.String(), "auditor="+issued.ID), "the log does not say who read")
	for later, want := range map[time.Duration]int{time.Hour / 2: 200, time.Hour: 401} { // it ends by itself
		s.later.Store(int64(later))
		assert.Equal(t, s.as(t, issued.Token, "GET", "/admin/projections", "").status, want, "after %s", later)
	}
}

// An auditor of one organization can't distinguish others' destinations, and exports of them, from unknown ones.
func TestHostileAuditorOfOneOrganization(t *testing.T) {
	s := serveAlone(t)
	mine, _ := s.Organization(t, "Town hall")
	theirs, _ := s.Organization(t, "Library")
	seen, _, _ := s.life(t, command.Caller{Organization: mine, Actor: "key:ab12CD34"})
	hidden, _, _ := s.life(t, command.Caller{Organization: theirs, Actor: "key:ab12CD34"})
	bound := s.issue(t, "auditors", fmt.Sprintf(`{"name":"Town","organization":"%s"}`, mine))
	s.do(t, "POST", "/admin/auditors", fmt.Sprintf(`{"name":"Town","organization":"%s"}`, uuid.New())).refused(t, 404,
		"NOT_FOUND", "register it first")
	s.do(t, "POST", "/admin/auditors", `{"name":"Town","organization":"7"}`).refused(t, 400, "INVALID_BODY",
		"organization must be a UUID")

	s.do(t, "POST", "/admin/seal", "").into(t, 200, nil)
	const exports, audits = "/admin/seal/exports/", "/admin/audit/destinations/"
	get := func(path, accept string, id uuid.UUID) response {
		return s.as(t, bound.Token, "GET", path+id.String(), "", "Accept", accept)
	}
	looksMissing := func(path, accept string) {
		t.Helper()
		got, missing := get(path, accept, hidden), get(path, accept, uuid.New())
		assert.True(t, got.status == 404 && got.body == missing.body &&
			slices.Equal(got.header["Content-Type"], missing.header["Content-Type"]),
			"%s of others: %d %s\nof a missing one: %d %s", path, got.status, got.body, missing.status, missing.body)
	}
	for _, path := range []string{audits, exports} {
		for _, accept := range []string{"application/json", "application/x-ndjson"} {
			assert.Equal(t, get(path, accept, seen).status, 200, "%s of its organization", path)
			looksMissing(path, accept)
		}
	}
	must.OK(t, s.Store.Tombstone(t.Context(), destination.Aggregate.Stream(hidden)))
	looksMissing(exports, "application/json")
	list := into[adminapi.List[query.AuditorCredential]](t, 200, s.do(t, "GET", "/admin/auditors", ""))
	assert.True(t, len(list.Items) == 1 && list.Items[0].Organization != nil && *list.Items[0].Organization == mine,
		"auditors: %+v", list.Items)
}
