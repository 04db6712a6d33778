package httpapi_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore"
	"carillon/projections/deliveries"
	"carillon/projections/pgtest"
)

// Of much feedback given at the same time as much gets through as the limit lets; who else reads the feed is not
// touched.
func TestHostileFeedbackOfADay(t *testing.T) {
	const most, tries = 4, 12
	s := serve(t)
	w := s.filledFeed(t)
	reader := s.share(t, w.feed)
	s.limit(t, organization.Limits{organization.LimitFeedbackPerDay: most})
	give := func(key string) request {
		return request{
			method: "POST",
			path:   feedsPath + "/" + w.feed + "/items/" + w.item + "/feedback",
			key:    key,
			body:   `{"rating":"positive"}`,
		}
	}
	if got := s.concurrently(t, tries, func(int) request { return give("") }); got[200] != most || got[429] != tries-most {
		t.Errorf("answered %v, want %d of 200 and the rest of 429", got, most)
	}
	refused := s.do(t, give(""))
	refused.refused(t, 429, "RATE_LIMITED", "limit feedbackPerDay: ")
	if wait, err := strconv.Atoi(refused.header.Get("Retry-After")); err != nil || wait < 1 || wait > 24*60*60 {
		t.Errorf("Retry-After: %q", refused.header.Get("Retry-After"))
	}
	s.do(t, give(reader)).into(t, 200, new(any))
	s.limit(t, organization.Limits{organization.LimitFeedbackPerDay: most + 1})
	if got := s.concurrently(t, tries, func(int) request { return give("") }); got[200] != 1 || got[429] != tries-1 {
		t.Errorf("with room for one more: answered %v", got)
	}
	rows := 0
	if err := s.Pool.QueryRow(t.Context(), "SELECT count(*) FROM items.feedback WHERE feed_id = $1", w.feed).
		Scan(&rows); err != nil || rows != most+2 {
		t.Errorf("%d are on record, %v; want %d", rows, err, most+2)
	}
}

// Requests that change something are bounded for a day, over all nodes; reading is not.
func TestHostileWritesOfADay(t *testing.T) {
	const most, tries = 4, 12
	s := serve(t)
	s.api.Writes = adapters.NewWrites(s.Pool, nil)
	s.limit(t, organization.Limits{organization.LimitWritesPerDay: most})
	create := func(i int) request {
		return request{method: "POST", path: feedsPath, body: `{"name":"` + strconv.Itoa(i) + `","description":"d"}`}
	}
	if got := s.concurrently(t, tries, create); got[201] != most || got[429] != tries-most {
		t.Errorf("answered %v, want %d of 201 and the rest of 429", got, most)
	}
	refused := s.do(t, create(0))
	refused.refused(t, 429, "RATE_LIMITED", "limit writesPerDay: ")
	if wait, err := strconv.Atoi(refused.header.Get("Retry-After")); err != nil || wait < 1 || wait > 24*60*60 {
		t.Errorf("Retry-After: %q", refused.header.Get("Retry-After"))
	}
	s.get(t, feedsPath).into(t, 200, new(any))
}

