package adminapi_test

import (
	"bufio"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/disclosure"
	"carillon/aggregates/subscription"
	"carillon/cmd/internal/adminapi"
	"carillon/command"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

// life makes a destination, rotates its secret, disables and deletes it. It returns its id and the ids of the secrets.
func (s *server) life(t *testing.T, by command.Caller) (id, first, second uuid.UUID) {
	t.Helper()
	created := must.Get(s.Commands.CreateDestination(t.Context(), by, command.CreateDestination{
		DestinationSettings: command.DestinationSettings{
			Settings: destination.Settings{ExternalID: "crm", Name: "CRM", URL: "https://127.0.0.1:9/hook"},
			Headers:  map[string]string{"X-Token": "hunter2"},
		},
	}))(t)
	must.Get(s.Commands.RotateSecret(t.Context(), by, command.RotateSecret{Destination: created.ID}))(t)
	off := false
	must.Get(s.Commands.ReviseDestination(t.Context(), by, command.ReviseDestination{
		ID:      created.ID,
		Enabled: &off,
	}))(t)
	loaded, err := destination.Aggregate.Load(t.Context(), s.Store, created.ID)
	must.True(t, err == nil && len(loaded.State.Secrets) == 2, "%+v, %v", loaded.State, err)
	must.Get(s.Commands.DeleteDestination(t.Context(), by, command.DeleteDestination{ID: created.ID}))(t)
	return created.ID, loaded.State.Secrets[0].ID, loaded.State.Secrets[1].ID
}

func TestAuditOfADeletedDestination(t *testing.T) {
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
		assert.True(t, e.Revision == int64(i) && e.Actor == by.Actor && *e.CorrelationID == by.RequestID &&
			*e.CausationID == by.RequestID && *e.Organization == org && e.Reason == nil && e.Destination == id &&
			!e.RecordedAt.Before(e.At.Add(-time.Second)), "entry %d: %+v", i, e)
		assert.True(t, regexp.MustCompile(`^\d+/\d+$`).MatchString(e.Position), "entry %d: position %q", i, e.Position)
	}
	want := []string{
		"destination.created.v2", "destination.secret-minted.v1", "destination.secret-rotated.v1", "destination.disabled.v1",
		"destination.deleted.v1",
	}
	must.True(t, slices.Equal(types, want), "entries %v, want %v", types, want)
	assert.True(t, got.State.Status == "deleted" && got.State.Revision == 4 && got.Destination == id &&
		got.Organization == org, "now: %+v", got)
	for _, hidden := range []string{"hunter2", "whsec_", "sealed", "digest"} {
		assert.True(t, !strings.Contains(answer.body, hidden), "the answer shows %s", hidden)
	}

	var then adminapi.Audit
	moment := got.Entries[3].At
	s.do(t, "GET", path+"?at="+moment.Format(time.RFC3339Nano), "").into(t, 200, &then)
	end := got.Entries[2].Detail.ExpiresAt
	wantSecrets := []query.AuditSecret{
		{
			ID:        first,
			CreatedAt: got.Entries[1].At,
			ExpiresAt: &end,
			Active:    true,
		}, {ID: second, CreatedAt: got.Entries[2].At, Active: true},
	}
	if diff := cmp.Diff(wantSecrets, then.State.Secrets); diff != "" || !then.At.Equal(moment) || len(then.Entries) != 5 ||
		then.State.Status != "disabled" || then.State.Revision != 3 || len(then.State.Headers["X-Token"]) != 32 {
		t.Errorf("state at %s: %+v (-want +got):\n%s", then.At, then.State, diff)
	}
	brief := into[adminapi.Audit](t, 200, s.do(t, "GET",
		path+"?changes=none&at="+url.QueryEscape(then.At.Format(time.RFC3339Nano)), ""))
	if diff := cmp.Diff(then.State, brief.State); diff != "" || len(brief.Entries)+len(brief.Disclosures) != 0 {
		t.Errorf("state alone (-want +got):\n%s", diff)
	}
	before := into[adminapi.Audit](t, 200, s.do(t, "GET", path+"?at=2020-01-01T00:00:00%2B01:00", ""))
	assert.True(t, before.State == nil && len(before.Entries) == 5, "before it was: %+v", before)
	s.do(t, "GET", path+"?at=yesterday", "").refused(t, 400, "INVALID_QUERY", "at must be an ISO 8601 time")
	s.do(t, "GET", "/admin/audit/destinations/crm", "").refused(t, 400, "INVALID_PARAMS", "id must be a UUID")
	s.do(t, "GET", "/admin/audit/destinations/"+uuid.NewString(), "").refused(t, 404, "NOT_FOUND",
		"no destination has or had this id")
}

