package structured_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"carillon/command/collect/extract/structured"
	"carillon/command/collect/extract/timing"
	"carillon/eventstore/storetest/assert"
)

// TestCasesOfTimes reads small pages, each with one mistake of real pages.
func TestCasesOfTimes(t *testing.T) {
	t.Parallel()
	const york = "America/New_York"
	for _, c := range []struct{ name, timezone, want string }{
		{"05-merged-with-two-zones/hours.html", "", "Fair, America/Chicago: 2026-08-03T00:00, 2026-08-05T00:00"},
		{
			"06-eventschedule-loses-offset/schedule.html", "",
			"Course, Etc/GMT-1: 2026-03-02T18:00/20:00, 2026-03-09T18:00/20:00, 2026-03-16T18:00/20:00",
		},
		{"06-eventschedule-loses-offset/schedule2.html", "", "Course, Etc/GMT-1: 2026-03-02T18:00, 2026-03-09T18:00, " +
			"2026-03-16T18:00"},
		{
			"06-eventschedule-loses-offset/schedule3.html", "",
			"Course, Etc/GMT-1: 2026-03-02T18:00/20:00, 2026-03-09T18:00/20:00, 2026-03-16T18:00/20:00",
		},
		{"07-microdata-utc-beside-visible-time/board.html", york, "Board Meeting, America/New_York: 2026-12-14T13:00"},
		{"08-eventon-offset/eventon.html", york, "Board Meeting, America/New_York: 2026-05-27T20:30/22:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			compareTimes(t, c.timezone, fixture(t, "cases/"+c.name), c.want)
		})
	}
}

// compareTimes reads a page and compares the zone, the starts and the ends, in UTC, of its events.
func compareTimes(t *testing.T, timezone, html, want string) {
	t.Helper()
	result := readPage(t, structured.Page{
		URL:      &url.URL{Scheme: "https", Host: "venue.example", Path: "/e"},
		Timezone: timezone,
		Window:   timing.WindowAt(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)),
	}, html)
	var all []string
	for _, o := range result.Observations {
		var times []string
		for _, instance := range o.Details.Instances {
			for _, c := range instance.Occurrences {
				text := c.Start.Format("2006-01-02T15:04")
				if c.End != nil {
					text += c.End.Format("/15:04")
				}
				times = append(times, text)
			}
		}
		all = append(all, fmt.Sprintf("%s, %s: %s", o.Details.Title, o.Details.Time.Timezone, strings.Join(times, ", ")))
	}
	assert.Equal(t, strings.Join(all, "\n"), want, "Join")
	for _, n := range result.Notes {
		assert.True(t, !strings.Contains(n.Text, "is assumed"), "note %q", n.Text)
	}
}

// jsonld returns a page of one event, course by name.
func jsonld(members string) string {
	return `<script type="application/ld+json">{"@context":"https://schema.org","@type":"Event","name":"Course",` +
		members + `}</script>`
}

