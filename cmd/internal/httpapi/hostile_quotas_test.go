package httpapi_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/projections/organizations"
)

func (s *server) limit(t *testing.T, limits organization.Limits) {
	t.Helper()
	changed, err := s.Commands.SetLimits(t.Context(), apitest.Operator, command.SetLimits{
		Organization: s.org,
		Limits:       limits,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Await(t, changed.Position, organizations.ReadModel.Name)
}

// Of many who make things at the same time, as many get through as the limit lets, and one more for each that is
// deleted.
func TestHostileNumbersOfThings(t *testing.T) {
	t.Parallel()
	const most, tries = 4, 12
	s := serve(t)
	s.limit(t, organization.Limits{
		organization.LimitDestinations: most + 1, organization.LimitSubscriptions: most, organization.LimitFeeds: most + 1,
		organization.LimitSources: most,
	})
	var feed, home struct {
		ID string `json:"id"`
	}
	s.do(t, request{method: "POST", path: "/feeds/events", body: `{"name":"n","description":"d"}`}).into(t, 201, &feed)
	s.do(t, request{method: "POST", path: "/events/destinations", body: destinationBody(t, `"externalId":"home",`)}).
		into(t, 201, &home)
	sources := make([]uuid.UUID, tries)
	for i := range sources {
		made, err := s.Commands.RegisterSource(t.Context(), apitest.Operator, command.RegisterSource{
			Type: "site",
			URL:  fmt.Sprintf("https://example.org/%d", i),
		})
		if err != nil {
			t.Fatal(err)
		}
		sources[i] = made.ID
	}
	for limit, tt := range map[string]struct {
		path, code string
		body       func(i int) string
	}{
		"destinations": {"/events/destinations", "CONFLICT", func(int) string { return destinationBody(t, "") }},
		"subscriptions": {"/events/destinations/home/subscriptions", "CONFLICT", func(int) string {
			return `{"eventTypes":["*"],"scopeKind":"all"}`
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
					got := s.do(t, request{method: "POST", path: tt.path, body: tt.body(i)})
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
				s.do(t, request{method: "DELETE", path: tt.path + "/" + id.(string)}).into(t, 200, nil)
				return false
			})
			s.do(t, request{method: "POST", path: tt.path, body: tt.body(0)}).into(t, 201, new(any))
		})
	}
	// A limit that is lowered takes nothing away.
	s.limit(t, organization.Limits{organization.LimitFeeds: 0})
	s.do(t, request{path: "/feeds/events/" + feed.ID}).into(t, 200, new(any))
	s.do(t, request{method: "POST", path: "/feeds/events", body: `{"name":"n","description":"d"}`}).refused(t, 409,
		"CONFLICT", "limit feeds: your organization may have 0")
}

// Patterns and pins of subscriptions are limited over all of them: for concurrent creates, and for changes that add to
// them.
func TestHostilePatternsAndPins(t *testing.T) {
	t.Parallel()
	const tries = 12
	s := serve(t)
	s.limit(t, organization.Limits{organization.LimitPatternsAndPins: 10})
	s.do(t, request{method: "POST", path: "/events/destinations", body: destinationBody(t, `"externalId":"home",`)}).
		into(t, 201, new(any))
	path := "/events/destinations/home/subscriptions"
	const full = "limit patternsAndPins: your organization may have 10"
	var made atomic.Int64
	var trying sync.WaitGroup
	for i := range tries {
		trying.Go(func() {
			got := s.do(t, request{
				method: "PUT",
				path:   fmt.Sprintf("%s/s%d", path, i),
				body:   `{"eventTypes":["news.*","event.*","*"],"scopeKind":"all"}`,
			})
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
	s.do(t, request{method: "PUT", path: path + "/last", body: `{"eventTypes":["*"],"scopeKind":"all"}`}).into(t,
		201, new(any))
	more := request{method: "PATCH", path: path + "/last", body: `{"eventTypes":["*","news.*"]}`}
	s.do(t, more).refused(t, 409, "CONFLICT", full)
	s.do(t, request{method: "PATCH", path: path + "/last", body: `{"eventTypes":["news.*"]}`}).into(t, 200, new(any))
	s.limit(t, organization.Limits{organization.LimitPatternsAndPins: 11})
	s.do(t, more).into(t, 200, new(any))
	s.do(t, request{method: "PATCH", path: path + "/last", body: `{"eventTypes":["*","news.*","event.*"]}`}).refused(t,
		409, "CONFLICT", "limit patternsAndPins: your organization may have 11")
}

// A suspended organization's keys open nothing, and no one else's are touched; resumed, they work.
func TestHostileOrganizationIsSuspended(t *testing.T) {
	t.Parallel()
	s := serve(t)
	_, other := s.Organization(t, "Another organization")
	c := s.clock(t)
	expect := func(status int) {
		t.Helper()
		c.pass(apitest.Patience) // cached keys are looked up again
		for path := range map[string]bool{"/feeds/events": true, "/events/destinations": true} {
			if got := s.do(t, request{path: path}); got.status != status {
				t.Errorf("GET %s: %d %s, want %d", path, got.status, got.body, status)
			}
		}
		s.do(t, request{path: "/feeds/events", key: other}).into(t, 200, new([]any))
	}
	expect(200)
	changed, err := s.Commands.SuspendOrganization(t.Context(), apitest.Operator, command.SuspendOrganization{
		Organization: s.org,
		Reason:       "unpaid",
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Await(t, changed.Position, organizations.ReadModel.Name)
	expect(401)
	if changed, err = s.Commands.ResumeOrganization(t.Context(), apitest.Operator,
		command.ResumeOrganization{Organization: s.org}); err != nil {
		t.Fatal(err)
	}
	s.Await(t, changed.Position, organizations.ReadModel.Name)
	expect(200)
	if changed, err = s.Commands.DeleteOrganization(t.Context(), apitest.Operator,
		command.DeleteOrganization{Organization: s.org}); err != nil {
		t.Fatal(err)
	}
	s.Await(t, changed.Position, organizations.ReadModel.Name)
	expect(401)
	if types := strings.Join(s.EventTypes(t, "organization-"+s.org.String()), " "); !strings.HasSuffix(types,
		"organization.deleted.v1") {
		t.Errorf("events: %s", types)
	}
}
