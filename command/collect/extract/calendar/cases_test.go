package calendar_test

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/extract/calendar"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/timing"
)

// TestCases reads small calendars, each with one mistake of real calendars.
func TestCases(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"01-floating-beside-zoned/dtend.ics":  "Test event, America/New_York: scheduled 2026-06-05T13:00/2026-06-05T14:00",
		"01-floating-beside-zoned/exdate.ics": "T, Europe/Berlin: scheduled 2026-01-05T18:00, scheduled 2026-01-19T18:00",
		"01-floating-beside-zoned/rdate.ics":  "T, Europe/Berlin: scheduled 2026-03-05T18:00, scheduled 2026-03-12T18:00",
		"01-floating-beside-zoned/recurrence-id.ics": "T, Europe/Berlin: scheduled 2026-03-05T18:00, " +
			"rescheduled 2026-03-12T19:00",
		"02-vtimezone-escaped-comma/outlook.ics": "T, Europe/Berlin: scheduled 2026-01-05T18:00/2026-01-05T20:00",
		"04-tzid-gmt/gmt.ics":                    "Time 0800-0900 GMT, GMT: scheduled 2026-05-07T08:00/2026-05-07T09:00",
		"04-tzid-gmt/x-wr.ics":                   "T, GMT: scheduled 2026-05-07T08:00",
		"05-merged-with-two-zones/days.ics": "State Fair, America/Chicago: scheduled 2026-08-02T05:00/2026-08-03T05:00, " +
			"scheduled 2026-08-04T05:00/2026-08-05T05:00, scheduled 2026-08-05T05:00/2026-08-06T05:00",
		"15-method-cancel/cancel.ics": "T, UTC: cancelled 2026-03-15T19:00",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := readAt(t, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), "", fixture(t, "cases/"+name))
			compare(t, instants(result.Observations), want)
			if len(result.Notes) != 0 {
				t.Errorf("notes %+v", result.Notes)
			}
		})
	}
}