// TestScheduleOffsets covers the offset of a schedule, and its meaning at clock changes.
func TestScheduleOffsets(t *testing.T) {
	t.Parallel()
	const berlin = "Europe/Berlin"
	const rule = `"@type":"Schedule","repeatFrequency":"P1W","startDate":"2026-03-23","endDate":"2026-03-30"`
	for _, c := range []struct{ name, timezone, members, want string }{
		{
			"of the event, over a change of clocks", berlin, `"startDate":"2026-03-23T19:00:00+01:00","eventSchedule":{` + rule +
				`,"startTime":"19:00"}`,
			"Course, Europe/Berlin: 2026-03-23T18:00, 2026-03-30T17:00",
		},
		{
			"unknown time zone", "", `"startDate":"2026-03-23T19:00:00+01:00","eventSchedule":{` + rule +
				`,"startTime":"19:00"}`,
			"Course, Etc/GMT-1: 2026-03-23T18:00, 2026-03-30T18:00",
		},
		{
			"of the start time, elsewhere than the source", berlin, `"eventSchedule":{` + rule +
				`,"startTime":"19:00-05:00","endTime":"20:00-05:00"}`,
			"Course, Etc/GMT+5: 2026-03-24T00:00/01:00, 2026-03-31T00:00/01:00",
		},
		{
			"UTC of the event beside a local time", berlin, `"startDate":"2026-03-23T18:00:00Z","eventSchedule":{` + rule +
				`,"startTime":"19:00"}`,
			"Course, Europe/Berlin: 2026-03-23T18:00, 2026-03-30T17:00",
		},
		{
			"UTC of its own start", berlin,
			`"eventSchedule":{"@type":"Schedule","repeatFrequency":"P1W","startDate":"2026-03-23T18:00:00Z",` +
				`"endDate":"2026-03-30"}`,
			"Course, Europe/Berlin: 2026-03-23T18:00, 2026-03-30T17:00",
		},
		{
			"a zone that is named", "", `"startDate":"2026-03-23T19:00:00Z","eventSchedule":{` + rule +
				`,"startTime":"19:00","scheduleTimezone":"Europe/Berlin"}`,
			"Course, Europe/Berlin: 2026-03-23T18:00, 2026-03-30T17:00",
		},
		{
			"exceptions in UTC", "", `"eventSchedule":{` + rule +
				`,"startTime":"19:00+01:00","exceptDate":"2026-03-30T18:00:00Z"}`,
			"Course, Etc/GMT-1: 2026-03-23T18:00",
		},
		{
			"without a beginning", "", `"eventSchedule":{"@type":"Schedule","byDay":"Monday","startTime":"19:00+01:00",` +
				`"endDate":"2026-02-08"}`,
			"Course, Etc/GMT-1: 2026-02-02T18:00",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			compareTimes(t, c.timezone, jsonld(c.members), c.want)
		})
	}
}

// TestVisibleTimes covers times without an offset whose elements show another one to people.
func TestVisibleTimes(t *testing.T) {
	t.Parallel()
	page := func(start, place string) string {
		return `<div itemscope itemtype="http://schema.org/Event"><h1 itemprop="name">Board</h1>` + start + place + `</div>`
	}
	const york = "America/New_York"
	const ohio = `<p itemprop="location" itemscope itemtype="http://schema.org/Place"><span itemprop="address" ` +
		`itemscope ` +
		`itemtype="http://schema.org/PostalAddress"><span itemprop="addressLocality">Cleveland</span>, <span ` +
		`itemprop="addressRegion">Ohio` +
		`</span>, <span itemprop="addressCountry">US</span></span></p>`
	for _, c := range []struct{ name, timezone, page, want string }{
		{"a time alone", york, page(`<b itemprop="startDate" content="2026-12-14T13:00">8:00 am</b>`, ""),
			"Board, America/New_York: 2026-12-14T13:00"},
		{"an hour alone", york, page(`<b itemprop="startDate" content="2026-12-14T13:00:00">8am</b>`, ""),
			"Board, America/New_York: 2026-12-14T13:00"},
		{
			"the zone of the place", "", page(`<b itemprop="startDate" content="2026-12-14T13:00">8:00 AM</b>`, ohio),
			"Board, America/New_York: 2026-12-14T13:00",
		},
		{"a time element", york, page(`<time itemprop="startDate" datetime="2026-07-14T12:00">8:00 a.m.</time>`, ""),
			"Board, America/New_York: 2026-07-14T12:00"},
		{
			"the day before", york, page(`<b itemprop="startDate" content="2026-12-15T01:00">December 14, 2026 8:00 PM</b>`, ""),
			"Board, America/New_York: 2026-12-15T01:00",
		},
		{
			"with its end", york,
			page(`<b itemprop="startDate" content="2026-12-14T13:00">8:00 AM</b><b itemprop="endDate" `+
				`content="2026-12-14T14:00">9:00 AM</b>`, ""),
			"Board, America/New_York: 2026-12-14T13:00/14:00",
		},
		{
			"RDFa", york, `<div vocab="http://schema.org/" typeof="Event"><h1 property="name">Board</h1>` +
				`<b property="startDate" content="2026-12-14T13:00">Mon, Dec 14 @ 8:00 am - 9:00 am EST</b></div>`,
			"Board, America/New_York: 2026-12-14T13:00",
		},
		{"24 hours", "Europe/Berlin", page(`<b itemprop="startDate" content="2026-07-14T17:00">14.07.2026, 19.00 Uhr</b>`,
			""), "Board, Europe/Berlin: 2026-07-14T17:00"},
		{"the same time", york, page(`<b itemprop="startDate" content="2026-12-14T13:00">1:00 PM</b>`, ""),
			"Board, America/New_York: 2026-12-14T18:00"},
		{"a time that no offset explains", york, page(`<b itemprop="startDate" content="2026-12-14T20:00">Doors 7:00 PM</b>`,
			""), "Board, America/New_York: 2026-12-15T01:00"},
		{"another day", york, page(`<b itemprop="startDate" content="2026-12-14T13:00">December 10, 2026 8:00 AM</b>`, ""),
			"Board, America/New_York: 2026-12-14T18:00"},
		{"no time", york, page(`<b itemprop="startDate" content="2026-12-14T13:00">December 14, 2026</b>`, ""),
			"Board, America/New_York: 2026-12-14T18:00"},
		{"an offset", york, page(`<b itemprop="startDate" content="2026-12-14T13:00-05:00">8:00 AM</b>`, ""),
			"Board, America/New_York: 2026-12-14T18:00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			compareTimes(t, c.timezone, c.page, c.want)
		})
	}
}

