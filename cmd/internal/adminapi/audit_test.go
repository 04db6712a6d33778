package adminapi_test

import (
	"bufio"
	"context"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/auditor"
	"carillon/aggregates/destination"
	"carillon/aggregates/disclosure"
	"carillon/aggregates/subscription"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/command/credential"
	"carillon/eventstore"
	"carillon/query"
)

// life makes a destination, rotates its secret, disables and deletes it. It returns its id and the ids of the secrets.
func (s *server) life(t *testing.T, by command.Caller) (id, first, second uuid.UUID) {
	t.Helper()
	created, err := s.Commands.CreateDestination(t.Context(), by, command.CreateDestination{
		DestinationSettings: command.DestinationSettings{
			Settings: destination.Settings{ExternalID: "crm", Name: "CRM", URL: "https://127.0.0.1:9/hook"},
			Headers:  map[string]string{"X-Token": "hunter2"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commands.RotateSecret(t.Context(), by, command.RotateSecret{Destination: created.ID}); err != nil {
		t.Fatal(err)
	}
	off := false
	if _, err := s.Commands.ReviseDestination(t.Context(), by, command.ReviseDestination{
		ID:      created.ID,
		Enabled: &off,
	}); err != nil {
		t.Fatal(err)
	}
	loaded, err := destination.Aggregate.Load(t.Context(), s.Store, created.ID)
	if err != nil || len(loaded.State.Secrets) != 2 {
		t.Fatalf("%+v, %v", loaded.State, err)
	}
	if _, err := s.Commands.DeleteDestination(t.Context(), by, command.DeleteDestination{ID: created.ID}); err != nil {
		t.Fatal(err)
	}
	return created.ID, loaded.State.Secrets[0].ID, loaded.State.Secrets[1].ID
}

func TestAuditOfADeletedDestination(t *testing.T) {
	t.Parallel()
	s := serve(t)
	org, _ := s.Organization(t, "Town hall")
	by := command.Caller{Organization: org, Actor: "key:ab12CD34", RequestID: uuid.New()}
	id, first, second := s.life(t, by)
	path := "/admin/audit/destinations/" + id.String()

	var got adminapi.Audit
	answer := s.do(t, "GET", path, "")
	answer.into(t, 200, &got) // without waiting: the answer shows what has happened before the question
	var types []string
	for i, e := range got.Entries {
		types = append(types, e.Type)
		if e.Revision != int64(i) || e.Actor != by.Actor || *e.CorrelationID != by.RequestID ||
			*e.CausationID != by.RequestID ||
			*e.Organization != org || e.Reason != nil || e.Destination != id || e.RecordedAt.Before(e.At.Add(-time.Second)) {
			t.Errorf("entry %d: %+v", i, e)
		}
		if !regexp.MustCompile(`^\d+/\d+$`).MatchString(e.Position) {
			t.Errorf("entry %d: position %q", i, e.Position)
		}
	}
	want := []string{
		"destination.created.v2", "destination.secret-minted.v1", "destination.secret-rotated.v1", "destination.disabled.v1",
		"destination.deleted.v1",
	}
	if !slices.Equal(types, want) {
		t.Fatalf("entries %v, want %v", types, want)
	}
	if got.State.Status != "deleted" || got.State.Revision != 4 || got.Destination != id || got.Organization != org {
		t.Errorf("now: %+v", got)
	}
	for _, hidden := range []string{"hunter2", "whsec_", "sealed", "digest"} {
		if strings.Contains(answer.body, hidden) {
			t.Errorf("the answer shows %s", hidden)
		}
	}

	var then adminapi.Audit
	moment := got.Entries[3].At
	s.do(t, "GET", path+"?at="+moment.Format(time.RFC3339Nano), "").into(t, 200, &then)
	crm, end := "crm", got.Entries[2].Detail.ExpiresAt
	wantState := &query.AuditState{
		Status:     "disabled",
		ExternalID: &crm,
		Name:       "CRM",
		URL:        "https://127.0.0.1:9/hook",
		HasHeaders: true,
		Headers:    got.Entries[0].Detail.Headers,
		Revision:   3,

		Subscriptions: []query.AuditSubscription{},
		Secrets: []query.AuditSecret{
			{
				ID:        first,
				CreatedAt: got.Entries[1].At,
				ExpiresAt: &end,
				Active:    true,
			}, {ID: second, CreatedAt: got.Entries[2].At, Active: true},
		},
	}
	if len(wantState.Headers["X-Token"]) != 32 {
		t.Errorf("digests of headers: %v", wantState.Headers)
	}
	if diff := cmp.Diff(wantState, then.State); diff != "" || !then.At.Equal(moment) || len(then.Entries) != 5 {
		t.Errorf("state at %s (-want +got):\n%s", then.At, diff)
	}
	var brief adminapi.Audit
	s.do(t, "GET", path+"?changes=none&at="+url.QueryEscape(then.At.Format(time.RFC3339Nano)), "").into(t, 200, &brief)
	if diff := cmp.Diff(wantState, brief.State); diff != "" || len(brief.Entries)+len(brief.Disclosures) != 0 {
		t.Errorf("state alone (-want +got):\n%s", diff)
	}
	var before adminapi.Audit
	s.do(t, "GET", path+"?at=2020-01-01T00:00:00%2B01:00", "").into(t, 200, &before)
	if before.State != nil || len(before.Entries) != 5 {
		t.Errorf("before it was: %+v", before)
	}
	s.do(t, "GET", path+"?at=yesterday", "").refused(t, 400, "INVALID_QUERY", "at must be an ISO 8601 time")
	s.do(t, "GET", path+"?limit=7", "").refused(t, 400, "INVALID_QUERY", "limit is not a known query parameter")
	s.do(t, "GET", "/admin/audit/destinations/crm", "").refused(t, 400, "INVALID_PARAMS", "id must be a UUID")
	s.do(t, "GET", "/admin/audit/destinations/"+uuid.NewString(), "").refused(t, 404, "NOT_FOUND",
		"no destination has or had this id")
	s.do(t, "DELETE", path, "").refused(t, 404, "NOT_FOUND", "GET")
}

// Without waiting, the answer has the subscriptions of the time.
func TestAuditSubscriptions(t *testing.T) {
	t.Parallel()
	s := serve(t)
	org, _ := s.Organization(t, "Town hall")
	by := command.Caller{Organization: org, Actor: "key:ab12CD34"}
	created, err := s.Commands.CreateDestination(t.Context(), by,
		command.CreateDestination{DestinationSettings: command.DestinationSettings{
			Settings: destination.Settings{Name: "CRM", URL: "https://127.0.0.1:9/hook"},
		}})
	if err != nil {
		t.Fatal(err)
	}
	made, err := s.Commands.CreateSubscription(t.Context(), by, command.CreateSubscription{
		Destination: created.ID,
		Settings:    subscription.Settings{EventTypes: []string{"concert.*"}, ScopeKind: subscription.ScopeAll},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := "/admin/audit/destinations/" + created.ID.String()
	at := made.Value.CreatedAt
	want := []query.AuditSubscription{{
		ID:         made.ID,
		EventTypes: []string{"concert.*"},
		ScopeKind:  "all",
		Feeds:      []query.Pin{},
		Active:     true,
		CreatedAt:  at,
		UpdatedAt:  at,
	}}
	shows := func(query string, want []query.AuditSubscription) {
		t.Helper()
		var got adminapi.Audit
		s.do(t, "GET", path+query, "").into(t, 200, &got)
		if diff := cmp.Diff(want, got.State.Subscriptions); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
	shows("", want)
	if _, err := s.Commands.DeleteSubscription(t.Context(), by, command.DeleteSubscription{
		Destination: created.ID,
		ID:          made.ID,
	}); err != nil {
		t.Fatal(err)
	}
	shows("", []query.AuditSubscription{})
	shows("?changes=none&at="+url.QueryEscape(at.Format(time.RFC3339Nano)), want)
}

// The newest event of the log need not be of the record: nothing waits for it.
func TestRecordAwaitsOnlyItsEvents(t *testing.T) {
	t.Parallel()
	s := serveAlone(t)
	org, _ := s.Organization(t, "Town hall")
	if _, err := s.Store.Append(t.Context(), "elsewhere-"+uuid.NewString(), eventstore.NoStream, []eventstore.Proposed{{
		ID:       uuid.New(),
		Type:     "elsewhere.happened.v1",
		Data:     []byte("{}"),
		Metadata: []byte(`{"actor":"operator","schemaVersion":1}`),
	}}); err != nil {
		t.Fatal(err)
	}
	var page adminapi.RecordPage
	s.do(t, "GET", "/admin/audit/organizations/"+org.String(), "").into(t, 200, &page)
	if len(page.Items) == 0 {
		t.Error("the record is empty")
	}
}

// hanging is a store whose subscriptions show nothing.
type hanging struct {
	eventstore.Store

	asked, released chan struct{}
}

func (h hanging) Subscribe(
	context.Context, eventstore.Position, eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) {
		h.asked <- struct{}{}
		<-h.released
		yield(eventstore.Message{}, context.Canceled)
	}
}

// A request whose store hangs holds up no other: both ask it.
func TestRecordBesideHangingRequest(t *testing.T) {
	t.Parallel()
	s := serveAlone(t)
	org, _ := s.Organization(t, "Town hall")
	store := hanging{s.Commands.Store, make(chan struct{}), make(chan struct{})}
	s.Commands.Store = store
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			s.do(t, "GET", "/admin/audit/organizations/"+org.String(), "")
		})
	}
	for range 2 {
		select {
		case <-store.asked:
		case <-time.After(apitest.Patience):
			t.Error("a request waits for the other")
		}
	}
	close(store.released)
	all.Wait()
}

// export asks for NDJSON with any Accept header.
func (s *server) export(t *testing.T, path, accept string) response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "GET", path, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", accept)
	return s.send(r)
}

func TestAuditExport(t *testing.T) {
	t.Parallel()
	s := serveAlone(t)
	org, _ := s.Organization(t, "Town hall")
	by := command.Caller{Organization: org, Actor: "key:ab12CD34"}
	id, _, _ := s.life(t, by)
	if err := s.Commands.Disclose(t.Context(), by, command.Disclose{
		Destination: id,
		What:        []disclosure.Part{disclosure.Secrets},
	}); err != nil {
		t.Fatal(err)
	}
	path := "/admin/audit/destinations/" + id.String()
	var whole adminapi.Audit
	s.do(t, "GET", path, "").into(t, 200, &whole)
	for _, accept := range []string{"application/x-ndjson", "text/plain, Application/X-NDJSON;q=0.5"} {
		answer := s.export(t, path, accept)
		if answer.status != 200 || answer.header.Get("Content-Type") != "application/x-ndjson" ||
			answer.header.Get("Vary") != "Accept" {
			t.Fatalf("%d %v", answer.status, answer.header)
		}
		var exported []query.AuditEntry
		for lines := bufio.NewScanner(strings.NewReader(answer.body)); lines.Scan(); {
			var e query.AuditEntry
			if err := json.Unmarshal(lines.Bytes(), &e, json.RejectUnknownMembers(true)); err != nil {
				t.Fatalf("%s: %v", lines.Text(), err)
			}
			exported = append(exported, e)
		}
		if len(whole.Disclosures) != 1 || whole.Disclosures[0].Actor != by.Actor ||
			!slices.Equal(whole.Disclosures[0].Detail.Shown, []string{"secrets"}) {
			t.Errorf("shown in full: %+v", whole.Disclosures)
		}
		if diff := cmp.Diff(append(whole.Entries, whole.Disclosures...), exported); diff != "" {
			t.Errorf("export (-shown +exported):\n%s", diff)
		}
	}
	for _, accept := range []string{"", "*/*", "application/json", "application/x-ndjson;q=0"} {
		s.export(t, path, accept).into(t, 200, &whole)
	}
	s.export(t, path+"?at=2026-11-21T12:00:00Z", "application/x-ndjson").refused(t, 400, "INVALID_QUERY",
		"at has no effect on an export")
	s.export(t, "/admin/audit/destinations/7", "application/x-ndjson").refused(t, 400, "INVALID_PARAMS",
		"id must be a UUID")
	s.export(t, "/admin/audit/destinations/"+uuid.NewString(), "application/x-ndjson").refused(t, 404, "NOT_FOUND",
		"no destination has or had this id")
}

// broken is a connection that ends after some bytes.
type broken struct {
	http.ResponseWriter
	left int
}

func (b *broken) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errors.New("connection reset")
	}
	return b.ResponseWriter.Write(p)
}

