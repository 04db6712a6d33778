package httpapi_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/command/webhook"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/feeds"
	"carillon/projections/publications"
)

// A receiver that asks for missed events until its last event gets that event, too: its time is one text.
func TestEventTimeIsOneText(t *testing.T) {
	s := serve(t)
	destination := s.destination(t, "crm")
	s.post(t, destinationsPath+"/crm/subscriptions", allOf).into(t, 201, new(any))
	for at, want := range map[time.Time]string{
		time.Date(2026, 10, 1, 12, 0, 0, 123_456_789, time.UTC): "2026-10-01T12:00:00.123456Z",
		time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC):           "2026-10-02T12:00:00.000000Z",
	} {
		id := s.published(t, destination.ID, command.Publish{Time: at})
		sent := must.Get(webhook.Envelope{Time: at}.AppendJSON(nil))(t)
		for where, text := range map[string]string{
			"the webhook": string(sent),
			"the detail":  s.get(t, "/events/deliveries/"+id).body,
			"the row":     s.get(t, destinationsPath+"/crm/deliveries").body,
			"the event":   s.get(t, "/events/events?until="+want).body,
		} {
			assert.True(t, strings.Contains(text, `"time":"`+want+`"`), "%s: %s, want the time %s", where, text, want)
		}
		var done struct {
			EventsScanned int `json:"eventsScanned"`
		}
		s.post(t, destinationsPath+"/crm/backfill", `{"since":"`+want+`","until":"`+want+`"}`).into(t, 200, &done)
		assert.Equal(t, done.EventsScanned, 1, "a backfill until %s scanned … events", want)
	}
}

// Events sort by their sequence as they were published, whatever their time, and it is one text wherever it is shown.
func TestSequenceIsThePlaceInTheLog(t *testing.T) {
	s := serve(t)
	destination := s.subscribed(t, "crm")
	at, before := time.Date(2026, 10, 1, 12, 0, 0, 0, time.UTC), ""
	for i := range 20 {
		id := s.published(t, destination.ID, command.Publish{Time: at.Add(-time.Duration(i) * time.Hour)})
		var detail struct {
			EventID string `json:"eventId"`
			Event   struct {
				Sequence string `json:"sequence"`
			} `json:"event"`
		}
		s.get(t, "/events/deliveries/"+id).into(t, 200, &detail)
		sequence := detail.Event.Sequence
		must.True(t, len(sequence) == 20 && sequence > before, "the sequence after %q is %q", before, sequence)
		before = sequence
		for _, path := range []string{
			destinationsPath + "/crm/deliveries?limit=1",
			"/events/deliveries?eventId=" + detail.EventID,
			"/events/events/" + detail.EventID,
		} {
			if got := s.get(t, path); !strings.Contains(got.body, `"sequence":"`+sequence+`"`) {
				t.Errorf("%s: %s, want the sequence %s", path, got.body, sequence)
			}
		}
	}
}

type eventView struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Subject  *string        `json:"subject"`
	FeedID   *string        `json:"feedId"`
	Data     map[string]any `json:"data"`
	Received int            `json:"receivedBy"`
	Missed   int            `json:"missedBy"`

	Recipients struct {
		Items []struct {
			DestinationID string        `json:"destinationId"`
			Status        string        `json:"status"`
			Delivery      *deliveryView `json:"delivery"`
			Reason        *string       `json:"reason"`
			ReasonAt      *time.Time    `json:"reasonAt"`
		} `json:"items"`
		Total int `json:"total"`
	} `json:"recipients"`
}

func TestEventShowsItsRecipients(t *testing.T) {
	s := serve(t)
	crm, bare := s.subscribed(t, "crm"), s.destination(t, "bare")
	event := s.publish(t, command.Publish{Subject: "item/7"})
	s.shown(t, []uuid.UUID{event}, crm.ID)
	s.happens(t, dispatch.DeliveryID(event, uuid.MustParse(crm.ID)).String(), s.attempt(t, crm.ID, 1, 503, "busy"))
	late := s.subscribed(t, "late")
	reasons := map[string]string{bare.ID: "no_subscription", late.ID: "destination_created_later"}
	path := "/events/events/" + event.String()
	must.Eventually(t, "the record has all three", func() bool {
		shown := into[eventView](t, 200, s.get(t, path))
		return len(shown.Recipients.Items) == 3
	})
	shown := into[eventView](t, 200, s.get(t, path))
	assert.True(t, shown.ID == event.String() && *shown.Subject == "item/7" && shown.Data["title"] == "Storm" &&
		shown.Received == 1 && shown.Missed == 2, "event = %+v", shown)
	for _, to := range shown.Recipients.Items {
		if to.DestinationID == crm.ID {
			assert.True(t, to.Delivery != nil && to.Delivery.AttemptCount == 1 && to.Reason == nil &&
				*to.Delivery.LastAttempt.ResponseStatus == 503, "who got it: %+v", to)
			continue
		}
		if to.Delivery != nil || to.Reason == nil || *to.Reason != reasons[to.DestinationID] || to.Status != "enabled" {
			t.Errorf("who did not: %+v, want %s", to, reasons[to.DestinationID])
		}
	}
	for query, want := range map[string][2]int{
		"?received=true":                   {1, 1},
		"?received=false":                  {2, 2},
		"?received=false&limit=1":          {1, 2},
		"?offset=3":                        {0, 3},
		"?received=false&limit=5&offset=1": {1, 2},
	} {
		page := into[eventView](t, 200, s.get(t, path+query))
		assert.True(t, len(page.Recipients.Items) == want[0] && page.Recipients.Total == want[1],
			"%s: %d of %d, want %v", query, len(page.Recipients.Items), page.Recipients.Total, want)
	}
	s.get(t, path+"?received=maybe").refused(t, 400, "INVALID_QUERY", "must be one of true, false")
}

