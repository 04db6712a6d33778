package adminapi_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/publications"
)

// event is one event as sent, without a line break.
func event(organization uuid.UUID, id, subject string) string {
	return fmt.Sprintf(`{"id":"%s","type":"factcheck.status.changed","source":"/factcheck","subject":"%s",`+
		`"organizationId":"%s","data":%s}`,
		id, subject, organization, factcheck)
}

const factcheck = `{"id":"c-1","status":"completed","previousStatus":"running","title":"A claim",` +
	`"url":"https://example.org/c-1","changedAt":"2026-11-21T12:00:00Z"}`

func TestPublishAwaitsNoReadModel(t *testing.T) {
	s := serveAlone(t)
	org, _ := s.Organization(t, "Town hall")
	s.api.Await = func(context.Context, eventstore.Position, ...string) bool {
		t.Error("an answer to publishing waited for a read model")
		return false
	}
	for range 5 {
		id := uuid.New()
		s.do(t, "POST", "/admin/events", event(org, id.String(), "claim-1")).into(t, 200, nil)
		if _, err := s.Queries.PublishedEvent(t.Context(), org, id); err != nil { // which waits
			t.Error(err)
		}
	}
}

// TestPublishKeepsPace: the read model of events is at most some hundred events behind what is answered.
func TestPublishKeepsPace(t *testing.T) {
	s := serveAlone(t)
	org, _ := s.Organization(t, "Town hall")
	var waited atomic.Int64
	s.api.Await = func(ctx context.Context, to eventstore.Position, names ...string) bool {
		assert.Slices(t, names, []string{publications.ReadModel.Name}, "waited for")
		waited.Add(1)
		return s.Patient(ctx, to, names...)
	}
	var lines strings.Builder
	for range 1000 {
		lines.WriteString(event(org, uuid.NewString(), "claim-1") + "\n")
	}
	s.do(t, "POST", "/admin/events", lines.String()).into(t, 200, nil)
	if n := waited.Load(); n == 0 || n == 1000 {
		t.Errorf("waited %d times", n)
	}
	// A read model that stands still is awaited by those in flight, and not again by each line after them.
	waited.Store(0)
	s.api.Await = func(context.Context, eventstore.Position, ...string) bool { waited.Add(1); return false }
	s.do(t, "POST", "/admin/events", lines.String()).into(t, 200, nil)
	if n := waited.Load(); n == 0 || n > 100 {
		t.Errorf("waited %d times for one that stands still", n)
	}
}

func TestPublishOneEvent(t *testing.T) {
	s := serve(t)
	org, _ := s.Organization(t, "Town hall")
	id := uuid.NewString()
	var published adminapi.Published
	for range 2 { // the second time nothing is recorded
		s.do(t, "POST", "/admin/events", event(org, id, "claim-1")).into(t, 200, &published)
		assert.Equal(t, published.Published, 1, "published")
	}
	assert.Equal(t, len(s.EventTypes(t, "publication-"+id)), 1, "recorded")
	for change, want := range map[[2]string][2]string{
		{`"type":"factcheck.status.changed"`, `"type":"no.such"`}:            {"VALIDATION_FAILED", "GET /events/types"},
		{`"type":"factcheck.status.changed"`, `"type":"event.item.updated"`}: {"VALIDATION_FAILED", "reserved"},
		{`"source":"/factcheck",`, ``}:                                       {"INVALID_BODY", "source is required"},
		{`"type":"factcheck.status.changed",`, ``}:                           {"INVALID_BODY", "type is required"},
		{`,"data":` + factcheck, ``}:                                         {"INVALID_BODY", "data is required"},
		{`"source":"/factcheck"`, `"source":"a b"`}:                          {"INVALID_BODY", "a URI-reference"},
		{`"source":`, `"time":"0001-01-01T00:00:00Z","source":`}:             {"INVALID_BODY", "time must be from 1970"},
		{`"id":"` + id, `"id":"7`}:                                           {"INVALID_BODY", "id must be a UUID"},
		{`"source":`, `"time":"9999-12-31T23:59:59-01:00","source":`}: {"INVALID_BODY",
			"time must be an ISO 8601 time"},
		{`"source":`, `"feedid":"x","source":`}:          {"INVALID_BODY", "feedid is not a known field"},
		{`"source":`, `"feedId":"` + id + `","source":`}: {"INVALID_BODY", "feedType and feedId go together"},
		{`"data":` + factcheck, `"data":{}`}:             {"VALIDATION_FAILED", "data does not match the schema"},
		{`"organizationId":"` + org.String() + `",`, ``}: {"VALIDATION_FAILED", ""},
	} {
		body := strings.Replace(event(org, id, "claim-1"), change[0], change[1], 1)
		s.do(t, "POST", "/admin/events", body).refused(t, 400, want[0], want[1])
	}
	s.do(t, "POST", "/admin/events", `{"data":"`+strings.Repeat("x", 1<<20)+`"}`).refused(t, 413,
		"INVALID_BODY", "1048576")
	s.as(t, token, "POST", "/admin/events", "x", "Content-Type", "text/plain").refused(t, 415, "INVALID_BODY",
		"application/json or application/x-ndjson")
}

