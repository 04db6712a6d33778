package adminapi_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/openapi/contract"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	readmodels "carillon/projections"
	"carillon/projections/audit"
	"carillon/query"
)

// The document describes every route, and no route that there isn't.
func TestDocumentAndRouterAgree(t *testing.T) {
	documented.CheckRoutes(t, serve(t).api.Routes())
}

// The document's lists are those that the program declares.
func TestDocumentListsWhatIsDeclared(t *testing.T) {
	t.Parallel()
	documented.CheckLists(t, apitest.Lists(),
		contract.List(query.SourceStates()...), contract.List(audit.Kinds()...), contract.List(adminapi.RecordKinds()...),
		contract.List(organization.StatusRegistered, organization.StatusSuspended),
		contract.List(readmodels.RowChanged, readmodels.RowMissing, readmodels.RowAdded),
		contract.List("readModel", "process"))
}

func TestNoRouteFailsAtHostileValues(t *testing.T) {
	s := serveAlone(t)
	organization, _ := s.Organization(t, "Town hall")
	known := map[string]string{"organization": organization.String(), "id": organization.String(), "kind": "keys"}
	documented.Walk(t, known, func(method, path, body string) int {
		if strings.HasPrefix(path, "/debug/pprof/") { // measures for as many seconds as are asked for
			return 0
		}
		return s.do(t, method, path, body).status
	})
}

func TestDocumentNeedsNoToken(t *testing.T) {
	got := serve(t).send(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/admin/openapi.json", nil))
	assert.True(t, got.status == http.StatusOK && strings.Contains(got.body, `"openapi":"3.1.0"`),
		"answered %d %.200s", got.status, got.body)
}

func TestExamplesAreRight(t *testing.T) {
	t.Parallel()
	documented.CheckExamples(t, map[string][]string{
		"400": {"INVALID_BODY", "INVALID_PARAMS", "INVALID_QUERY", "VALIDATION_FAILED"},
		"401": {"AUTHENTICATION_FAILED"},
		"404": {"NOT_FOUND"},
		"409": {"ALREADY_EXISTS", "CONFLICT"},
		"413": {"INVALID_BODY"},
		"415": {"INVALID_BODY"},
		"429": {"RATE_LIMITED"},
		"500": {"INTERNAL_ERROR"},
		"503": {"SERVICE_UNAVAILABLE"},
	})
}

// The document of the API has the limits that are declared, and the docs have each with its default.
func TestLimitsAreDocumented(t *testing.T) {
	t.Parallel()
	docs := must.Get(os.ReadFile("../../../docs/operate/organizations.md"))(t)
	var declared []string
	for _, d := range organization.Definitions() {
		declared = append(declared, string(d.Limit))
		assert.True(t, strings.Contains(string(docs), "`"+string(d.Limit)+"`"),
			"docs/operate/organizations.md lacks the limit %s", d.Limit)
	}
	slices.Sort(declared)
	schema := documented.Document(t).Components.Schemas["LimitValues"].Value
	assert.Slices(t, slices.Sorted(maps.Keys(schema.Properties)), declared, "the document has the limits … are declared")
}

// When few connections are left, health and metrics are answered, and others are asked to come again.
func TestCrowded_leavesRoomForHealth(t *testing.T) {
	t.Parallel()
	api := adminapi.New(adminapi.Dependencies{
		Ready:   func(context.Context) map[string]error { return nil },
		Metrics: prometheus.NewRegistry(),
		Now:     time.Now,
		Log:     slog.New(slog.DiscardHandler),
		Crowded: func() bool { return true },
	})
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/admin/organizations": 503} {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		if again := w.Header().Get("Retry-After"); w.Code != want || (want == 503) != (again == "1") {
			t.Errorf("%s: answered %d, again after %q", path, w.Code, again)
		}
	}
}

