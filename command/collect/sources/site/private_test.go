package site_test

import (
	"encoding/json"
	"strings"
	"testing"

	"carillon/command/collect"
)

const (
	unlinked = `<html><head><title>Programme</title><script type="application/ld+json">[
{"@context":"https://schema.org","@type":"Event","name":"Jazz night","startDate":"2026-12-05T20:00"},
{"@context":"https://schema.org","@type":"Event","name":"Talk","startDate":"2026-12-06T20:00",` +
		`"eventAttendanceMode":"OnlineEventAttendanceMode"}
]</script></head><body></body></html>`
	unlinkedCalendar = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//x//EN\r\nBEGIN:VEVENT\r\nUID:1@example\r\n" +
		"SUMMARY:Jazz night\r\n" +
		"DTSTART:20261205T190000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)

// The address of a source may be a secret: a calendar's is never visible, and another page's query is not.
func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		media, body, path  string
		wantURL, wantBlock string
	}{
		"a page":     {"text/html", unlinked, "/events?token=s3cret&page=2", "/events", "/events"},
		"a calendar": {"text/calendar", unlinkedCalendar, "/private-s3cret/basic.ics?token=s3cret", "", "/"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, page(tt.media, tt.body))
			server := strings.TrimSuffix(s.source.URL, "/events")
			s.source.URL = server + tt.path
			read := s.collect(t, collect.State(nil))
			if len(read.Observations) == 0 {
				t.Fatalf("nothing was read: %v", read.Notes)
			}
			for _, o := range read.Observations {
				text, err := json.Marshal([]any{o.Details, o.Source})
				if err != nil || strings.Contains(string(text), "s3cret") {
					t.Errorf("%s (%v)", text, err)
				}
				want := tt.wantURL
				if want != "" {
					want = server + want
				}
				if o.Details.PrimaryURL != want || o.Source.URL != server+tt.wantBlock {
					t.Errorf("primary URL %q, source %q", o.Details.PrimaryURL, o.Source.URL)
				}
			}
		})
	}
}