// An id that is published again is the same event, or refused: else what is acknowledged is lost.
func TestPublishAgainIsComparedWithTheFirst(t *testing.T) {
	s := serve(t)
	org, _ := s.Organization(t, "Town hall")
	neighbour, _ := s.Organization(t, "Library")
	id := uuid.NewString()
	first := event(org, id, "claim-1")
	s.do(t, "POST", "/admin/events", first).into(t, 200, &adminapi.Published{})
	respelled := strings.NewReplacer(`"previousStatus":"running",`, "", `"id":"c-1",`,
		`"id": "\u0063-1", "previousStatus":"running",`).Replace(first)
	s.do(t, "POST", "/admin/events", respelled).into(t, 200, &adminapi.Published{})
	for change, differs := range map[[2]string]string{
		{org.String(), neighbour.String()}:        "organizationId",
		{`"subject":"claim-1"`, `"subject":"x"`}:  "subject",
		{`"source":"/factcheck"`, `"source":"x"`}: "source",
		{"A claim", "Another claim"}:              "data",
	} {
		other := strings.Replace(first, change[0], change[1], 1)
		s.do(t, "POST", "/admin/events", other).refused(t, 409, "CONFLICT", "id "+id+" is published already and differs in "+
			differs+":")
		// Of a body of many nothing is recorded: neither what comes before the line, nor what comes after.
		before, after := uuid.NewString(), uuid.NewString()
		lines := event(org, before, "claim-2") + "\n" + other + "\n" + event(org, after, "claim-2")
		s.do(t, "POST", "/admin/events", lines).refused(t, 409, "CONFLICT", "line 2: id "+id+" is published already")
		for _, fresh := range []string{before, after} {
			assert.Equal(t, len(s.EventTypes(t, "publication-"+fresh)), 0, "recorded … of a body that is refused")
		}
	}
	twice := uuid.NewString()
	s.do(t, "POST", "/admin/events", event(org, twice, "claim-1")+"\n"+event(org, twice, "claim-2")).
		refused(t, 409, "CONFLICT", "line 2: id "+twice+" is published already and differs in subject")
	assert.Equal(t, len(s.EventTypes(t, "publication-"+twice)), 0, "recorded")
	s.do(t, "POST", "/admin/events", event(org, twice, "claim-1")+"\n"+event(org, twice, "claim-1")).into(t, 200, nil)
	assert.Equal(t, len(s.EventTypes(t, "publication-"+id)), 1, "recorded")
}

// Data nested deeper than receivers' parsers go is refused, with its place.
func TestPublishBoundsDepth(t *testing.T) {
	s := serve(t)
	org, _ := s.Organization(t, "Town hall")
	nested := func(levels int) string {
		inner := levels - 1 // the data itself is the first
		return strings.Replace(event(org, uuid.NewString(), "claim-1"), `"id":"c-1"`,
			`"id":"c-1","more":`+strings.Repeat("[", inner)+strings.Repeat("]", inner), 1)
	}
	s.do(t, "POST", "/admin/events", nested(64)).into(t, 200, nil)
	for _, levels := range []int{65, 5000} {
		s.do(t, "POST", "/admin/events", nested(levels)).refused(t, 400, "VALIDATION_FAILED",
			"data/more"+strings.Repeat("/0", 63)+" is nested deeper than 64 levels")
	}
}