// A backfill that makes nothing costs what it goes through, and waits for the one before.
func TestHostileBackfillsOfNothing(t *testing.T) {
	s := serve(t)
	crm := s.subscribed(t, "crm")
	for range 3 {
		s.delivery(t, crm.ID)
	}
	window := `{"since":"` + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) + `","until":"` +
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`
	backfill := request{method: "POST", path: destinationsPath + "/crm/backfill", body: window}
	s.limit(t, organization.Limits{organization.LimitBackfillEventsPerDay: 8})
	for range 2 {
		s.do(t, backfill).into(t, 200, new(any))
	}
	refused := s.do(t, backfill)
	refused.refused(t, 429, "RATE_LIMITED", "limit backfillEventsPerDay: ")

	s.limit(t, organization.Limits{})
	release, granted, err := s.quotas(t).Turn(t.Context(), s.org)
	if err != nil || !granted {
		t.Fatal(granted, err)
	}
	own := s.quotas(t)
	own.TurnWait = 100 * time.Millisecond
	counted := map[organization.Limit]int{}
	own.Refused = func(limit organization.Limit) { counted[limit]++ }
	s.Commands.Quotas = own
	refused = s.do(t, backfill)
	refused.refused(t, 429, "RATE_LIMITED", "limit backfills: one backfill or recovery of your organization runs")
	if counted[organization.BoundBackfills] != 1 {
		t.Errorf("refusals counted: %v", counted)
	}
	if refused.header.Get("Retry-After") != "5" {
		t.Errorf("Retry-After: %q", refused.header.Get("Retry-After"))
	}
	release()
	own.TurnWait = apitest.Patience
	s.do(t, backfill).into(t, 200, new(any))
}

// quotas returns those of another process.
func (s *server) quotas(t *testing.T) *adapters.Quotas {
	t.Helper()
	return &adapters.Quotas{Pool: s.Pool, Locks: pgtest.Locks(t, s.Pool), Log: s.Log}
}

// unconfirmed are quotas of a process that dies once it has recorded what it claimed room for.
type unconfirmed struct{ command.Quotas }

// Confirm implements command.Quotas.
func (unconfirmed) Confirm(context.Context, uuid.UUID, eventstore.Position) {}

// A replay that the read model shows before its claim is confirmed is counted once.
func TestHostileReplaysAreCountedOnce(t *testing.T) {
	s := serve(t)
	crm := s.subscribed(t, "crm")
	done := make([]string, 3)
	for i := range done {
		done[i] = s.delivery(t, crm.ID)
		s.happens(t, done[i], s.attempt(t, crm.ID, 1, 200, ""))
	}
	s.limit(t, organization.Limits{organization.LimitRedeliveries: 2})
	s.Commands.Quotas = unconfirmed{s.Commands.Quotas}
	replay := func(i int) response {
		return s.post(t, "/events/deliveries/"+done[i]+"/replay", "")
	}
	for i := range 2 {
		replay(i).into(t, 202, new(any))
		s.Newest(t, deliveries.ReadModel)
	}
	replay(2).refused(t, 409, "CONFLICT", "limit redeliveries: ")
}

// Replays and backfills count with publications to the limit of waiting deliveries. A backfill beyond it makes none.
func TestHostileRedeliveries(t *testing.T) {
	const most, tries = 3, 8
	s := serve(t)
	crm := s.subscribed(t, "crm")
	done := make([]string, tries)
	for i := range done {
		done[i] = s.delivery(t, crm.ID)
		s.happens(t, done[i], s.attempt(t, crm.ID, 1, 200, ""))
	}
	s.limit(t, organization.Limits{organization.LimitRedeliveries: most})
	replay := func(i int) request {
		return request{method: "POST", path: "/events/deliveries/" + done[i] + "/replay"}
	}
	if got := s.concurrently(t, tries, replay); got[202] != most || got[409] != tries-most {
		t.Errorf("replays are answered %v, want %d of 202 and the rest of 409", got, most)
	}
	waiting := -1
	for i := range done { // replays are refused as repeated; the others for the limit
		if d := s.detail(t, done[i]); d.Status == "succeeded" {
			waiting = i
		}
	}
	if waiting < 0 {
		t.Fatal("all are replayed")
	}
	s.do(t, replay(waiting)).refused(t, 409, "CONFLICT", "limit redeliveries: ")

	// A backfill of as many as were published finds no room, and makes none.
	late := s.subscribed(t, "late")
	window := `{"since":"` + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339) + `","until":"` +
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `"}`
	backfill := request{method: "POST", path: destinationsPath + "/" + late.ID + "/backfill", body: window}
	s.do(t, backfill).refused(t, 409, "CONFLICT", "limit redeliveries: ")
	var list struct {
		Items []any `json:"items"`
	}
	s.get(t, destinationsPath+"/"+late.ID+"/deliveries").into(t, 200, &list)
	if len(list.Items) != 0 {
		t.Errorf("%d deliveries were made", len(list.Items))
	}
	s.limit(t, organization.Limits{organization.LimitRedeliveries: most + tries})
	var made struct {
		Scanned int `json:"eventsScanned"`
		Created int `json:"deliveriesCreated"`
	}
	s.do(t, backfill).into(t, 200, &made)
	if made.Scanned != tries || made.Created != tries {
		t.Errorf("with room: %+v, want %d", made, tries)
	}
}
