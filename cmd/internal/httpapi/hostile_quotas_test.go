package httpapi_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
	"carillon/projections/pgtest"
)

func (s *server) limit(t *testing.T, limits organization.Limits) {
	t.Helper()
	s.Limit(t, s.org, limits)
}

// Of many who make things at the same time, as many get through as the limit lets, and one more for each that is
// deleted.
func TestHostileNumbersOfThings(t *testing.T) {
	const most, tries = 4, 12
	s := serve(t)
	s.limit(t, organization.Limits{
		organization.LimitDestinations: most + 1, organization.LimitSubscriptions: most, organization.LimitFeeds: most + 1,
		organization.LimitSources: most,
	})
	feed, feedPath := s.eventFeed(t)
	s.destination(t, "home")
	sources := make([]uuid.UUID, tries)
	for i := range sources {
		sources[i] = s.site(t)
	}
	for limit, tt := range map[string]struct {
		path string
		body func(i int) string
	}{
		"destinations":  {destinationsPath, func(int) string { return destinationBody(t, "") }},
		"subscriptions": {destinationsPath + "/home/subscriptions", func(int) string { return allOf }},
		"feeds":         {feedsPath, func(int) string { return `{"name":"n","description":"d"}` }},
		"sources": {feedPath + "/sources", func(i int) string {
			return fmt.Sprintf(`{"sourceType":"site","sourceId":%q}`, sources[i])
		}},
	} {
		t.Run(limit, func(t *testing.T) {
			var made atomic.Int64
			var all sync.Map
			var trying sync.WaitGroup
			for i := range tries {
				trying.Go(func() {
					got := s.post(t, tt.path, tt.body(i))
					if got.status == 201 {
						var one idView
						got.into(t, 201, &one)
						all.Store(one.ID, true)
						made.Add(1)
						return
					}
					got.refused(t, 409, "CONFLICT", "limit "+limit+": ")
				})
			}
			trying.Wait()
			assert.Equal(t, made.Load(), most, "were made")
			all.Range(func(id, _ any) bool {
				s.delete(t, tt.path+"/"+id.(string)).into(t, 200, nil)
				return false
			})
			s.post(t, tt.path, tt.body(0)).into(t, 201, new(any))
		})
	}
	// A limit that is lowered takes nothing away.
	s.limit(t, organization.Limits{organization.LimitFeeds: 0})
	assert.Equal(t, into[feedView](t, 200, s.get(t, feedPath)).ID, feed.ID, "read")
	s.post(t, feedsPath, `{"name":"n","description":"d"}`).refused(t, 409, "CONFLICT",
		"limit feeds: your organization may have 0")
}

// Patterns and pins of subscriptions are limited over all of them: for concurrent creates, and for changes that add to
// them.
func TestHostilePatternsAndPins(t *testing.T) {
	const tries = 12
	s := serve(t)
	s.limit(t, organization.Limits{organization.LimitPatternsAndPins: 10})
	s.destination(t, "home")
	const path = destinationsPath + "/home/subscriptions"
	const full = "limit patternsAndPins: your organization may have 10"
	var made atomic.Int64
	var trying sync.WaitGroup
	for i := range tries {
		trying.Go(func() {
			got := s.put(t, fmt.Sprintf("%s/s%d", path, i), `{"eventTypes":["news.*","event.*","*"],"scopeKind":"all"}`)
			if got.status == 201 {
				made.Add(1)
				return
			}
			got.refused(t, 409, "CONFLICT", full)
		})
	}
	trying.Wait()
	assert.Equal(t, made.Load(), 3, "were made, want 3 of 3 patterns each")
	s.put(t, path+"/last", allOf).into(t, 201, new(any))
	more := request{method: "PATCH", path: path + "/last", body: `{"eventTypes":["*","news.*"]}`}
	s.do(t, more).refused(t, 409, "CONFLICT", full)
	s.patch(t, path+"/last", `{"eventTypes":["news.*"]}`).into(t, 200, new(any))
	s.limit(t, organization.Limits{organization.LimitPatternsAndPins: 11})
	s.do(t, more).into(t, 200, new(any))
	s.patch(t, path+"/last", `{"eventTypes":["*","news.*","event.*"]}`).refused(t,
		409, "CONFLICT", "limit patternsAndPins: your organization may have 11")
}

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
	refused.comesAgainWithin(t, 24*time.Hour)
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
	refused.comesAgainWithin(t, 24*time.Hour)
	s.get(t, feedsPath).into(t, 200, new(any))
}

// A backfill that makes nothing costs what it goes through, and waits for the one before.
func TestHostileBackfillsOfNothing(t *testing.T) {
	s := serve(t)
	crm := s.subscribed(t, "crm")
	for range 3 {
		s.delivery(t, crm.ID)
	}
	window := thisHour()
	backfill := request{method: "POST", path: destinationsPath + "/crm/backfill", body: window}
	s.limit(t, organization.Limits{organization.LimitBackfillEventsPerDay: 8})
	for range 2 {
		s.do(t, backfill).into(t, 200, new(any))
	}
	refused := s.do(t, backfill)
	refused.refused(t, 429, "RATE_LIMITED", "limit backfillEventsPerDay: ")

	s.limit(t, organization.Limits{})
	release, granted, err := s.quotas(t).Turn(t.Context(), s.org)
	must.True(t, err == nil && granted, "%v %v", granted, err)
	own := s.quotas(t)
	own.TurnWait = 100 * time.Millisecond
	counted := map[organization.Limit]int{}
	own.Refused = func(limit organization.Limit) { counted[limit]++ }
	s.Commands.Quotas = own
	refused = s.do(t, backfill)
	refused.refused(t, 429, "RATE_LIMITED", "limit backfills: one backfill or recovery of your organization runs")
	assert.Equal(t, counted[organization.BoundBackfills], 1, "refusals counted: %v", counted)
	assert.Equal(t, refused.header.Get("Retry-After"), "5", "Retry-After")
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
	must.True(t, waiting >= 0, "all are replayed")
	s.do(t, replay(waiting)).refused(t, 409, "CONFLICT", "limit redeliveries: ")

	// A backfill of as many as were published finds no room, and makes none.
	late := s.subscribed(t, "late")
	window := thisHour()
	backfill := request{method: "POST", path: destinationsPath + "/" + late.ID + "/backfill", body: window}
	s.do(t, backfill).refused(t, 409, "CONFLICT", "limit redeliveries: ")
	list := into[page[any]](t, 200, s.get(t, destinationsPath+"/"+late.ID+"/deliveries"))
	assert.Equal(t, len(list.Items), 0, "deliveries were made")
	s.limit(t, organization.Limits{organization.LimitRedeliveries: most + tries})
	made := into[backfilled](t, 200, s.do(t, backfill))
	assert.True(t, made.EventsScanned == tries && made.DeliveriesCreated == tries, "with room: %+v, want %d", made, tries)
}