func TestPublishMany(t *testing.T) {
	s := serve(t)
	org, _ := s.Organization(t, "Town hall")
	var lines strings.Builder
	ids := make([]string, 500)
	for i := range ids {
		ids[i] = uuid.NewString()
		lines.WriteString(event(org, ids[i], fmt.Sprint("claim-", i%7)) + "\n")
		if i%100 == 0 {
			lines.WriteString("\n") // an empty line is nothing
		}
	}
	body := "\uFEFF" + strings.TrimRight(lines.String(), "\n") // nor does the last one need an end
	published := into[adminapi.Published](t, 200, s.do(t, "POST", "/admin/events", body))
	assert.Equal(t, published.Published, len(ids), "published")
	for _, id := range ids {
		must.Equal(t, len(s.EventTypes(t, "publication-"+id)), 1, "event %s recorded", id)
	}
}

func TestPublishManyStopsAtABadLine(t *testing.T) {
	s := serve(t)
	org, _ := s.Organization(t, "Town hall")
	good := func() string { return event(org, uuid.NewString(), "claim-1") }
	late := uuid.NewString()
	for bad, want := range map[string]string{
		`{"type":"no.such","source":"/x","data":{}}`: "line 2: type \"no.such\"",
		`{"type":`: "line 2: body is not valid JSON",
		`[]`:       "line 2: body must be an object",
		`{"data":"` + strings.Repeat("x", 1<<20) + `"}`: "line 2: line is over the limit",
	} {
		body := good() + "\n" + bad + "\n" + strings.Repeat(good()+"\n", 2000) + event(org, late, "claim-1")
		got := s.do(t, "POST", "/admin/events", body)
		assert.True(t, got.status >= 400 && got.status < 500 &&
			strings.Contains(strings.ReplaceAll(got.body, `\"`, `"`), want) && strings.Contains(got.body, "published"),
			"answered %d %s, want %s", got.status, got.body, want)
	}
	assert.Equal(t, len(s.EventTypes(t, "publication-"+late)), 0, "it went on long after the bad line")
	s.do(t, "POST", "/admin/events", "\n\n").into(t, http.StatusOK, &adminapi.Published{})
}

// An event for an organization that does not exist would reach no receiver: it is refused, with its line. A newly
// registered one, at another process too, gets its events at once; a deleted one, no more.
func TestPublishForUnknownOrganization(t *testing.T) {
	s := serve(t)
	org, _ := s.Organization(t, "Town hall")
	nobody := uuid.New()
	s.do(t, "POST", "/admin/events", event(nobody, uuid.NewString(), "claim-1")).
		refused(t, 404, "NOT_FOUND", "organizationId "+nobody.String()+" is no organization that exists: register it first")
	ids := []string{uuid.NewString(), uuid.NewString()}
	s.do(t, "POST", "/admin/events", event(org, ids[0], "claim-1")+"\n"+event(nobody, ids[1], "claim-1")).
		refused(t, 404, "NOT_FOUND", "line 2: organizationId "+nobody.String()+" is no organization that exists")
	for _, id := range ids { // nothing of a body that is refused
		assert.Equal(t, len(s.EventTypes(t, "publication-"+id)), 0, "recorded")
	}

	other := &command.Commands{Store: s.Store, Now: time.Now, Catalog: s.Commands.Catalog} // of another process
	made := must.Get(other.RegisterOrganization(t.Context(), command.Caller{Actor: "operator"},
		command.RegisterOrganization{Name: "Library"}))(t)
	s.do(t, "POST", "/admin/events", event(made.ID, uuid.NewString(), "claim-1")).into(t, 200, nil)
	s.do(t, "DELETE", "/admin/organizations/"+made.ID.String(), "").into(t, 200, nil)
	s.do(t, "POST", "/admin/events", event(made.ID, uuid.NewString(), "claim-1")).refused(t, 404, "NOT_FOUND",
		"organizationId")
}

func TestPublishWithoutAnEventStore(t *testing.T) {
	s := serveAlone(t)
	org, _ := s.Organization(t, "Town hall")
	s.StopStore()
	body := strings.Repeat(event(org, uuid.NewString(), "claim-1")+"\n", 3)
	s.do(t, "POST", "/admin/events", body).refused(t, 503, "SERVICE_UNAVAILABLE", "0 events were published")
}