// readAt reads a calendar at a time.
func readAt(t *testing.T, at time.Time, timezone, text string) candidate.Result {
	t.Helper()
	result, err := calendar.Read(budget.New(t.Context()), calendar.Page{
		URL:      &url.URL{Scheme: "https", Host: "kajhallen.example", Path: "/programme.ics"},
		Text:     string(calendar.Unfold([]byte(text))),
		Timezone: timezone,
		Window:   timing.WindowAt(at),
	})
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// instants lists for each observation its zone and its occurrences in UTC.
func instants(observations []collect.Observation) string {
	var b strings.Builder
	for _, o := range observations {
		fmt.Fprintf(&b, "%s, %s:", o.Details.Title, o.Details.Time.Timezone)
		separator := " "
		for _, instance := range o.Details.Instances {
			for _, c := range instance.Occurrences {
				fmt.Fprintf(&b, "%s%s %s", separator, instance.Status, c.Start.Format("2006-01-02T15:04"))
				if c.End != nil {
					fmt.Fprintf(&b, "/%s", c.End.Format("2006-01-02T15:04"))
				}
				separator = ", "
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// event returns a calendar of one event, with lines before it.
func event(before, lines string) string {
	return "BEGIN:VCALENDAR\n" + before + "\nBEGIN:VEVENT\nUID:1\nSUMMARY:T\n" + lines + "\nEND:VEVENT\nEND:VCALENDAR\n"
}

// TestFloatingFollowsStart covers properties that follow DTSTART, on its clock.
func TestFloatingFollowsStart(t *testing.T) {
	t.Parallel()
	const summer = "BEGIN:VEVENT\nUID:1\nSUMMARY:T\n"
	for _, c := range []struct{ name, text, want string }{
		{
			"end beside UTC", event("X-WR-TIMEZONE:Europe/Berlin", "DTSTART:20260605T090000Z\nDTEND:20260605T100000"),
			"T, Europe/Berlin: scheduled 2026-06-05T09:00/2026-06-05T10:00",
		},
		{
			"end beside the zone of another calendar", event("X-WR-TIMEZONE:Europe/Berlin",
				"DTSTART;TZID=Asia/Tokyo:20260605T190000\nDTEND:20260605T210000"),
			"T, Asia/Tokyo: scheduled 2026-06-05T10:00/2026-06-05T12:00",
		},
		{
			"period", event("", "DTSTART;TZID=Asia/Tokyo:20260605T190000\nDTEND:20260605T210000\n"+
				"RDATE;VALUE=PERIOD:20260606T190000/20260606T200000"),
			"T, Asia/Tokyo: scheduled 2026-06-05T10:00/2026-06-05T12:00, scheduled 2026-06-06T10:00/2026-06-06T11:00",
		},
		{
			"exceptions in UTC and in a zone",
			event("", "DTSTART;TZID=Asia/Tokyo:20260605T190000\nRRULE:FREQ=DAILY;COUNT=4\nEXDATE:20260606T100000Z\n"+
				"EXDATE;TZID=Asia/Seoul:20260607T190000"),
			"T, Asia/Tokyo: scheduled 2026-06-05T10:00, scheduled 2026-06-08T10:00",
		},
		{
			"a zone that the exception alone names",
			event("", "DTSTART:20260605T190000\nRRULE:FREQ=DAILY;COUNT=2\nEXDATE;TZID=Asia/Seoul:20260606T190000"),
			"T, UTC: scheduled 2026-06-05T19:00",
		},
		{
			"change without any zone", event("", "DTSTART;TZID=Asia/Tokyo:20260605T190000\nRRULE:FREQ=DAILY;COUNT=2\n"+
				"END:VEVENT\n"+
				summer+"RECURRENCE-ID:20260606T190000\nDTSTART:20260606T200000\nDTEND:20260606T210000"),
			"T, Asia/Tokyo: scheduled 2026-06-05T10:00, rescheduled 2026-06-06T11:00/2026-06-06T12:00",
		},
		{
			"a change alone", event("", "RECURRENCE-ID;TZID=Asia/Tokyo:20260606T190000\nDTSTART:20260606T200000\n"+
				"DTEND:20260606T210000"),
			"T, Asia/Tokyo: rescheduled 2026-06-06T11:00/2026-06-06T12:00",
		},
		{
			"a change in UTC of a start that floats",
			event("", "DTSTART;TZID=Asia/Tokyo:20260605T190000\nRRULE:FREQ=DAILY;COUNT=2\nEND:VEVENT\n"+
				summer+"RECURRENCE-ID:20260606T100000Z\nSTATUS:CANCELLED\nDTSTART:20260606T190000"),
			"T, Asia/Tokyo: scheduled 2026-06-05T10:00, cancelled 2026-06-06T10:00",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			result := readAt(t, time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), "", c.text)
			compare(t, instants(result.Observations), c.want)
		})
	}
}

// TestZoneSpellings covers the names of zones in calendars, and their effect on the calendar as a whole.
func TestZoneSpellings(t *testing.T) {
	t.Parallel()
	rules := func(id string) string {
		return "BEGIN:VTIMEZONE\nTZID:" + id + "\nBEGIN:STANDARD\nDTSTART:16010101T030000\nTZOFFSETFROM:+0200\n" +
			"TZOFFSETTO:+0100\n" +
			"RRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=10\nEND:STANDARD\nBEGIN:DAYLIGHT\nDTSTART:16010101T020000\n" +
			"TZOFFSETFROM:+0100\n" +
			"TZOFFSETTO:+0200\nRRULE:FREQ=YEARLY;BYDAY=-1SU;BYMONTH=3\nEND:DAYLIGHT\nEND:VTIMEZONE"
	}
	for _, c := range []struct{ before, start, zone, at string }{
		{rules(`Our\, zone`), `;TZID="Our, zone"`, "Europe/Berlin", "18:00"},
		{rules(`Our\, zone`), `;TZID=Our\, zone`, "Europe/Berlin", "18:00"},
		{rules(`Our\, zone`), `;TZID=our, ZONE`, "Europe/Berlin", "18:00"},
		{rules(`"Our, zone"`), `;TZID=Our, zone`, "Europe/Berlin", "18:00"},
		{rules(`(UTC+01:00) Ours`), `;VALUE=DATE-TIME;TZID=(UTC+01:00) Ours`, "Europe/Berlin", "18:00"},
		{"", `;TZID=(UTC+01:00) Amsterdam, Berlin, Bern, Rome, Stockholm, Vienna`, "Europe/Berlin", "18:00"},
		{"", `;TZID="(GMT-05:00) Eastern Time (US & Canada)"`, "America/New_York", "00:00"},
		{"", ";TZID=(GMT+01:00)", "Etc/GMT-1", "19:00"},
		{"", ";TZID=UTC+02:00", "Etc/GMT-2", "18:00"},
		{"", ";TZID=europe/berlin", "Europe/Berlin", "18:00"},
		{"", ";TZID=Europe/Berlin 1", "Europe/Berlin", "18:00"},
		{"", ";TZID=W. Europe Standard Time 2", "Europe/Berlin", "18:00"},
		{"", ";TZID=(GMT+02:00) Athen, Bukarest", "Etc/GMT-2", "18:00"},
		{"X-WR-TIMEZONE:W. Europe Standard Time", "", "Europe/Berlin", "18:00"},
		{"TIMEZONE-ID:Europe/Berlin", "", "Europe/Berlin", "18:00"},
		{"X-WR-TIMEZONE:Mars/Base\nTIMEZONE-ID:Europe/Berlin", "", "Europe/Berlin", "18:00"},
		{rules("Our zone"), "", "Europe/Berlin", "18:00"},
		{"X-WR-TIMEZONE:Our zone\n" + rules("Our zone") + "\n" + strings.ReplaceAll(rules("Other"), "+0", "+1"), "",
			"Europe/Berlin", "18:00"},
		{rules("Our zone") + "\n" + rules("Other"), "", "UTC", "20:00"},
	} {
		t.Run(c.before+c.start, func(t *testing.T) {
			t.Parallel()
			text := event(c.before, "DTSTART"+c.start+":20260705T200000")
			result := readAt(t, time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), "", text)
			day := "05"
			if c.at == "00:00" {
				day = "06"
			}
			compare(t, instants(result.Observations), fmt.Sprintf("T, %s: scheduled 2026-07-%sT%s", c.zone, day, c.at))
		})
	}
	t.Run("a time in the form of ISO 8601", func(t *testing.T) {
		t.Parallel()
		result := readAt(t, now, "", event("", "DTSTART;TZID=Europe/Berlin:2026-12-05T19:00:00"))
		compare(t, instants(result.Observations), "T, Europe/Berlin: scheduled 2026-12-05T18:00")
	})
	t.Run("unknown", func(t *testing.T) {
		t.Parallel()
		for tzid, note := range map[string]string{
			"Mars/Base": `the calendar's timezone "Mars/Base" is unknown: its times are read as those that ` +
				`name none`,
			"(GMT+01:00) My office": `the calendar's timezone "(GMT+01:00) My office" is unknown but for its offset, which ` +
				`is taken`,
		} {
			result := readAt(t, now, "", event("", "DTSTART;TZID="+tzid+":20261205T190000"))
			if len(result.Notes) == 0 || result.Notes[0].Text != note {
				t.Errorf("%s: notes %+v", tzid, result.Notes)
			}
		}
	})
}

// TestClockChanges covers the nights of clock changes: no end is lost, and none precedes its start.
func TestClockChanges(t *testing.T) {
	t.Parallel()
	const berlin = ";TZID=Europe/Berlin:"
	for _, c := range []struct{ name, lines, want string }{
		{"end in the gap", "DTSTART" + berlin + "20260329T013000\nDTEND" + berlin + "20260329T023000",
			"03-29T00:30/03-29T01:30"},
		{"start in the gap", "DTSTART" + berlin + "20260329T023000\nDTEND" + berlin + "20260329T030000",
			"03-29T01:30/03-29T02:00"},
		{"at the gap", "DTSTART" + berlin + "20260329T020000\nDTEND" + berlin + "20260329T030000", "03-29T01:00/03-29T02:00"},
		{"end in UTC", "DTSTART" + berlin + "20260329T023000\nDTEND:20260329T023000Z", "03-29T01:30/03-29T02:30"},
		{"hours that pass", "DTSTART" + berlin + "20261025T023000\nDURATION:PT1H", "10-25T00:30/10-25T01:30"},
		{"second hour in UTC", "DTSTART" + berlin + "20261025T023000\nDTEND:20261025T011500Z", "10-25T00:30/10-25T01:15"},
		{"both in UTC", "DTSTART:20261025T003000Z\nDTEND:20261025T011500Z", "10-25T00:30/10-25T01:15"},
		{"starts in the second hour", "DTSTART:20261025T013000Z\nDTEND" + berlin + "20261025T030000",
			"10-25T01:30/10-25T02:00"},
		{
			"a series over the gap", "DTSTART" + berlin + "20260322T023000\nDTEND" + berlin +
				"20260322T030000\nRRULE:FREQ=WEEKLY;COUNT=3",
			"03-22T01:30/03-22T02:00 03-29T01:30/03-29T02:00 04-05T00:30/04-05T01:00",
		},
		{
			"a series of hours over the second hour", "DTSTART" + berlin +
				"20261018T013000\nDURATION:PT1H\nRRULE:FREQ=WEEKLY;COUNT=3",
			"10-17T23:30/10-18T00:30 10-24T23:30/10-25T00:30 11-01T00:30/11-01T01:30",
		},
		{
			"a series that ends in the second hour", "DTSTART" + berlin +
				"20261025T023000\nDTEND:20261025T013000Z\nRRULE:FREQ=WEEKLY;COUNT=2",
			"10-25T00:30/10-25T01:30 11-01T01:30/11-01T02:30",
		},
		{
			"a series of hours over the gap", "DTSTART" + berlin + "20260321T220000\nDURATION:PT6H\nRRULE:FREQ=WEEKLY;COUNT=2",
			"03-21T21:00/03-22T03:00 03-28T21:00/03-29T03:00",
		},
		{
			"a series that begins over the gap",
			"DTSTART" + berlin + "20260328T220000\nDTEND" + berlin + "20260329T040000\nRRULE:FREQ=WEEKLY;COUNT=2",
			"03-28T21:00/03-29T02:00 04-04T20:00/04-05T01:00",
		},
		{
			"a series by the clock over the gap", "DTSTART" + berlin + "20260321T220000\nDTEND" + berlin +
				"20260322T040000\nRRULE:FREQ=WEEKLY;COUNT=2",
			"03-21T21:00/03-22T03:00 03-28T21:00/03-29T02:00",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			result := readAt(t, time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), "Europe/Berlin", event("", c.lines))
			got := strings.TrimPrefix(instants(result.Observations), "T, Europe/Berlin: ")
			got = strings.ReplaceAll(strings.ReplaceAll(strings.ReplaceAll(got, "scheduled ", ""), "2026-", ""), ",", "")
			compare(t, got, c.want)
		})
	}
}

