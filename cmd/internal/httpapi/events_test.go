package httpapi_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/cmd/internal/httpapi"
	"carillon/command"
	"carillon/command/webhook"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

// A receiver that asks for missed events until its last event gets that event, too: its time is one text. So is its
// sequence, by which events sort as they were published, whatever their time.
func TestEventTimeAndSequenceAreOneText(t *testing.T) {
	s := serve(t)
	destination := s.subscribed(t, "crm")
	before := ""
	for _, c := range []struct {
		at   time.Time
		want string
	}{
		{time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC), "2026-10-02T12:00:00.000000Z"},
		{time.Date(2026, 10, 1, 12, 0, 0, 123_456_789, time.UTC), "2026-10-01T12:00:00.123456Z"},
	} {
		id := s.published(t, destination.ID, command.Publish{Time: c.at})
		detail := s.detail(t, id)
		sequence := *detail.Event.Sequence
		must.True(t, len(sequence) == 20 && sequence > before, "the sequence after %q is %q", before, sequence)
		before = sequence
		for _, path := range []string{
			"/events/deliveries/" + id,
			"/events/deliveries?eventId=" + detail.EventID.String(),
			destinationsPath + "/crm/deliveries?limit=1",
			"/events/events/" + detail.EventID.String(),
			"/events/events?limit=1&until=" + c.want,
		} {
			text := s.get(t, path).body
			assert.True(t, strings.Contains(text, `"time":"`+c.want+`"`) &&
				strings.Contains(text, `"sequence":"`+sequence+`"`), "%s: %s, want %s %s", path, text, c.want, sequence)
		}
		sent := string(must.Get(webhook.Envelope{Time: c.at}.AppendJSON(nil))(t))
		assert.True(t, strings.Contains(sent, `"time":"`+c.want+`"`), "the webhook: %s, want the time %s", sent, c.want)
		window := `{"since":"` + c.want + `","until":"` + c.want + `"}`
		done := into[backfilled](t, 200, s.post(t, destinationsPath+"/crm/backfill", window))
		assert.Equal(t, done.EventsScanned, 1, "a backfill until %s scanned … events", c.want)
	}
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
	var shown httpapi.EventDetail
	must.Eventually(t, "the record has all three", func() bool {
		s.get(t, path).into(t, 200, &shown)
		return len(shown.Recipients.Items) == 3
	})
	assert.True(t, shown.ID == event && *shown.Subject == "item/7" &&
		string(shown.Data) == `{"id":"7","title":"Storm"}` && shown.ReceivedBy == 1 && shown.MissedBy == 2,
		"event = %+v", shown)
	for _, to := range shown.Recipients.Items {
		if to.DestinationID.String() == crm.ID {
			assert.True(t, to.Delivery != nil && to.Delivery.AttemptCount == 1 && to.Reason == nil &&
				*to.Delivery.LastAttempt.ResponseStatus == 503, "who got it: %+v", to)
			continue
		}
		why := reasons[to.DestinationID.String()]
		assert.True(t, to.Delivery == nil && query.Of(to.Reason) == why && to.Status == "enabled",
			"%+v, want %s", to, why)
	}
	for query, want := range map[string][2]int{
		"?received=true":                   {1, 1},
		"?received=false":                  {2, 2},
		"?received=false&limit=1":          {1, 2},
		"?offset=3":                        {0, 3},
		"?received=false&limit=5&offset=1": {1, 2},
	} {
		page := into[httpapi.EventDetail](t, 200, s.get(t, path+query))
		assert.True(t, len(page.Recipients.Items) == want[0] && page.Recipients.Total == want[1],
			"%s: %d of %d, want %v", query, len(page.Recipients.Items), page.Recipients.Total, want)
	}
}