// An organization sees its own events, those of its feeds, and those of feeds that are shared with it. Others are as if
// they were not there.
func TestEventsOfOneOrganization(t *testing.T) {
	s := serve(t)
	library, theirKey := s.Organization(t, "Library")
	feed := s.feed(t, library)
	own := s.publish(t, command.Publish{Subject: "item/own", Time: time.Now().Add(-48 * time.Hour)})
	check := s.publish(t, command.Publish{Type: "factcheck.status.changed", Data: factcheck})
	theirs := s.publish(t, command.Publish{FeedType: "news", FeedID: feed, Subject: "item/theirs"})
	has := func(query string, want ...uuid.UUID) {
		t.Helper()
		got := s.walk(t, "/events/events?limit=1"+query, func() {})
		ids := make([]string, len(want))
		for i, id := range want {
			ids[i] = id.String()
		}
		assert.Slices(t, got, ids, "%s", query)
	}
	has("", check, own)
	has("&subject=item%2Fown", own)
	has("&subject=" + own.String()) // an id is no subject
	has("&subject=item%2Ftheirs")
	has("&type=news.*", own)
	has("&type=factcheck.status.changed", check)
	has("&type=no.such")
	has("&type=no.such,factcheck.*,factcheck.status.changed", check)
	has("&feedId=" + feed.String())
	has("&feedId=" + uuid.Nil.String())
	has("&since="+time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), check)
	has("&until="+time.Now().Add(-time.Hour).UTC().Format(time.RFC3339), own)
	for query, message := range map[string]string{
		"subject=": "subject must be",
		"type=*x":  "type must be",
		"q=x":      "q is not a known query parameter",
	} {
		s.get(t, "/events/events?"+query).refused(t, 400, "INVALID_QUERY", message)
	}
	got := s.as(theirKey).get(t, "/events/deliveries?eventId="+own.String())
	assert.True(t, strings.Contains(got.body, `"items":[]`), "deliveries of another organization's event: %s", got.body)
	s.destination(t, "crm")
	for _, ref := range []string{"crm", "unknown"} {
		path := "/events/deliveries?destination=" + ref
		s.as(theirKey).get(t, path).refused(t, 404, "NOT_FOUND", "destination not found")
	}
	share := command.ShareFeed{FeedType: "news", FeedID: feed, Organization: s.org}
	shared := must.Get(s.Commands.ShareFeed(t.Context(), apitest.Operator, share))(t)
	s.Await(t, shared.Position, feeds.ReadModel.Name)
	has("", theirs, check, own)
	has("&feedId="+feed.String(), theirs)
}

// Data that was stored before its depth was bounded can be read, as deep as a JSON text can be.
func TestDeepDataCanBeRead(t *testing.T) {
	s := serve(t)
	id := s.published(t, s.subscribed(t, "crm").ID, command.Publish{Subject: `"data":0`})
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	must.Get(s.Pool.Exec(t.Context(), "UPDATE publications.publications SET data = $1 WHERE organization = $2",
		[]byte(deep), s.org))(t)
	// beside the contract, which can't read it
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/events/deliveries/"+id, nil)
	r.RemoteAddr = "127.0.0.1:40000"
	r.Header.Set("Authorization", "Bearer "+s.key)
	w := httptest.NewRecorder()
	s.api.ServeHTTP(w, r)
	body := w.Body.String()
	assert.True(t, w.Code == 200 && strings.Contains(body, `"data":`+deep+`}`) &&
		strings.Contains(body, `"subject":"\"data\":0"`), "answered %d, %d bytes", w.Code, len(body))
}

// walk reads a list to its end and returns the ids in the order in which they come. Between two parts, it calls
// meanwhile.
func (s *server) walk(t *testing.T, path string, meanwhile func()) (ids []string) {
	t.Helper()
	for next := path; ; {
		page := into[page[idView]](t, 200, s.get(t, next))
		for _, item := range page.Items {
			ids = append(ids, item.ID)
		}
		must.Equal(t, page.Pagination.HasMore, page.Pagination.Until != nil,
			"%s: hasMore and until differ: %+v", next, page.Pagination)
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
		must.Eventually(t, "the delivery can be read", func() bool {
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
		assert.True(t, seen[id] <= 1, "%+v: %s came twice", of, id)
	}
	for _, id := range want {
		assert.Equal(t, seen[id], 1, "%+v: %s came … times", of, id)
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
		assert.Slices(t, got, want, "%s", query)
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