// Without waiting, the answer has the subscriptions of the time.
func TestAuditSubscriptions(t *testing.T) {
	s := serve(t)
	org, _ := s.Organization(t, "Town hall")
	by := command.Caller{Organization: org, Actor: "key:ab12CD34"}
	created := must.Get(s.Commands.CreateDestination(t.Context(), by,
		command.CreateDestination{DestinationSettings: command.DestinationSettings{
			Settings: destination.Settings{Name: "CRM", URL: "https://127.0.0.1:9/hook"},
		}}))(t)
	made := must.Get(s.Commands.CreateSubscription(t.Context(), by, command.CreateSubscription{
		Destination: created.ID,
		Settings:    subscription.Settings{EventTypes: []string{"concert.*"}, ScopeKind: subscription.ScopeAll},
	}))(t)
	path := "/admin/audit/destinations/" + created.ID.String()
	at := made.Value.CreatedAt
	shows := func(query string, want int) {
		t.Helper()
		got := into[adminapi.Audit](t, 200, s.do(t, "GET", path+query, "")).State.Subscriptions
		if len(got) != want || want > 0 && (got[0].ID != made.ID || !got[0].Active || !got[0].CreatedAt.Equal(at)) {
			t.Errorf("%s: %+v, want %d", query, got, want)
		}
	}
	shows("", 1)
	must.Get(s.Commands.DeleteSubscription(t.Context(), by, command.DeleteSubscription{
		Destination: created.ID,
		ID:          made.ID,
	}))(t)
	shows("", 0)
	shows("?changes=none&at="+url.QueryEscape(at.Format(time.RFC3339Nano)), 1)
}

// export asks for NDJSON with any Accept header.
func (s *server) export(t *testing.T, path, accept string) response {
	t.Helper()
	return s.as(t, token, "GET", path, "", "Accept", accept)
}

func TestAuditExport(t *testing.T) {
	s := serveAlone(t)
	org, _ := s.Organization(t, "Town hall")
	by := command.Caller{Organization: org, Actor: "key:ab12CD34"}
	id, _, _ := s.life(t, by)
	must.OK(t, s.Commands.Disclose(t.Context(), by, command.Disclose{
		Destination: id,
		What:        []disclosure.Part{disclosure.Secrets},
	}))
	path := "/admin/audit/destinations/" + id.String()
	whole := into[adminapi.Audit](t, 200, s.do(t, "GET", path, ""))
	for _, accept := range []string{"application/x-ndjson", "text/plain, Application/X-NDJSON;q=0.5"} {
		answer := s.export(t, path, accept)
		must.True(t, answer.status == 200 && answer.header.Get("Content-Type") == "application/x-ndjson" &&
			answer.header.Get("Vary") == "Accept", "%d %v", answer.status, answer.header)
		var exported []query.AuditEntry
		for lines := bufio.NewScanner(strings.NewReader(answer.body)); lines.Scan(); {
			var e query.AuditEntry
			if err := json.Unmarshal(lines.Bytes(), &e, json.RejectUnknownMembers(true)); err != nil {
				t.Fatalf("%s: %v", lines.Text(), err)
			}
			exported = append(exported, e)
		}
		assert.True(t, len(whole.Disclosures) == 1 && whole.Disclosures[0].Actor == by.Actor &&
			slices.Equal(whole.Disclosures[0].Detail.Shown, []string{"secrets"}), "shown in full: %+v", whole.Disclosures)
		assert.Same(t, exported, append(whole.Entries, whole.Disclosures...))
	}
	for _, accept := range []string{"", "*/*", "application/json", "application/x-ndjson;q=0"} {
		s.export(t, path, accept).into(t, 200, &whole)
	}
	s.export(t, path+"?at=2026-11-21T12:00:00Z", "application/x-ndjson").refused(t, 400, "INVALID_QUERY",
		"at has no effect on an export")
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
	s := serve(t)
	org, _ := s.Organization(t, "Town hall")
	id, _, _ := s.life(t, command.Caller{Organization: org, Actor: "key:ab12CD34"})
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/admin/audit/destinations/"+id.String(), nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Accept", "application/x-ndjson")
	r.RemoteAddr = "127.0.0.1:40000"
	defer func() {
		err, ok := recover().(error)
		assert.True(t, ok && errors.Is(err, http.ErrAbortHandler), "ended with %v, want an aborted connection", err)
	}()
	s.api.ServeHTTP(&broken{httptest.NewRecorder(), 1000}, r)
}

func TestAudit_withoutEventStore(t *testing.T) {
	s := serveAlone(t)
	org, _ := s.Organization(t, "Town hall")
	id, _, _ := s.life(t, command.Caller{Organization: org, Actor: "key:ab12CD34"})
	got := into[adminapi.Audit](t, 200, s.do(t, "GET", "/admin/audit/destinations/"+id.String(), ""))
	s.StopStore()
	s.do(t, "GET", "/admin/audit/destinations/"+id.String(), "").into(t, 200, &got)
	assert.Equal(t, len(got.Entries), 5, "entries")
}