// Profiles are for the admin token, and don't show the command line.
func TestProfilesAreForTheAdminToken(t *testing.T) {
	s := serve(t)
	auditor := s.issue(t, "auditors", `{"name":"Court of audit"}`)
	const gzip = "\x1f\x8b"
	for _, path := range []string{"heap", "allocs", "goroutine", "mutex", "block", "profile?seconds=1"} {
		got := s.do(t, http.MethodGet, "/debug/pprof/"+path, "")
		assert.True(t, got.status == http.StatusOK && strings.HasPrefix(got.body, gzip),
			"%s: %d, %d bytes that are no profile", path, got.status, len(got.body))
		for _, token := range []string{"", "Bearer wrong", "Bearer " + auditor.Token} {
			s.as(t, "", "GET", "/debug/pprof/"+path, "", "Authorization", token).refused(t, http.StatusUnauthorized,
				"AUTHENTICATION_FAILED", "admin token")
		}
	}
	if got := s.do(t, http.MethodGet, "/debug/pprof/goroutine?debug=1", ""); !strings.Contains(got.body,
		"TestProfilesAreForTheAdminToken") {
		t.Errorf("goroutines: %.200s", got.body)
	}
	for _, path := range []string{"/debug/pprof/cmdline", "/debug/pprof/", "/debug/pprof/nonsense"} {
		s.do(t, http.MethodGet, path, "").refused(t, http.StatusNotFound, "NOT_FOUND", "no such route")
	}
}

func TestConsoleLink(t *testing.T) {
	s := serve(t)
	org, _ := s.Organization(t, "Town hall")
	link := into[adminapi.ConsoleLink](t, 201, s.do(t, "POST", "/admin/organizations/"+org.String()+"/console-link",
		`{"as":"ann","scopes":["read"]}`))
	token, found := strings.CutPrefix(link.URL, "/console/enter?token=")
	assert.True(t, found && len(token) >= 43 && time.Until(link.ExpiresAt) <= 15*time.Minute, "%+v", link)
	assert.True(t, !strings.Contains(s.Logged.String(), token), "the log has the token")
	hash := sha256.Sum256([]byte(token))
	visitor := must.Get(adapters.ConsoleSessions{Pool: s.Pool}.Open(t.Context(), hash[:], time.Now()))(t)
	assert.Equal(t, visitor.Person, "ann (by operator)", "the link is for")
	s.do(t, "POST", "/admin/organizations/"+uuid.NewString()+"/console-link", `{"as":"ann"}`).refused(t, 404, "NOT_FOUND",
		"organization not found")
	s.do(t, "POST", "/admin/organizations/x/console-link", `{"as":"ann"}`).refused(t, 400, "INVALID_PARAMS", "id")
	s.do(t, "POST", "/admin/organizations/"+org.String()+"/console-link", `{"a":1}`).refused(t, 400, "INVALID_BODY", "")
	for body, want := range map[string]string{
		`{}`:                             "as is required",
		`{"as":" "}`:                     "as must not be empty",
		`{"as":"a\nb"}`:                  "as must be plain text in one line",
		`{"as":"ann","scopes":["root"]}`: "scopes must be some of read, write and secrets",
	} {
		s.do(t, "POST", "/admin/organizations/"+org.String()+"/console-link", body).refused(t, 400, "INVALID_BODY", want)
	}
}

func TestAnalystLogins(t *testing.T) {
	s := serve(t)
	name := "ana_" + strings.ToLower(rand.Text())
	login := into[adminapi.NewAnalystLogin](t, 201, s.do(t, "POST", "/admin/analytics/logins", `{"name":"`+name+`"}`))
	address := must.Get(url.Parse(login.Connection))(t)
	must.Equal(t, address.User.Username(), name, "connection of")
	if password, _ := address.User.Password(); len(password) < 20 || strings.Contains(s.Logged.String(), password) {
		t.Error("no password, or one that is in the log")
	}
	create := func(body string) response { return s.do(t, "POST", "/admin/analytics/logins", body) }
	create(`{"name":"`+name+`"}`).refused(t, 409, "CONFLICT", "has this name already")
	for _, bad := range []string{"Ana", "public", "none", "pg_ana"} {
		create(`{"name":"`+bad+`"}`).refused(t, 400, "INVALID_BODY", "name must be 1 to 63 lowercase")
	}
	create(`{}`).refused(t, 400, "INVALID_BODY", "name")
	list := into[adminapi.List[adminapi.AnalystLogin]](t, 200, s.do(t, "GET", "/admin/analytics/logins", ""))
	found := false
	for _, l := range list.Items {
		found = found || l.Name == name
	}
	assert.True(t, found, "%s is not in %v", name, list.Items)
	s.do(t, "DELETE", "/admin/analytics/logins/"+name, "").into(t, 200, nil)
	s.do(t, "DELETE", "/admin/analytics/logins/"+name, "").refused(t, 404, "NOT_FOUND", "no analyst")
}
