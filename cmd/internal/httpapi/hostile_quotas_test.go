package httpapi_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore/storetest/must"
	"carillon/projections/organizations"
)

func (s *server) limit(t *testing.T, limits organization.Limits) {
	t.Helper()
	changed := must.Get(s.Commands.SetLimits(t.Context(), apitest.Operator, command.SetLimits{
		Organization: s.org,
		Limits:       limits,
	}))(t)
	s.Await(t, changed.Position, organizations.ReadModel.Name)
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
	var feed, home struct {
		ID string `json:"id"`
	}
	s.post(t, "/feeds/events", `{"name":"n","description":"d"}`).into(t, 201, &feed)
	s.post(t, "/events/destinations", destinationBody(t, `"externalId":"home",`)).into(t, 201, &home)
	sources := make([]uuid.UUID, tries)
	for i := range sources {
		made := must.Get(s.Commands.RegisterSource(t.Context(), apitest.Operator, command.RegisterSource{
			Type: "site",
			URL:  fmt.Sprintf("https://example.org/%d", i),
		}))(t)
		sources[i] = made.ID
	}
	for limit, tt := range map[string]struct {
		path, code string
		body       func(i int) string
	}{
		"destinations": {"/events/destinations", "CONFLICT", func(int) string { return destinationBody(t, "") }},
		"subscriptions": {"/events/destinations/home/subscriptions", "CONFLICT", func(int) string {
			return allOf
		}},
		"feeds": {"/feeds/events", "CONFLICT", func(int) string { return `{"name":"n","description":"d"}` }},
		"sources": {"/feeds/events/" + feed.ID + "/sources", "CONFLICT", func(i int) string {
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
						var one struct {
							ID string `json:"id"`
						}
						got.into(t, 201, &one)
						all.Store(one.ID, true)
						made.Add(1)
						return
					}
					got.refused(t, 409, tt.code, "limit "+limit+": ")
				})
			}
			trying.Wait()
			if made.Load() != most {
				t.Errorf("%d were made, want %d", made.Load(), most)
			}
			all.Range(func(id, _ any) bool {
				s.delete(t, tt.path+"/"+id.(string)).into(t, 200, nil)
				return false
			})
			s.post(t, tt.path, tt.body(0)).into(t, 201, new(any))
		})
	}
	// A limit that is lowered takes nothing away.
	s.limit(t, organization.Limits{organization.LimitFeeds: 0})
	s.get(t, "/feeds/events/"+feed.ID).into(t, 200, new(any))
	s.post(t, "/feeds/events", `{"name":"n","description":"d"}`).refused(t, 409,
		"CONFLICT", "limit feeds: your organization may have 0")
}

// Patterns and pins of subscriptions are limited over all of them: for concurrent creates, and for changes that add to
// them.
func TestHostilePatternsAndPins(t *testing.T) {
	const tries = 12
	s := serve(t)
	s.limit(t, organization.Limits{organization.LimitPatternsAndPins: 10})
	s.post(t, "/events/destinations", destinationBody(t, `"externalId":"home",`)).into(t, 201, new(any))
	path := "/events/destinations/home/subscriptions"
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
	if made.Load() != 3 {
		t.Errorf("%d were made, want 3 of 3 patterns each", made.Load())
	}
	s.put(t, path+"/last", allOf).into(t, 201, new(any))
	more := request{method: "PATCH", path: path + "/last", body: `{"eventTypes":["*","news.*"]}`}
	s.do(t, more).refused(t, 409, "CONFLICT", full)
	s.patch(t, path+"/last", `{"eventTypes":["news.*"]}`).into(t, 200, new(any))
	s.limit(t, organization.Limits{organization.LimitPatternsAndPins: 11})
	s.do(t, more).into(t, 200, new(any))
	s.patch(t, path+"/last", `{"eventTypes":["*","news.*","event.*"]}`).refused(t,
		409, "CONFLICT", "limit patternsAndPins: your organization may have 11")
}