// TestMergedZones combines candidates of one event in one zone, even if not all of them have a place.
func TestMergedZones(t *testing.T) {
	t.Parallel()
	event := func(members string) string {
		return `{"@type":"Event","name":"Fair","url":"https://venue.example/e/fair",` + members + `}`
	}
	page := func(events ...string) string {
		return `<script type="application/ld+json">{"@context":"https://schema.org","@graph":[` + strings.Join(events, ",") +
			`]}</script>`
	}
	const salem = `,"location":{"@type":"Place","name":"Grill","address":{"@type":"PostalAddress",` +
		`"addressLocality":"Salem","addressRegion":"WI","addressCountry":"US"}}`
	const grill = `,"location":{"@type":"Place","name":"Grill"}`
	for _, c := range []struct{ name, timezone, page, want string }{
		{
			"the place comes last", "", page(event(`"startDate":"2026-08-02T19:00"`+grill),
				event(`"startDate":"2026-08-04T19:00"`+salem)),
			"Fair, America/Chicago: 2026-08-03T00:00, 2026-08-05T00:00",
		},
		{
			"a source at home elsewhere", "Europe/Berlin", page(event(`"startDate":"2026-08-02T19:00"`+salem),
				event(`"startDate":"2026-08-04"`+grill)),
			"Fair, America/Chicago: 2026-08-03T00:00, 2026-08-04T05:00/05:00",
		},
		{
			"an offset stays", "", page(event(`"startDate":"2026-08-02T19:00"`+salem),
				event(`"startDate":"2026-08-04T19:00Z"`+grill)),
			"Fair, America/Chicago: 2026-08-03T00:00, 2026-08-04T19:00",
		},
		{
			"one that names a zone of its own", "",
			page(event(`"startDate":"2026-08-02T19:00"`+salem),
				event(`"startDate":"2026-08-04T19:00","timezone":"America/New_York"`+grill)),
			"Fair, America/New_York: 2026-08-02T23:00, 2026-08-04T23:00",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			compareTimes(t, c.timezone, c.page, c.want)
		})
	}
}
