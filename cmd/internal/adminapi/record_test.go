package adminapi_test

import (
	"bufio"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/projections/audit"
	"carillon/projections/auditors"
)

// changes lists the types and actors of a page, oldest first.
func (s *server) changes(t *testing.T, path string) (list []string, page adminapi.RecordPage) {
	t.Helper()
	s.do(t, "GET", path, "").into(t, 200, &page)
	for i := len(page.Items) - 1; i >= 0; i-- {
		list = append(list, page.Items[i].Type+" by "+page.Items[i].Actor)
	}
	return list, page
}

func TestRecordOfDeletedOrganization(t *testing.T) {
	t.Parallel()
	s := serveAlone(t)
	var created adminapi.Created
	s.do(t, "POST", "/admin/organizations", `{"name":"Town hall"}`).into(t, 201, &created)
	org := created.ID.String()
	s.do(t, "PUT", "/admin/organizations/"+org+"/limits", `{"feeds":5}`).into(t, 200, &struct{}{})
	s.do(t, "POST", "/admin/organizations/"+org+"/console-link", `{"as":"bob"}`).into(t, 201, &struct{}{})
	var key adminapi.IssuedKey
	s.do(t, "POST", "/admin/organizations/"+org+"/keys", `{"name":"site"}`).into(t, 201, &key)
	by := command.Caller{
		Organization: created.ID,
		Actor:        "key:" + key.ID,
		RequestID:    uuid.New(),
		Reason:       "move",
	}
	id, _, _ := s.life(t, by)
	r := httptest.NewRequestWithContext(t.Context(), "DELETE", "/admin/organizations/"+org, nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set(wire.ReasonHeader, "contract ended")
	if got := s.send(r); got.status != 200 {
		t.Fatal(got.status, got.body)
	}

	life := []string{
		"destination.created.v2 by " + by.Actor, "destination.secret-minted.v1 by " + by.Actor,
		"destination.secret-rotated.v1 by " + by.Actor, "destination.disabled.v1 by " + by.Actor,
		"destination.deleted.v1 by " + by.Actor,
	}
	want := append([]string{
		"organization.registered.v1 by operator", "organization.limits-set.v1 by operator", "operator.acted.v1 by operator",
		"organization.key-issued.v2 by operator",
	}, life...)
	want = append(want, "organization.deleted.v1 by operator")
	all, page := s.changes(t, "/admin/audit/organizations/"+org)
	if diff := cmp.Diff(want, all); diff != "" || page.Next != nil || *page.Items[0].Reason != "contract ended" {
		t.Errorf("organization (-want +got):\n%s", diff)
	}
	ofKey, _ := s.changes(t, "/admin/audit/keys/"+key.ID)
	if diff := cmp.Diff(append([]string{"organization.key-issued.v2 by operator"}, life...), ofKey); diff != "" {
		t.Errorf("key (-want +got):\n%s", diff)
	}
	only, _ := s.changes(t, "/admin/audit/organizations/"+org+"?kind=organization&actor=operator&until=9999-01-01")
	if len(only) != 3 {
		t.Errorf("of kind organization: %q", only)
	}
	acts, _ := s.changes(t, "/admin/audit/operators/operator?limit=200")
	if len(acts) < 5 {
		t.Errorf("of the operator: %q", acts)
	}

	var paged []string
	for path := "/admin/audit?limit=3&organization=" + org; path != ""; {
		part, page := s.changes(t, path)
		paged, path = append(part, paged...), ""
		if page.Next != nil {
			path = "/admin/audit?limit=3&organization=" + org + "&cursor=" + *page.Next
		}
	}
	if diff := cmp.Diff(want, paged); diff != "" {
		t.Errorf("by pages (-want +got):\n%s", diff)
	}
	export := httptest.NewRequestWithContext(t.Context(), "GET", "/admin/audit/organizations/"+org, nil)
	export.Header.Set("Authorization", "Bearer "+token)
	export.Header.Set("Accept", "application/x-ndjson")
	lines := 0
	for scan := bufio.NewScanner(strings.NewReader(s.send(export).body)); scan.Scan(); lines++ {
		if !strings.Contains(scan.Text(), org) || strings.Contains(scan.Text(), "hunter2") {
			t.Error(scan.Text())
		}
	}
	if lines != len(want) {
		t.Errorf("the export has %d lines", lines)
	}
	s.do(t, "GET", "/admin/audit/destinations/"+id.String(), "").into(t, 200, &adminapi.Audit{})
}

func TestRecordRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t)
	org, _ := s.Organization(t, "Town hall")
	library, _ := s.Organization(t, "Library")
	for path, want := range map[string]string{
		"?kind=wishes":      "kind must be one of organization, key",
		"?since=soon":       "since must be an ISO 8601 date or time",
		"?cursor=1-2":       "cursor must be the next of the page before",
		"?limit=201":        "limit must be",
		"/feeds/x?kind=key": "kind has no effect beside a kind in the path",
	} {
		s.do(t, "GET", "/admin/audit"+path, "").refused(t, 400, "INVALID_QUERY", want)
	}
	s.do(t, "GET", "/admin/audit/wishes/x", "").refused(t, 404, "NOT_FOUND", "there is a record of organizations")
	s.do(t, "GET", "/admin/audit/organizations/x", "").refused(t, 400, "INVALID_PARAMS", "must be a UUID")

	// An auditor of one organization sees that one alone.
	issued, err := s.Commands.IssueAuditorToken(t.Context(), command.Caller{Actor: "operator"},
		command.IssueAuditorToken{Name: "Ann", Organization: org})
	if err != nil {
		t.Fatal(err)
	}
	s.Await(t, issued.Position, auditors.ReadModel.Name, audit.ReadModel.Name)
	for path, entries := range map[string]int{
		"/admin/audit?kind=organization": 1, "/admin/audit/organizations/" + org.String() + "?kind=organization": 1,
		"/admin/audit/organizations/" + library.String(): 0, "/admin/audit/operators/operator?limit=200": -1,
	} {
		var page adminapi.RecordPage
		s.as(t, issued.Value.Reveal(), "GET", path, "").into(t, 200, &page)
		for _, e := range page.Items {
			if e.Organization == nil || *e.Organization != org {
				t.Errorf("%s shows %+v", path, e)
			}
		}
		if entries >= 0 && len(page.Items) != entries {
			t.Errorf("%s has %d entries", path, len(page.Items))
		}
	}
}