func TestAnExportThatBreaksOffIsNoWholeOne(t *testing.T) {
	t.Parallel()
	s := serve(t)
	org, _ := s.Organization(t, "Town hall")
	id, _, _ := s.life(t, command.Caller{Organization: org, Actor: "key:ab12CD34"})
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/admin/audit/destinations/"+id.String(), nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "application/x-ndjson")
	r.RemoteAddr = "127.0.0.1:40000"
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			t.Errorf("ended with %v, want an aborted connection", err)
		}
	}()
	s.api.ServeHTTP(&broken{httptest.NewRecorder(), 1000}, r)
}

func TestAudit_withoutEventStore(t *testing.T) {
	t.Parallel()
	s := serveAlone(t)
	org, _ := s.Organization(t, "Town hall")
	id, _, _ := s.life(t, command.Caller{Organization: org, Actor: "key:ab12CD34"})
	var got adminapi.Audit
	s.do(t, "GET", "/admin/audit/destinations/"+id.String(), "").into(t, 200, &got)
	s.StopStore()
	s.do(t, "GET", "/admin/audit/destinations/"+id.String(), "").into(t, 200, &got)
	if len(got.Entries) != 5 {
		t.Errorf("%d entries", len(got.Entries))
	}
}

// as sends a request with a token, and with headers as names and values in turn.
func (s *server) as(t *testing.T, bearer, method, path, body string, header ...string) response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+bearer)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return s.send(r)
}

