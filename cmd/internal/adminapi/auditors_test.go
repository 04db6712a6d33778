package adminapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/auditor"
	"carillon/cmd/internal/adminapi"
	"carillon/command"
	"carillon/command/credential"
	"carillon/query"
)

func TestAuditors(t *testing.T) {
	s := serveAlone(t)
	org, key := s.Organization(t, "Town hall")
	id, _, _ := s.life(t, command.Caller{Organization: org, Actor: "key:ab12CD34"})
	expires := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	var issued, lasting adminapi.IssuedToken
	s.do(t, "POST", "/admin/auditors", `{"name":"Court of audit","expiresAt":"`+expires.Format(time.RFC3339)+`"}`).into(t,
		201, &issued)
	s.do(t, "POST", "/admin/auditors", `{"name":"Data protection"}`).into(t, 201, &lasting)
	if parsed, ok := credential.Parse(credential.AuditorToken, issued.Token); !ok || parsed.ID != issued.ID {
		t.Fatalf("issued %+v", issued.ID)
	}

	may := []string{"/admin/audit/destinations/" + id.String(), "/admin/projections"}
	for _, path := range may {
		for _, method := range []string{"GET", "HEAD"} {
			if got := s.as(t, issued.Token, method, path, ""); got.status != 200 {
				t.Errorf("%s %s: %d %s", method, path, got.status, got.body)
			}
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
		if got := s.as(t, bad, "GET", may[0], ""); got.status != 401 {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
	}

	s.do(t, "DELETE", "/admin/auditors/"+lasting.ID, "").into(t, 200, nil)
	s.do(t, "DELETE", "/admin/auditors/"+lasting.ID, "").into(t, 200, nil)
	s.as(t, lasting.Token, "GET", may[0], "").refused(t, 401, "AUTHENTICATION_FAILED", "while it is valid")
	var list adminapi.List[query.Credential]
	answer := s.do(t, "GET", "/admin/auditors", "")
	answer.into(t, 200, &list)
	if len(list.Items) != 2 || list.Items[0].ID != issued.ID || !list.Items[0].ExpiresAt.Equal(expires) ||
		list.Items[0].RevokedAt != nil ||
		list.Items[1].Name != "Data protection" || list.Items[1].RevokedAt == nil || list.Items[1].ExpiresAt != nil {
		t.Errorf("auditors: %s", answer.body)
	}
	events := s.EventTypes(t, auditor.Aggregate.Stream(auditor.StreamID(lasting.ID)))
	if !slices.Equal(events, []string{"auditor.token-issued.v1", "auditor.token-revoked.v1"}) {
		t.Errorf("events: %v", events)
	}
	if strings.Contains(s.Logged.String(), issued.Token) || strings.Contains(answer.body, issued.Token[12:]) {
		t.Error("the token is shown again")
	}
	if !strings.Contains(s.Logged.String(), "auditor="+issued.ID) {
		t.Error("the log does not say who read")
	}
}

// An auditor's token ends by itself.
func TestAuditorsExpire(t *testing.T) {
	s := serve(t)
	expires := time.Now().Add(time.Hour)
	issued := into[adminapi.IssuedToken](t, 201, s.do(t, "POST", "/admin/auditors",
		`{"name":"A","expiresAt":"`+expires.Format(time.RFC3339Nano)+`"}`))
	for later, want := range map[time.Duration]int{0: 200, time.Hour / 2: 200, time.Hour: 401} {
		s.later.Store(int64(later))
		if got := s.as(t, issued.Token, "GET", "/admin/projections", ""); got.status != want {
			t.Errorf("after %s: %d, want %d", later, got.status, want)
		}
	}
}

// An auditor of one organization can't distinguish others' destinations from unknown ones.
func TestHostileAuditorOfOneOrganization(t *testing.T) {
	s := serveAlone(t)
	mine, _ := s.Organization(t, "Town hall")
	theirs, _ := s.Organization(t, "Library")
	seen, _, _ := s.life(t, command.Caller{Organization: mine, Actor: "key:ab12CD34"})
	hidden, _, _ := s.life(t, command.Caller{Organization: theirs, Actor: "key:ab12CD34"})
	bound := into[adminapi.IssuedToken](t, 201, s.do(t, "POST", "/admin/auditors",
		fmt.Sprintf(`{"name":"Town","organization":"%s"}`, mine)))
	s.do(t, "POST", "/admin/auditors", fmt.Sprintf(`{"name":"Town","organization":"%s"}`, uuid.New())).refused(t, 404,
		"NOT_FOUND", "register it first")
	s.do(t, "POST", "/admin/auditors", `{"name":"Town","organization":"7"}`).refused(t, 400, "INVALID_BODY",
		"organization must be a UUID")

	path := func(id uuid.UUID) string { return "/admin/audit/destinations/" + id.String() }
	for _, accept := range []string{"application/json", "application/x-ndjson"} {
		get := func(id uuid.UUID) response { return s.as(t, bound.Token, "GET", path(id), "", "Accept", accept) }
		if got := get(seen); got.status != 200 {
			t.Errorf("%s of its organization: %d %s", accept, got.status, got.body)
		}
		got, missing := get(hidden), get(uuid.New())
		if got.status != 404 || got.body != missing.body ||
			!slices.Equal(got.header["Content-Type"], missing.header["Content-Type"]) {
			t.Errorf("%s of others: %d %s\nof a missing one: %d %s", accept, got.status, got.body, missing.status, missing.body)
		}
	}
	list := into[adminapi.List[query.AuditorCredential]](t, 200, s.do(t, "GET", "/admin/auditors", ""))
	if len(list.Items) != 1 || list.Items[0].Organization == nil || *list.Items[0].Organization != mine {
		t.Errorf("auditors: %+v", list.Items)
	}
}
