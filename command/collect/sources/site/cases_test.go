package site_test

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/sources/site"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// readCase reads a file as if a server had named its type only.
func readCase(t *testing.T, name, timezone string) []string {
	t.Helper()
	body := must.Get(os.ReadFile(filepath.Join("testdata", "cases", name)))(t)
	types := map[string]string{".jsonld": "application/ld+json", ".rss": "application/rss+xml"}
	return shownAs(t, types[filepath.Ext(name)], timezone, string(body))
}

// shown reads a body, and returns a line for each event.
func shown(t *testing.T, body string) []string {
	t.Helper()
	return shownAs(t, "", "", body)
}

func shownAs(t *testing.T, mediaType, timezone, body string) []string {
	t.Helper()
	page := &fetch.Page{
		URL:       &url.URL{Scheme: "https", Host: "x.example", Path: "/page"},
		MediaType: mediaType,
		Body:      []byte(body),
	}
	window := timing.WindowAt(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	result := must.Get(site.Read(t.Context(), page, collect.Source{Type: site.Type, Timezone: timezone}, window))(t)
	all := make([]string, 0, len(result.Observations))
	for _, o := range result.Observations {
		line := o.Details.Title + " | " + o.Details.Time.Timezone
		if l := o.Details.Location; l != nil {
			line += " | " + l.DisplayAddress
		}
		for _, instance := range o.Details.Instances {
			for _, c := range instance.Occurrences {
				line += " | " + c.Start.Format(time.RFC3339)
				if c.End != nil && !c.AllDay {
					line += "/" + c.End.Format("15:04")
				}
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

		"30-series-as-one-long-event/event-series.html": "Choir for all | Europe/London | Fox Inn, 4 Mill Lane, Leeds, GB" +
			" | 2026-03-05T18:00:00Z/20:00",
		"30-series-as-one-long-event/microdata.html": "Pottery course, Mondays | UTC | 2026-03-02T18:00:00Z/19:00",
		"32-page-beside-its-own-ical/clay.html": "Clay day | America/New_York | Kiln House, 5 Elm St Boston, MA, 02110" +
			" | 2026-12-09T15:00:00Z/18:00",
		"33-all-day-series-of-exchange/until.ics": "Market day | Europe/Berlin | 2026-02-02T23:00:00Z | " +
			"2026-02-09T23:00:00Z | 2026-02-16T23:00:00Z | 2026-02-23T23:00:00Z",
		"33-all-day-series-of-exchange/tokyo.ics": "Market day | Asia/Tokyo | 2026-02-02T15:00:00Z | " +
			"2026-02-09T15:00:00Z | 2026-02-16T15:00:00Z | 2026-02-23T15:00:00Z",
		"33-all-day-series-of-exchange/exdate.ics": "Fair | Europe/Berlin | 2026-02-02T23:00:00Z | 2026-02-16T23:00:00Z",
		"33-all-day-series-of-exchange/moved.ics": "Swap | Europe/Berlin | 2026-02-02T23:00:00Z | 2026-02-11T23:00:00Z | " +
			"2026-02-16T23:00:00Z",
		"34-time-only-in-the-text/mec.html": "Harbour Swing Night – \"late\" | Europe/Oslo | Pier Hall, Quay 3, Bergen, " +
			"Norway | 2026-04-17T17:00:00Z/21:30",
		"34-time-only-in-the-text/content.html":    "Harbour night | America/New_York | 2026-03-06T01:00:00Z",
		"38-title-as-summary/event-organiser.html": "Apple day | Etc/GMT-1 | 2026-10-03T10:00:00Z/14:00",
		"38-title-as-summary/govaccess.html": "Parks committee | America/Chicago | Town Hall, 10 Oak Ave, Clayton, Missouri" +
			" | 2026-03-12T23:30:00Z/01:00",
		"40-course-and-its-dates/course.html": "Welding | Europe/London | Fox Inn, 4 Mill Lane, Leeds, GB | " +
			"2026-03-05T18:00:00Z/20:00",
		"43-vcalendar-1/quoted.ics":                    "Fête au château | UTC | 2026-05-10T17:00:00Z",
		"44-digits-and-years-of-others/arabic.html":    "مهرجان | Etc/GMT-3 | 2026-03-05T16:00:00Z",
		"44-digits-and-years-of-others/fullwidth.html": "演奏会 | Asia/Tokyo | 2026-03-05T10:00:00Z",
		"47-calendars-without-charset/cp1251.ics": "Концерт духового оркестра | UTC | Дом культуры | " +
			"2026-05-06T17:00:00Z",
		"47-calendars-without-charset/gbk.ics": "新年音乐会 | UTC | 国家大剧院 | 2026-05-06T17:00:00Z",
		"48-what-yields-nothing/doc.jsonld":    "Doc event | Etc/GMT-1 | 2026-03-05T18:00:00Z",
		"48-what-yields-nothing/events.rss":    "Harbour Swing Night | UTC | Pier Hall | 2026-04-17T19:00:00Z/23:30",
		"48-what-yields-nothing/google-link.html": "Clay day | UTC | Kiln House, 5 Elm St | " +
			"2026-05-09T14:00:00Z/17:00",
		"48-what-yields-nothing/next-data.html": "Folk night | UTC | Back room, Leeds | 2026-03-13T20:00:00Z/22:00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timezone := map[string]string{
				"34-time-only-in-the-text/content.html":        "America/New_York",
				"44-digits-and-years-of-others/fullwidth.html": "Asia/Tokyo",
			}[name]
			assert.Same(t, readCase(t, name, timezone), []string{want})
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
		assert.Equal(t, strings.Join(shown(t, ld(block)), "\n"), want, "%s", block)
	}
}

// An instance without a name has that of the course that refers to it; broadcasts and editions are no events.
func TestInstancesAndBroadcasts(t *testing.T) {
	t.Parallel()
	const course = `{"@type": "Course", "name": "Welding", "hasCourseInstance": [{"@id": "#a"}]}`
	const instance = `{"@id": "#a", "@type": "CourseInstance", "startDate": "2026-03-05T19:00:00Z"}`
	const welding = "Welding | UTC | 2026-03-05T19:00:00Z"
	for graph, want := range map[string]string{
		course + ", " + instance: welding,
		instance + ", " + course: welding,
		`{"@type": "Book", "name": "Tides", "publication": {"@type": "PublicationEvent", "startDate": "2026-05-01"}}`: "",
		`{"@type": "VideoObject", "name": "Quiz", "publication": {"@type": "BroadcastEvent", "isLiveBroadcast": true,
			"startDate": "2026-03-05T19:00:00Z"}}`: "",
		`{"@type": ["BroadcastEvent", "MusicEvent"], "name": "Gala", "startDate": "2026-03-05T19:00:00Z"}`://
		"Gala | UTC | 2026-03-05T19:00:00Z",
	} {
		if got := strings.Join(shown(t, ld(`{"@context": "https://schema.org", "@graph": [`+graph+`]}`)), "\n"); got != want {
			t.Errorf("%s gives %q, want %q", graph, got, want)
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
		assert.Equal(t, strings.Join(shown(t, ld(fmt.Sprintf(event, place))), "\n"), want, "%s gives", place)
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
		assert.Equal(t, strings.Join(shown(t, body), "\n"), want, "%s gives", body)
	}
}

// TestBareEvents reads events that no markup names so, and leaves out what only looks like them.
func TestBareEvents(t *testing.T) {
	t.Parallel()
	const list = `<html><body><ul><li><h3><a href="/a">Jazz</a></h3><time datetime="%s">x</time></li>` +
		`<li><time datetime="%s">y</time> <a href="/b">Quiz</a></li></ul>`
	const data = `<html><body><script type="application/json">{"x": [{"title": "Jazz", ` +
		`"startDate": "2026-03-14T19:00:00Z"%s}]}</script>`
	for body, want := range map[string]string{
		fmt.Sprintf(list, "2026-03-14T19:00:00Z", "2026-01-02"): "Jazz | UTC | 2026-03-14T19:00:00Z\n" +
			"Quiz | UTC | 2026-01-02T00:00:00Z",
		fmt.Sprintf(list, "2025-12-14T19:00:00Z", "2026-01-02"): "", // posts

		strings.ReplaceAll(fmt.Sprintf(list, "2026-03-14T19:00:00Z", "2026-04-02"), "<time", `<time class="published"`): "",
		"<html><body><nav>" + fmt.Sprintf(list, "2026-03-14", "2026-04-02"):                                             "",
		fmt.Sprintf(data, ""): "", // a campaign
		fmt.Sprintf(data, `, "venue": {"name": "Hall", "city": "Leeds"}`): "Jazz | UTC | Hall, Leeds | 2026-03-14T19:00:00Z",
		`<html><body><a href="https://outlook.live.com/calendar/0/deeplink/compose?subject=Jazz&amp;startdt=` +
			`2026-03-14T19:00:00Z&amp;enddt=2026-03-14T21:00:00Z">Outlook</a>`: "Jazz | UTC | 2026-03-14T19:00:00Z/21:00",
		`<html><body><a href="https://calendar.google.com/calendar/render?action=TEMPLATE&amp;text=Fair&amp;dates=` +
			`20260314/20260316&amp;ctz=Europe/Rome">Google</a>`: //
		"Fair | Europe/Rome | 2026-03-13T23:00:00Z | 2026-03-14T23:00:00Z",
	} {
		assert.Equal(t, strings.Join(shown(t, body), "\n"), want, "%s gives", body)
	}
	rss := `<rss xmlns:ev="x"><channel><item><title>Jazz</title><link>/j</link>` +
		`<ev:startdate>2026-03-14T19:00:00Z</ev:startdate></item>` +
		`<item><title>News</title><link>https://x.example/n</link><pubDate>Mon, 05 Jan 2026 10:00:00 +0000</pubDate>` +
		`</item></channel></rss>`
	want := []string{"Jazz | UTC | 2026-03-14T19:00:00Z"}
	assert.Slices(t, shownAs(t, "application/rss+xml", "", rss), want, "a feed")
}

// A header names the versions of a page as its head does.
func TestVersionsInHeader(t *testing.T) {
	t.Parallel()
	page := &fetch.Page{
		URL: &url.URL{Scheme: "https", Host: "x.example", Path: "/de/jazz"},
		Header: http.Header{"Link": {`</style.css>; rel=preload; as=style, </en/jazz>; rel="alternate"; hreflang="en", ` +
			`<https://x.example/de/jazz>; rel="alternate"; hreflang="de"`, `</en/jazz>; hreflang=x-default; rel=alternate`}},
		Body: []byte(`<html><head><title>Jazz</title></head><body>` + ld(`{"@type": "Event", "name": "Jazz", "startDate": `+
			`"2026-03-14T19:00:00Z"}`)),
	}
	window := timing.WindowAt(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	for source, want := range map[string]happening.Standing{
		"https://x.example/events": happening.FromTranslation, "https://x.example/de/events": happening.FromOwnPage,
	} {
		result, err := site.Read(t.Context(), page, collect.Source{Type: site.Type, URL: source}, window)
		must.True(t, err == nil && len(result.Observations) == 1, "%v, %v", result, err)
		o := result.Observations[0]
		if diff := cmp.Diff([]string{"url:x.example/en/jazz", "url:x.example/de/jazz"}, o.Versions); diff != "" ||
			o.Standing != want {
			t.Errorf("standing %s, versions (-want +got):\n%s", o.Standing, diff)
		}
	}
}

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
		assert.Equal(t, strings.Join(shown(t, body), "\n"), want, "%s gives", body)
	}
}
