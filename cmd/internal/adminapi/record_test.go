package adminapi_test

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/treehead"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/seal"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
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
	s := serveAlone(t)
	created, path := s.organization(t)
	org := created.String()
	s.do(t, "PUT", path+"/limits", `{"feeds":5}`).into(t, 200, &struct{}{})
	s.do(t, "POST", path+"/console-link", `{"as":"bob"}`).into(t, 201, &struct{}{})
	key := into[adminapi.IssuedKey](t, 201, s.do(t, "POST", path+"/keys", `{"name":"site"}`))
	by := command.Caller{
		Organization: created,
		Actor:        "key:" + key.ID,
		RequestID:    uuid.New(),
		Reason:       "move",
	}
	id, secret, _ := s.life(t, by)
	s.as(t, token, "DELETE", path, "", wire.ReasonHeader, "contract ended").into(t, 200, nil)

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
	assert.Same(t, ofKey, append([]string{"organization.key-issued.v2 by operator"}, life...))
	ofSecret, _ := s.changes(t, "/admin/audit/secrets/"+secret.String()[:13])
	whole, _ := s.changes(t, "/admin/audit/secrets/"+secret.String())
	assert.True(t, len(whole) != 0 && slices.Equal(whole, ofSecret),
		"secret: %q, by the beginning of its id %q", whole, ofSecret)
	only, _ := s.changes(t, "/admin/audit/organizations/"+org+"?kind=organization&actor=operator&until=9999-01-01")
	assert.Equal(t, len(only), 3, "of kind organization: %q", only)
	var paged []string
	for path := "/admin/audit?limit=3&organization=" + org; path != ""; {
		part, page := s.changes(t, path)
		paged, path = append(part, paged...), ""
		if page.Next != nil {
			path = "/admin/audit?limit=3&organization=" + org + "&cursor=" + *page.Next
		}
	}
	assert.Same(t, paged, want)
	exported, lines := s.export(t, "/admin/audit/organizations/"+org, "application/x-ndjson"), 0
	for scan := bufio.NewScanner(strings.NewReader(exported.body)); scan.Scan(); lines++ {
		if !strings.Contains(scan.Text(), org) || strings.Contains(scan.Text(), "hunter2") {
			t.Error(scan.Text())
		}
	}
	assert.Equal(t, lines, len(want), "the export … lines")
	s.do(t, "GET", "/admin/audit/destinations/"+id.String(), "").into(t, 200, &adminapi.Audit{})
}

func TestRecordRefusals(t *testing.T) {
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
	for id := range 2 {
		s.do(t, "POST", "/admin/feeds", fmt.Sprintf(`{"id":"0d000000-0000-4000-8000-00000000000%d","feedType":"news",`+
			`"organizationId":"%s","name":"x"}`, id, org)).into(t, 201, &adminapi.Created{})
	}
	s.do(t, "GET", "/admin/audit/feeds/0d", "").refused(t, 400, "INVALID_PARAMS", "thing is ambiguous: 0d000000-")
	s.do(t, "GET", "/admin/audit/wishes/x", "").refused(t, 404, "NOT_FOUND", "there is a record of organizations")
	s.do(t, "GET", "/admin/audit/organizations/x", "").refused(t, 400, "INVALID_PARAMS", "must be a UUID")

	// An auditor of one organization sees that one alone.
	issued := s.issue(t, "auditors", `{"name":"Ann","organization":"`+org.String()+`"}`)
	for path, entries := range map[string]int{
		"/admin/audit?kind=organization": 1, "/admin/audit/organizations/" + org.String() + "?kind=organization": 1,
		"/admin/audit/organizations/" + library.String(): 0, "/admin/audit/operators/operator?limit=200": -1,
	} {
		page := into[adminapi.RecordPage](t, 200, s.as(t, issued.Token, "GET", path, ""))
		for _, e := range page.Items {
			assert.True(t, e.Organization != nil && *e.Organization == org, "%s shows %+v", path, e)
		}
		if entries >= 0 && len(page.Items) != entries {
			t.Errorf("%s has %d entries", path, len(page.Items))
		}
	}
}

func TestSealAndExport(t *testing.T) {
	s := serveAlone(t)
	org, _ := s.Organization(t, "Town hall")
	id, _, _ := s.life(t, command.Caller{Organization: org, Actor: "key:ab12CD34"})
	path := "/admin/seal/exports/" + id.String()
	s.do(t, "GET", path, "").refused(t, 409, "CONFLICT", "no tree head yet")
	var before, sealed, again adminapi.SealState
	s.do(t, "GET", "/admin/seal", "").into(t, 200, &before)
	s.as(t, token, "POST", "/admin/seal", "", wire.ReasonHeader, "before the audit").into(t, 200, &sealed)
	for head, err := range s.Store.Read(t.Context(), treehead.Aggregate.Stream(treehead.StreamID(0)), 0) {
		assert.True(t, err == nil && strings.Contains(string(head.Metadata), `"reason":"before the audit"`),
			"the head has the metadata %s, %v", head.Metadata, err)
	}
	s.do(t, "POST", "/admin/seal", "").into(t, 200, &again)
	assert.True(t, before.Head == nil && sealed.Head != nil && sealed.New == 1 && again.New == 0 &&
		again.Head.Size == sealed.Head.Size, "before %+v, sealed %+v, again %+v", before, sealed, again)
	got := s.do(t, "GET", path+fmt.Sprintf("?since=%d", sealed.Head.Size-1), "")
	verified, err := seal.VerifyExport(strings.NewReader(got.body), nil, nil)
	assert.True(t, got.status == 200 && err == nil && len(verified.Faults) == 0 && verified.Events != 0,
		"%d %+v, %v", got.status, verified, err)
	s.do(t, "GET", path+"?since=1000000", "").refused(t, 400, "INVALID_QUERY", "size of an earlier tree head")
	s.do(t, "GET", "/admin/seal/exports/"+uuid.NewString(), "").refused(t, 404, "NOT_FOUND", "no sealed event")
	must.OK(t, s.Store.Tombstone(t.Context(), destination.Aggregate.Stream(id)))
	s.do(t, "GET", path, "").refused(t, 404, "NOT_FOUND", "sealed events of destination-"+id.String()+" are gone")
}

// The newest event of the log need not be of the record: nothing waits for it.
func TestRecordAwaitsOnlyItsEvents(t *testing.T) {
	s := serveAlone(t)
	org, _ := s.Organization(t, "Town hall")
	must.Get(s.Store.Append(t.Context(), "elsewhere-"+uuid.NewString(), eventstore.NoStream, []eventstore.Proposed{{
		ID:       uuid.New(),
		Type:     "elsewhere.happened.v1",
		Data:     []byte("{}"),
		Metadata: []byte(`{"actor":"operator","schemaVersion":1}`),
	}}))(t)
	page := into[adminapi.RecordPage](t, 200, s.do(t, "GET", "/admin/audit/organizations/"+org.String(), ""))
	assert.True(t, len(page.Items) != 0, "the record is empty")
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
