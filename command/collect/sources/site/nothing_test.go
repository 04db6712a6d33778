package site_test

import (
	"strings"
	"testing"
)

// TestNoSuchThing reads what stands for nothing, and what stands in another thing's place.
func TestNoSuchThing(t *testing.T) {
	t.Parallel()
	const start = `"name": "Jazz", "startDate": "2026-03-14T19:00:00Z"`
	calendar := func(lines string) string {
		return "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nDTSTART:20260314T190000Z\n" + lines + "\nEND:VEVENT\nEND:VCALENDAR\n"
	}
	for body, want := range map[string]string{
		calendar("SUMMARY:Busy"):                           "",
		calendar("SUMMARY:Busy\nDESCRIPTION:Bee"):          "Busy | UTC | 2026-03-14T19:00:00Z",
		calendar("SUMMARY:Jazz\nLOCATION:No location set"): "Jazz | UTC | 2026-03-14T19:00:00Z",
		calendar("SUMMARY:Jazz\nLOCATION:Zoom meeting: https://us02web.zoom.us/j/1")://
		"Jazz | UTC | Online | 2026-03-14T19:00:00Z",
		calendar("SUMMARY:Jazz\nLOCATION:Hall 5\\, https://us02web.zoom.us/j/1")://
		"Jazz | UTC | Hall 5 | 2026-03-14T19:00:00Z",
		`<html><body><div xmlns:v="http://rdf.data-vocabulary.org/#" typeof="v:Event"><b property="v:summary">Jazz</b>` +
			`<i property="v:startDate" content="2026-03-14T19:00:00Z">14 March</i></div>`: "Jazz | UTC | 2026-03-14T19:00:00Z",
		ld(`{"@type": "Event", ` + start + `, "location": {"@type": "Place", "name": "null"}}`)://
		"Jazz | UTC | 2026-03-14T19:00:00Z",
		ld(`{"@type": "Event", ` + start + `, "location": {"@type": "Place", "name": "https://zoom.us/j/1"}}`)://
		"Jazz | UTC | Online | 2026-03-14T19:00:00Z",
		ld(`{"@type": "Event", ` + start + `, "location": {"@type": "Place", "name": "Hall", "address": {"streetAddress":
			"Berliner Straße 5", "addressLocality": "Berlin", "addressCountry": "DE"}}}`): //
		"Jazz | Europe/Berlin | Hall, Berliner Straße 5, Berlin, DE | 2026-03-14T19:00:00Z",
	} {
		if got := strings.Join(shown(t, body), "\n"); got != want {
			t.Errorf("%s gives\n%q, want\n%q", body, got, want)
		}
	}
}
