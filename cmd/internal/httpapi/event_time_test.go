package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"carillon/command"
	"carillon/command/webhook"
)

// A receiver that asks for missed events until its last event gets that event, too: its time is one text.
func TestEventTimeIsOneText(t *testing.T) {
	t.Parallel()
	s := serve(t)
	destination := s.destination(t, "crm")
	s.do(t, request{
		method: "POST",
		path:   destinationsPath + "/crm/subscriptions",
		body:   `{"eventTypes":["*"],"scopeKind":"all"}`,
	}).into(t, 201, new(any))
	for at, want := range map[time.Time]string{
		time.Date(2026, 10, 1, 12, 0, 0, 123_456_789, time.UTC): "2026-10-01T12:00:00.123456Z",
		time.Date(2026, 10, 2, 12, 0, 0, 0, time.UTC):           "2026-10-02T12:00:00.000000Z",
	} {
		id := s.published(t, destination.ID, command.Publish{Time: at})
		sent, err := webhook.Envelope{Time: at}.AppendJSON(nil)
		if err != nil {
			t.Fatal(err)
		}
		for where, text := range map[string]string{
			"the webhook": string(sent),
			"the detail":  s.do(t, request{path: "/events/deliveries/" + id}).body,
			"the row":     s.do(t, request{path: destinationsPath + "/crm/deliveries"}).body,
			"the event":   s.do(t, request{path: "/events/events?until=" + want}).body,
		} {
			if !strings.Contains(text, `"time":"`+want+`"`) {
				t.Errorf("%s: %s, want the time %s", where, text, want)
			}
		}
		var done struct {
			EventsScanned int `json:"eventsScanned"`
		}
		s.do(t, request{
			method: "POST",
			path:   destinationsPath + "/crm/backfill",
			body:   `{"since":"` + want + `","until":"` + want + `"}`,
		}).into(t, 200, &done)
		if done.EventsScanned != 1 {
			t.Errorf("a backfill until %s scanned %d events", want, done.EventsScanned)
		}
	}
}

// Events sort by their sequence as they were published, whatever their time, and it is one text wherever it is shown.
func TestSequenceIsThePlaceInTheLog(t *testing.T) {
	t.Parallel()
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
		s.do(t, request{path: "/events/deliveries/" + id}).into(t, 200, &detail)
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
			if got := s.do(t, request{path: path}); !strings.Contains(got.body, `"sequence":"`+sequence+`"`) {
				t.Errorf("%s: %s, want the sequence %s", path, got.body, sequence)
			}
		}
	}
}