// An organization sees its own events, those of its feeds, and those of feeds that are shared with it. Others are as if
// they were not there.
func TestEventsOfOneOrganization(t *testing.T) {
	s := serve(t)
	library, theirKey := s.Organization(t, "Library")
	feed := s.NewsFeed(t, library, "City")
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
	got := s.as(theirKey).get(t, "/events/deliveries?eventId="+own.String())
	assert.True(t, strings.Contains(got.body, `"items":[]`), "deliveries of another organization's event: %s", got.body)
	s.destination(t, "crm")
	for _, ref := range []string{"crm", "unknown"} {
		path := "/events/deliveries?destination=" + ref
		s.as(theirKey).get(t, path).refused(t, 404, "NOT_FOUND", "destination not found")
	}
	s.Share(t, "news", feed, s.org)
	has("", theirs, check, own)
	has("&feedId="+feed.String(), theirs)
}

// Data that was stored before its depth was bounded can be read, as deep as a JSON text can be.
func TestDeepDataCanBeRead(t *testing.T) {
	s := serve(t)
	id := s.published(t, s.subscribed(t, "crm").ID, command.Publish{Subject: `"data":0`})
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	s.exec(t, "UPDATE publications.publications SET data = $1 WHERE organization = $2", []byte(deep), s.org)
	got := s.send(t, s.api, request{path: "/events/deliveries/" + id}) // beside the contract, which can't read it
	assert.True(t, got.status == 200 && strings.Contains(got.body, `"data":`+deep+`}`) &&
		strings.Contains(got.body, `"subject":"\"data\":0"`), "answered %d, %d bytes", got.status, len(got.body))
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
		must.True(t, len(ids) < 1000, "%s has no end", path)
		must.Equal(t, page.Pagination.HasMore, page.Pagination.Until != nil,
			"%s: hasMore and until differ: %+v", next, page.Pagination)
		if page.Pagination.Until == nil {
			return ids
		}
		meanwhile()
		next = path + "&until=" + url.QueryEscape(*page.Pagination.Until)
	}
}

// publish publishes an event of the test's organization, or of a feed.
func (s *server) publish(t *testing.T, in command.Publish) uuid.UUID {
	t.Helper()
	if in.FeedID == uuid.Nil {
		in.Organization = s.org
	}
	return s.Publish(t, in)
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

// Each thing that was there when a walk began comes once, and none comes twice, whatever is published meanwhile, also
// before and between those that were read, and with equal times.
func TestStretchesUnderInserts(t *testing.T) {
	s := serve(t)
	crm, billing := s.subscribed(t, "crm"), s.subscribed(t, "billing")
	for limit := range 4 {
		day := time.Date(2026, 1, 1+limit, 12, 0, 0, 0, time.UTC)
		began := time.Now()
		var places []int // of what is published meanwhile, in hours
		publish := func(place int) uuid.UUID {
			return s.publish(t, command.Publish{Time: day.Add(time.Duration(place) * time.Hour)})
		}
		meanwhile := func() {
			if len(places) > 0 {
				publish(places[0])
				places = places[1:]
			}
		}
		var events []uuid.UUID
		var published, delivered []string
		for _, place := range []int{1, 2, 0, 1, 1, 2} {
			event := publish(place)
			events, published = append(events, event), append(published, event.String())
			for _, to := range []string{crm.ID, billing.ID} {
				delivered = append(delivered, dispatch.DeliveryID(event, uuid.MustParse(to)).String())
			}
		}
		s.shown(t, events, crm.ID)
		s.shown(t, events, billing.ID)
		window := fmt.Sprintf("?limit=%d&since=", limit+1)
		for path, want := range map[string][]string{
			"/events/events" + window + day.Format(time.RFC3339):                 published,
			"/events/deliveries" + window + began.UTC().Format(time.RFC3339Nano): delivered,
		} {
			places = []int{2, 1, 0, 3, 1}
			seen := map[string]int{}
			for _, id := range s.walk(t, path, meanwhile) {
				seen[id]++
				assert.Equal(t, seen[id], 1, "%s: %s came … times", path, id)
			}
			for _, id := range want {
				assert.Equal(t, seen[id], 1, "%s: %s came … times", path, id)
			}
		}
	}
}
