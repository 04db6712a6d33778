package httpapi_test

import (
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/eventstore/storetest/must"
	"carillon/projections/publications"
)

// stretchView is a part of a list that is read by marks.
type stretchView[T any] struct {
	Items      []T `json:"items"`
	Pagination struct {
		Limit   int     `json:"limit"`
		HasMore bool    `json:"hasMore"`
		Until   *string `json:"until"`
	} `json:"pagination"`
}

type idView struct {
	ID string `json:"id"`
}

// walk reads a list to its end and returns the ids in the order in which they come. Between two parts, it calls
// meanwhile.
func (s *server) walk(t *testing.T, path string, meanwhile func()) (ids []string) {
	t.Helper()
	for next := path; ; {
		page := into[stretchView[idView]](t, 200, s.get(t, next))
		for _, item := range page.Items {
			ids = append(ids, item.ID)
		}
		if page.Pagination.HasMore != (page.Pagination.Until != nil) {
			t.Fatalf("%s: hasMore and until differ: %+v", next, page.Pagination)
		}
		if page.Pagination.Until == nil {
			return ids
		}
		meanwhile()
		next = path + "&until=" + url.QueryEscape(*page.Pagination.Until)
	}
}

// publish publishes an event of the test's organization.
func (s *server) publish(t *testing.T, in command.Publish) uuid.UUID {
	t.Helper()
	if in.Type == "" {
		in.Type, in.Data = "news.item.added", []byte(`{"id":"7","title":"Storm"}`)
	}
	if in.FeedID == uuid.Nil {
		in.Organization = s.org
	}
	in.Source = "/news"
	made := must.Get(s.Commands.Publish(t.Context(), apitest.Operator, in))(t)
	s.Await(t, made.Position, publications.ReadModel.Name, dispatching.Name)
	return made.ID
}

// shown waits until deliveries to a destination can be read.
func (s *server) shown(t *testing.T, events []uuid.UUID, destination string) {
	t.Helper()
	for _, event := range events {
		id := dispatch.DeliveryID(event, uuid.MustParse(destination))
		apitest.Eventually(t, "the delivery can be read", func() bool {
			return s.get(t, "/events/deliveries/"+id.String()).status == 200
		})
	}
}

// plan lists the events published before a walk and during it, at few different times.
type plan struct {
	Before, Meanwhile []int
	Limit             int
}

// Each thing that was there when a walk began comes once, and none comes twice, whatever is published meanwhile, also
// before and between those that were read, and with equal times.
func TestStretchesUnderInserts(t *testing.T) {
	s := serve(t)
	crm, billing := s.subscribed(t, "crm"), s.subscribed(t, "billing")
	hour := rapid.IntRange(0, 3)
	plans := rapid.Custom(func(r *rapid.T) plan {
		return plan{
			Before:    rapid.SliceOfN(hour, 1, 9).Draw(r, "before"),
			Meanwhile: rapid.SliceOfN(hour, 0, 4).Draw(r, "meanwhile"),
			Limit:     rapid.IntRange(1, 4).Draw(r, "limit"),
		}
	})
	for round := range 12 {
		plan := plans.Example(round)
		day := time.Date(2026, 1, 1+round, 12, 0, 0, 0, time.UTC)
		began := time.Now()
		publish := func(places []int) (ids []uuid.UUID) {
			for _, place := range places {
				ids = append(ids, s.publish(t, command.Publish{Time: day.Add(time.Duration(place) * time.Hour)}))
			}
			return ids
		}
		events := publish(plan.Before)
		s.shown(t, events, crm.ID)
		s.shown(t, events, billing.ID)
		more := plan.Meanwhile
		meanwhile := func() {
			if len(more) > 0 {
				publish(more[:1])
				more = more[1:]
			}
		}
		var want []string
		for _, id := range events {
			want = append(want, id.String())
		}
		window := fmt.Sprintf("?limit=%d&since=", plan.Limit)
		onceEach(t, plan, want, s.walk(t, "/events/events"+window+day.Format(time.RFC3339), meanwhile))
		want = nil
		for _, id := range events {
			for _, to := range []string{crm.ID, billing.ID} {
				want = append(want, dispatch.DeliveryID(id, uuid.MustParse(to)).String())
			}
		}
		more = plan.Meanwhile
		onceEach(t, plan, want, s.walk(t, "/events/deliveries"+window+began.UTC().Format(time.RFC3339Nano), meanwhile))
	}
}

func onceEach(t *testing.T, of plan, want, got []string) {
	t.Helper()
	seen := map[string]int{}
	for _, id := range got {
		seen[id]++
		if seen[id] > 1 {
			t.Errorf("%+v: %s came twice", of, id)
		}
	}
	for _, id := range want {
		if seen[id] != 1 {
			t.Errorf("%+v: %s came %d times", of, id, seen[id])
		}
	}
}

func TestAllDeliveriesAreFiltered(t *testing.T) {
	s := serve(t)
	crm, billing := s.subscribed(t, "crm"), s.subscribed(t, "billing")
	feed := s.feed(t, s.org)
	storm := s.publish(t, command.Publish{})
	check := s.publish(t, command.Publish{Type: "factcheck.status.changed", Data: factcheck})
	city := s.publish(t, command.Publish{FeedType: "news", FeedID: feed})
	events := []uuid.UUID{storm, check, city}
	s.shown(t, events, crm.ID)
	s.shown(t, events, billing.ID)
	id := func(event uuid.UUID, to destinationView) string {
		return dispatch.DeliveryID(event, uuid.MustParse(to.ID)).String()
	}
	s.happens(t, id(storm, crm), s.attempt(t, crm.ID, 1, 204, ""))
	s.happens(t, id(check, billing), delivery.Discard{Reason: "no subscription matches", At: time.Now().UTC()})
	for query, want := range map[string][]string{
		"": {id(storm, crm), id(storm, billing), id(check, crm), id(check, billing),
			id(city, crm), id(city, billing)},
		"&status=succeeded":                               {id(storm, crm)},
		"&status=discarded":                               {id(check, billing)},
		"&type=news.*&destination=crm":                    {id(storm, crm), id(city, crm)},
		"&destination=" + billing.ID + "&status=pending":  {id(storm, billing), id(city, billing)},
		"&feedId=" + feed.String():                        {id(city, crm), id(city, billing)},
		"&eventId=" + check.String():                      {id(check, crm), id(check, billing)},
		"&eventId=" + storm.String() + "&destination=crm": {id(storm, crm)},
		"&until=0001-01-01T00:00:00Z":                     {},
		"&since=9999-12-31T23:59:59Z":                     {},
	} {
		got := s.walk(t, "/events/deliveries?limit=2"+query, func() {})
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	for query, message := range map[string]string{
		"offset=1":      "offset is not a known query parameter: use status, type, feedId, eventId, destination",
		"eventId=x":     "eventId must be a UUID",
		"destination=":  "destination must be a UUID or an externalId",
		"until=x":       "until must be an ISO 8601 time",
		"until=x~y":     "pagination.until of the page before",
		"limit=101":     "limit must be a whole number from 1 to 100",
		"status=broken": "status must be a comma-separated list of: pending, delivering",
		"since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z~" + missing: "since must not be after until",
	} {
		s.get(t, "/events/deliveries?"+query).refused(t, 400, "INVALID_QUERY", message)
	}
	s.get(t, "/events/deliveries?destination=unknown").refused(t, 404, "NOT_FOUND", "destination not found")
}