func TestAuditors(t *testing.T) {
	t.Parallel()
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
		{"GET", "/admin/organizations"}, {"POST", "/admin/organizations"}, {"GET", "/admin/sources"},
		{"GET", "/admin/auditors"},
		{"POST", "/admin/auditors"}, {"DELETE", "/admin/auditors/" + issued.ID}, {"POST", "/admin/projections/feeds/rebuild"},
		{"POST", "/admin/events"}, {"POST", may[0]}, {"DELETE", may[0]}, {"POST", "/admin/projections"},
		{"GET", "/nowhere"}, {"GET", "/admin/%61udit/destinations/" + id.String()}, {"GET", "/admin/projections/"},
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

func TestAuditorsAreNotIssuedByMistake(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for body, message := range map[string]string{
		`{}`: "name is required", `{"name":""}`: "name", `{"name":"A","expiresAt":"tomorrow"}`: "expiresAt must be",
		`{"name":"A","expiresAt":"2020-01-01T00:00:00Z"}`: "future",
		`{"name":"A","admin":true}`:                       "admin is not a known field",
	} {
		s.do(t, "POST", "/admin/auditors", body).refused(t, 400, "INVALID_BODY", message)
	}
	s.do(t, "DELETE", "/admin/auditors/nobody00", "").refused(t, 404, "NOT_FOUND", "auditor not found")
}

// An auditor's token ends by itself.
func TestAuditorsExpire(t *testing.T) {
	t.Parallel()
	s := serve(t)
	expires := time.Now().Add(time.Hour)
	var issued adminapi.IssuedToken
	s.do(t, "POST", "/admin/auditors", `{"name":"A","expiresAt":"`+expires.Format(time.RFC3339Nano)+`"}`).into(t,
		201, &issued)
	for later, want := range map[time.Duration]int{0: 200, time.Hour / 2: 200, time.Hour: 401} {
		s.later.Store(int64(later))
		if got := s.as(t, issued.Token, "GET", "/admin/projections", ""); got.status != want {
			t.Errorf("after %s: %d, want %d", later, got.status, want)
		}
	}
}
