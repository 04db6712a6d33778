package site_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/sources/site"
)

// readCase reads a file as if a server had named its type only.
func readCase(t *testing.T, name string) []string {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", "cases", name))
	if err != nil {
		t.Fatal(err)
	}
	return shown(t, string(body))
}

// shown reads a body, and returns a line for each event.
func shown(t *testing.T, body string) []string {
	t.Helper()
	page := &fetch.Page{URL: &url.URL{Scheme: "https", Host: "x.example", Path: "/page"}, Body: []byte(body)}
	window := timing.WindowAt(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	result, err := site.Read(t.Context(), page, collect.Source{Type: site.Type}, window)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, o := range result.Observations {
		line := o.Details.Title + " | " + o.Details.Time.Timezone
		if l := o.Details.Location; l != nil {
			line += " | " + l.DisplayAddress
		}
		for _, instance := range o.Details.Instances {
			for _, c := range instance.Occurrences {
				line += " | " + c.Start.Format(time.RFC3339)
			}
		}
		all = append(all, line)
	}
	return all
}

// TestCases reads rewritten mistakes of real calendars and pages.
func TestCases(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"alias.html":     "Jazz Night | Etc/GMT-1 | 2026-03-14T18:00:00Z",
		"cut.ics":        "Fête de la Musique | UTC | 2026-03-15T19:00:00Z",
		"contained.html": "Talk | Europe/Berlin | Room 5, Big House, Main 1, Berlin, DE | 2026-03-14T18:00:00Z",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff([]string{want}, readCase(t, name)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAliasesOfSchemaOrg(t *testing.T) {
	t.Parallel()
	const rest, jazz = `"name": "Jazz", "startDate": "2026-03-14T19:00:00Z"`, "Jazz | UTC | 2026-03-14T19:00:00Z"
	for block, want := range map[string]string{
		`{"@context": ["https://schema.org", {"@language": "en"}], "type": ["Thing", "MusicEvent"], ` + rest + `}`: jazz,
		`{"@context": "http://schema.org/", "@graph": [{"type": "Event", "id": "#a", ` + rest + `,
			"location": {"id": "#hall"}}, {"type": "Place", "id": "#hall", "name": "Hall"}]}`: //
		"Jazz | UTC | Hall | 2026-03-14T19:00:00Z",
		`{"@context": {"@vocab": "https://schema.org/", "type": "https://schema.org/additionalType"},
			"type": "Event", ` + rest + `}`: "",
		`{"@context": "https://schema.org", "@type": "Place", "type": "Event", ` + rest + `}`: "",
		`{"@context": "https://schema.org", "@type": "Event", "id": "7", ` + rest + `}`:       jazz,
	} {
		if got := strings.Join(shown(t, ld(block)), "\n"); got != want {
			t.Errorf("%s gives %q, want %q", block, got, want)
		}
	}
}

func TestHouseAroundRoom(t *testing.T) {
	t.Parallel()
	const event = `{"@type": "Event", "name": "Talk", "startDate": "2026-03-14T19:00:00+01:00", "location": {"@type": ` +
		`"Place", %s}}`
	for place, want := range map[string]string{
		`"name": "Room 5", "containedInPlace": {"name": "West Wing", "containedInPlace":
			{"name": "Big House", "address": "Main 1, 10115 Berlin, Germany"}}`: //
		"Europe/Berlin | Room 5, West Wing, Big House, Main 1, 10115 Berlin, Germany",
		`"name": "Big House", "address": {"streetAddress": "Main 1"}, "containedInPlace":
			{"@type": "City", "name": "Berlin", "containedInPlace": {"@type": "Country", "name": "Germany"}}`: //
		"Europe/Berlin | Big House, Main 1, Berlin, Germany",
		`"containedInPlace": {"name": "Big House", "address": {"addressCountry": "DE"}}`://
		"Europe/Berlin | Big House, DE",
		`"@id": "#a", "name": "Room", "containedInPlace": {"@id": "#a"}`: "Etc/GMT-1 | Room",
		`"name": "Room", "address": {"addressLocality": "Wien", "addressCountry": "AT"}, "containedInPlace":
			{"name": "Ring", "address": {"addressLocality": "Berlin", "addressCountry": "DE"}}`: //
		"Europe/Vienna | Room, Ring, Wien, AT",
		`"name": "Room", "containedInPlace": {"name": "Ring", "geo": {"latitude": 52.52, "longitude": 13.4}}`://
		"Europe/Berlin | Room, Ring",
	} {
		want = "Talk | " + want + " | 2026-03-14T18:00:00Z"
		if got := strings.Join(shown(t, ld(fmt.Sprintf(event, place))), "\n"); got != want {
			t.Errorf("%s gives\n%q, want\n%q", place, got, want)
		}
	}
}

// Templates write false, an empty value or a lone 0 for a missing value.
func TestAbsentValues(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		ld(`{"@type": "Event", "name": "Jazz", "startDate": "2026-03-14T19:00:00Z", "endDate": false, "eventSchedule": "",
			"location": {"@type": "Place", "name": "Hall",
				"address": {"streetAddress": false, "addressLocality": "0", "addressCountry": 0}},
			"description": "0", "image": false, "url": 0, "organizer": false, "maximumAttendeeCapacity": 0}`): //
		"Jazz | UTC | Hall | 2026-03-14T19:00:00Z",
		ld(`{"@type": "Festival", "name": "Whole", "startDate": "2026-03-14", "location": {"@type": "Place", "name": "Hall"},
			"subEvent": {"@type": "Event", "name": "Part", "startDate": "2026-03-14T19:00:00Z", "location": false}}`): //
		"Whole | UTC | Hall | 2026-03-14T00:00:00Z\nPart | UTC | Hall | 2026-03-14T19:00:00Z",
		`<html><body><div itemscope itemtype="https://schema.org/Event"><h1 itemprop="name">Jazz</h1>
			<meta itemprop="startDate" content="2026-03-14T19:00:00Z">
			<meta itemprop="location" content="0"><meta itemprop="url" content="false">
			</div></body></html>`: "Jazz | UTC | 2026-03-14T19:00:00Z",
		"BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:0\nSUMMARY:Jazz\nDTSTART:20260314T190000Z\nDTEND:\n" +
			"LOCATION:false\nURL:0\nRECURRENCE-ID:\nRRULE:\nEND:VEVENT\nEND:VCALENDAR\n": //
		"Jazz | UTC | 2026-03-14T19:00:00Z",
	} {
		if got := strings.Join(shown(t, body), "\n"); got != want {
			t.Errorf("%s gives\n%q, want\n%q", body, got, want)
		}
	}
}