// TestMethodCancel applies calendars that cancel to the others in the file.
func TestMethodCancel(t *testing.T) {
	t.Parallel()
	published := event("METHOD:PUBLISH", "SEQUENCE:2\nDTSTART:20260615T190000Z\nRRULE:FREQ=DAILY;COUNT=2")
	for _, c := range []struct{ name, text, want string }{
		{"one date", event("METHOD:Cancel", "RECURRENCE-ID:20260616T190000Z\nSEQUENCE:3"),
			"scheduled 2026-06-15T19:00, cancelled 2026-06-16T19:00"},
		{"all", event("METHOD:CANCEL", "SEQUENCE:2"), "cancelled 2026-06-15T19:00, cancelled 2026-06-16T19:00"},
		{"an older version", event("METHOD:CANCEL", "SEQUENCE:1"), "scheduled 2026-06-15T19:00, scheduled 2026-06-16T19:00"},
		{"nothing", event("METHOD:REQUEST", "SEQUENCE:2\nDTSTART:20260615T190000Z"),
			"scheduled 2026-06-15T19:00, scheduled 2026-06-16T19:00"},
	} {
		for _, text := range []string{published + c.text, c.text + published} {
			result := readAt(t, time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC), "", text)
			if got := strings.TrimSpace(instants(result.Observations)); got != "T, UTC: "+c.want {
				t.Errorf("%s: %s, want %s", c.name, got, c.want)
			}
		}
	}
}

// TestVersions passes SEQUENCE on: a start that moves is rescheduled, see package happening.
func TestVersions(t *testing.T) {
	t.Parallel()
	for version, name := range []string{"state0.ics", "state1.ics"} {
		observations := readAt(t, now, "", fixture(t, "cases/24-moved-with-sequence/"+name)).Observations
		if len(observations) != 1 || observations[0].Version != version {
			t.Errorf("%s gives %+v", name, observations)
		}
	}
}
