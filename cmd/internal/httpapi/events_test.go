package httpapi_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/command/webhook"
	"carillon/eventstore/storetest/must"
	"carillon/projections/feeds"
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
			if !strings.Contains(text, `"time":"`+want+`"`) {
				t.Errorf("%s: %s, want the time %s", where, text, want)
			}
		}
		var done struct {
			EventsScanned int `json:"eventsScanned"`
		}
		s.post(t, destinationsPath+"/crm/backfill", `{"since":"`+want+`","until":"`+want+`"}`).into(t, 200, &done)
		if done.EventsScanned != 1 {
			t.Errorf("a backfill until %s scanned %d events", want, done.EventsScanned)
		}
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
		if len(sequence) != 20 || sequence <= before {
			t.Fatalf("the sequence after %q is %q", before, sequence)
		}
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
	apitest.Eventually(t, "the record has all three", func() bool {
		shown := into[eventView](t, 200, s.get(t, path))
		return len(shown.Recipients.Items) == 3
	})
	shown := into[eventView](t, 200, s.get(t, path))
	if shown.ID != event.String() || *shown.Subject != "item/7" || shown.Data["title"] != "Storm" ||
		shown.Received != 1 || shown.Missed != 2 {
		t.Errorf("event = %+v", shown)
	}
	for _, to := range shown.Recipients.Items {
		if to.DestinationID == crm.ID {
			if to.Delivery == nil || to.Delivery.AttemptCount != 1 || to.Reason != nil ||
				*to.Delivery.LastAttempt.ResponseStatus != 503 {
				t.Errorf("who got it: %+v", to)
			}
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
		if len(page.Recipients.Items) != want[0] || page.Recipients.Total != want[1] {
			t.Errorf("%s: %d of %d, want %v", query, len(page.Recipients.Items), page.Recipients.Total, want)
		}
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
		if !slices.Equal(got, ids) {
			t.Errorf("%s: %v, want %v", query, got, ids)
		}
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
	if !strings.Contains(got.body, `"items":[]`) {
		t.Errorf("deliveries of another organization's event: %s", got.body)
	}
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
	if body := w.Body.String(); w.Code != 200 || !strings.Contains(body, `"data":`+deep+`}`) ||
		!strings.Contains(body, `"subject":"\"data\":0"`) {
		t.Errorf("answered %d, %d bytes", w.Code, len(body))
	}
}
