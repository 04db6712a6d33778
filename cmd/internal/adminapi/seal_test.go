package adminapi_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/treehead"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/eventstore/seal"
)

func TestSealAndExport(t *testing.T) {
	t.Parallel()
	s := serveAlone(t)
	org, _ := s.Organization(t, "Town hall")
	id, _, _ := s.life(t, command.Caller{Organization: org, Actor: "key:ab12CD34"})
	path := "/admin/seal/exports/" + id.String()
	s.do(t, "GET", path, "").refused(t, 409, "CONFLICT", "no tree head yet")
	var before, sealed, again adminapi.SealState
	s.do(t, "GET", "/admin/seal", "").into(t, 200, &before)
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/admin/seal", nil)
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set(wire.ReasonHeader, "before the audit")
	s.send(r).into(t, 200, &sealed)
	for head, err := range s.Store.Read(t.Context(), treehead.Aggregate.Stream(treehead.StreamID(0)), 0) {
		if err != nil || !strings.Contains(string(head.Metadata), `"reason":"before the audit"`) {
			t.Errorf("the head has the metadata %s, %v", head.Metadata, err)
		}
	}
	s.do(t, "POST", "/admin/seal", "").into(t, 200, &again)
	if before.Head != nil || sealed.Head == nil || sealed.New != 1 || again.New != 0 ||
		again.Head.Size != sealed.Head.Size {
		t.Errorf("before %+v, sealed %+v, again %+v", before, sealed, again)
	}
	got := s.do(t, "GET", path+fmt.Sprintf("?since=%d", sealed.Head.Size-1), "")
	verified, err := seal.VerifyExport(strings.NewReader(got.body), nil, nil)
	if got.status != 200 || err != nil || len(verified.Faults) > 0 || verified.Events == 0 {
		t.Errorf("%d %+v, %v", got.status, verified, err)
	}
	s.do(t, "GET", path+"?since=1000000", "").refused(t, 400, "INVALID_QUERY", "size of an earlier tree head")
	s.do(t, "GET", "/admin/seal/exports/"+uuid.NewString(), "").refused(t, 404, "NOT_FOUND", "no sealed event")
	if err := s.Store.Tombstone(t.Context(), destination.Aggregate.Stream(id)); err != nil {
		t.Fatal(err)
	}
	s.do(t, "GET", path, "").refused(t, 404, "NOT_FOUND", "sealed events of destination-"+id.String()+" are gone")
}

// An auditor of one organization can't distinguish exports of others' things from those of missing ones.
func TestHostileExportOfOthers(t *testing.T) {
	t.Parallel()
	s := serveAlone(t)
	mine, _ := s.Organization(t, "Town hall")
	theirs, _ := s.Organization(t, "Library")
	seen, _, _ := s.life(t, command.Caller{Organization: mine, Actor: "key:ab12CD34"})
	hidden, _, _ := s.life(t, command.Caller{Organization: theirs, Actor: "key:ab12CD34"})
	var bound adminapi.IssuedToken
	s.do(t, "POST", "/admin/auditors", fmt.Sprintf(`{"name":"Town","organization":"%s"}`, mine)).into(t, 201, &bound)
	s.do(t, "POST", "/admin/seal", "").into(t, 200, nil)
	get := func(id uuid.UUID) response {
		return s.as(t, bound.Token, "GET", "/admin/seal/exports/"+id.String(), "")
	}
	if got := get(seen); got.status != 200 {
		t.Errorf("of its organization: %d %s", got.status, got.body)
	}
	if got, missing := get(hidden), get(uuid.New()); got.status != 404 || got.body != missing.body {
		t.Errorf("of others: %d %s\nof a missing one: %d %s", got.status, got.body, missing.status, missing.body)
	}
	if err := s.Store.Tombstone(t.Context(), destination.Aggregate.Stream(hidden)); err != nil {
		t.Fatal(err)
	}
	if got, missing := get(hidden), get(uuid.New()); got.status != 404 || got.body != missing.body {
		t.Errorf("of others, deleted: %d %s\nof a missing one: %d %s", got.status, got.body, missing.status, missing.body)
	}
}
