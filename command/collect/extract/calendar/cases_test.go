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
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
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
			assert.Equal(t, len(result.Notes), 0, "notes %+v", result.Notes)
		})
	}
}

// readAt reads a calendar at a time.
func readAt(t *testing.T, at time.Time, timezone, text string) candidate.Result {
	t.Helper()
	b := budget.New(t.Context())
	page, found, notes := calendar.Candidates(b, calendar.Page{
		URL:      &url.URL{Scheme: "https", Host: "kajhallen.example", Path: "/programme.ics"},
		Text:     string(calendar.Unfold([]byte(text))),
		Timezone: timezone,
		Window:   timing.WindowAt(at),
	})
	result := candidate.Observe(b, page, found, notes)
	must.OK(t, b.Err())
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
			assert.True(t, len(result.Notes) != 0 && result.Notes[0].Text == note, "%s: notes %+v", tzid, result.Notes)
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
			assert.Equal(t, strings.TrimSpace(instants(result.Observations)), "T, UTC: "+c.want, "%s", c.name)
		}
	}
}

// TestVersions passes SEQUENCE on: a start that moves is rescheduled, see package happening.
func TestVersions(t *testing.T) {
	t.Parallel()
	for version, name := range []string{"state0.ics", "state1.ics"} {
		observations := readAt(t, now, "", fixture(t, "cases/24-moved-with-sequence/"+name)).Observations
		assert.True(t, len(observations) == 1 && observations[0].Version == version, "%s gives %+v", name, observations)
	}
}

// Events of one UID with different starts are dates of one event, unless they are marked as versions.
func TestDatesOfOneUID(t *testing.T) {
	t.Parallel()
	const one = "SUMMARY:Yoga\nDTSTART:20261205T200000Z\n"
	other := strings.ReplaceAll(one, "1205", "1212")
	for name, tt := range map[string]struct {
		events []string
		want   string
		noted  bool
	}{
		"two dates": {[]string{one, other}, "Yoga recurring UTC\n  scheduled: 2026-12-05T20:00\n  scheduled: " +
			"2026-12-12T20:00", true},
		"SEQUENCE is always 0": {[]string{one + "SEQUENCE:0\n", other + "SEQUENCE:0\n"},
			"Yoga recurring UTC\n  scheduled: 2026-12-05T20:00\n  scheduled: 2026-12-12T20:00", true},
		"one of them twice": {
			[]string{other, one, one + "STATUS:CANCELLED\n"}, "Yoga recurring UTC\n  cancelled: 2026-12-05T20:00\n" +
				"  scheduled: 2026-12-12T20:00", true,
		},
		"a rule and a date": {
			[]string{one + "RRULE:FREQ=DAILY;COUNT=2\n", other},
			"Yoga recurring UTC\n  scheduled: 2026-12-05T20:00\n  scheduled: 2026-12-06T20:00\n  scheduled: 2026-12-12T20:00",
			true,
		},
		"two events under one UID": {
			[]string{one, strings.ReplaceAll(other, "Yoga", "Quiz")},
			"Yoga singular UTC\n  scheduled: 2026-12-05T20:00\nQuiz singular UTC\n  scheduled: 2026-12-12T20:00", true,
		},
		"a version": {[]string{one, strings.ReplaceAll(one, "Yoga", "Yoga 2")},
			"Yoga 2 singular UTC\n  scheduled: 2026-12-05T20:00", false},
		"versions that are counted": {
			[]string{one + "SEQUENCE:1\n", other + "SEQUENCE:2\n"}, "Yoga singular UTC\n  scheduled: 2026-12-12T20:00", false,
		},
	} {
		var b strings.Builder
		for _, e := range tt.events {
			b.WriteString("BEGIN:VEVENT\nUID:1\n" + e + "END:VEVENT\n")
		}
		result := read(t, "UTC", "BEGIN:VCALENDAR\n"+b.String()+"END:VCALENDAR\n")
		assert.Equal(t, strings.TrimSpace(outline(t, result.Observations)), tt.want, "%s gives", name)
		assert.True(t, result.Notes.Has(collect.NoteSeveralDates) == tt.noted && len(result.Notes) <= 1,
			"%s: notes %+v", name, result.Notes)
	}
}

// If another calendar cancels one of them, the others take place.
func TestDatesOfOneUID_cancelled(t *testing.T) {
	t.Parallel()
	event := func(start string) string {
		return "BEGIN:VEVENT\nUID:1\nSUMMARY:Yoga\nDTSTART:" + start + "\nEND:VEVENT\n"
	}
	result := read(t, "UTC", "BEGIN:VCALENDAR\n"+event("20261205T200000Z")+event("20261212T200000Z")+"END:VCALENDAR\n"+
		"BEGIN:VCALENDAR\nMETHOD:CANCEL\n"+event("20261205T200000Z")+"END:VCALENDAR\n")
	compare(t, outline(t, result.Observations), "Yoga recurring UTC\n  cancelled: 2026-12-05T20:00\n  scheduled: "+
		"2026-12-12T20:00")
}

const lines = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nSUMMARY:Jazz\n  night\nDTSTART:20261205T200000Z\n" +
	"DESCRIPTION:Two\n\t bands\nEND:VEVENT\nEND:VCALENDAR\n"

// Lines end in three ways, even in one file, and in two at once after a wrong conversion.
func TestLineEnds(t *testing.T) {
	t.Parallel()
	mixed := strings.Replace(strings.Replace(lines, "\nSUMMARY", "\rSUMMARY", 1), "\nDTSTART", "\r\nDTSTART", 1)
	for name, text := range map[string]string{
		"LF": lines, "CRLF": strings.ReplaceAll(lines, "\n", "\r\n"),
		"CR":     strings.ReplaceAll(lines, "\n", "\r"),
		"CRCRLF": strings.ReplaceAll(lines, "\n", "\r\r\n"), "mixed": mixed,
		"last is CR":   strings.TrimSuffix(lines, "\n") + "\r",
		"CR in a text": strings.Replace(lines, "bands", "bands\rand more", 1),
	} {
		result := read(t, "UTC", text)
		assert.Equal(t, len(result.Notes), 0, "%s: notes %+v", name, result.Notes)
		compare(t, outline(t, result.Observations), "Jazz night singular UTC\n  scheduled: 2026-12-05T20:00")
		d := result.Observations[0].Details.Description
		if !strings.HasPrefix(d, "Two bands") && !strings.HasPrefix(d, "<p>Two bands<br/>and more") {
			t.Errorf("%s: description %q", name, d)
		}
	}
}

// Programs write "RRULE:" twice, and the same part of a rule twice.
func TestRepeatedRuleName(t *testing.T) {
	t.Parallel()
	const want = "Quiz recurring UTC\n  scheduled: 2026-12-05T20:00\n  scheduled: 2026-12-19T20:00"
	quiz := func(rule string) string {
		return "BEGIN:VCALENDAR\nBEGIN:VEVENT\nUID:1\nSUMMARY:Quiz\nDTSTART:20261205T200000Z\n" + rule +
			"\nEND:VEVENT\nEND:VCALENDAR\n"
	}
	for _, rule := range []string{
		"RRULE:RRULE:FREQ=WEEKLY;COUNT=3\nEXDATE:EXDATE;VALUE=DATE:20261212",
		"RRULE: rrule:FREQ=WEEKLY;COUNT=3;FREQ=WEEKLY\nEXDATE:20261212T200000Z",
		"RRULE:RRULE:RRULE:COUNT=3;FREQ=WEEKLY\nEXRULE:RRULE:FREQ=WEEKLY;COUNT=1;BYMONTHDAY=12\n" +
			"EXDATE:EXDATE:20261212T200000Z",
		"RDATE:RDATE:20261212T200000Z,20261219T200000Z\nEXDATE:20261212T200000Z\nRRULE:FREQ=DAILY;COUNT=1",
	} {
		compare(t, outline(t, read(t, "UTC", quiz(rule)).Observations), want)
	}
	assert.True(t, len(read(t, "UTC", quiz("RRULE:FREQ=DAILY;FREQ=WEEKLY")).Notes) != 0,
		"a rule that contradicts itself is followed")
}

// TestOldCalendars reads what vCalendar 1.0 has and later versions lack.
func TestOldCalendars(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const start = "DTSTART:20260505T170000Z\r\n"
	for lines, want := range map[string]string{
		"SUMMARY;CHARSET=ISO-8859-1;ENCODING=QUOTED-PRINTABLE:F=EAte\r\n" + start://
		"Fête, UTC: scheduled 2026-05-05T17:00",
		"SUMMARY;QUOTED-PRINTABLE:A =\r\nB\r\n" + start: "A B, UTC: scheduled 2026-05-05T17:00",
		"SUMMARY:T\r\n" + start + "RRULE:W1 TU #3\r\nEXDATE:20260512T170000Z;20260101T000000Z\r\n"://
		"T, UTC: scheduled 2026-05-05T17:00, scheduled 2026-05-19T17:00",
		"SUMMARY:T\r\n" + start + "RRULE:MP1 1+ TU 20260701T000000Z\r\n"://
		"T, UTC: scheduled 2026-05-05T17:00, scheduled 2026-06-02T17:00",
		"SUMMARY:T\r\n" + start + "RRULE:MD1 5 #2\r\n"://
		"T, UTC: scheduled 2026-05-05T17:00, scheduled 2026-06-05T17:00",
		"SUMMARY:T\r\n" + start + "RRULE:D2\r\n": "T, UTC: scheduled 2026-05-05T17:00, scheduled 2026-05-07T17:00",
	} {
		result := readAt(t, at, "", "BEGIN:VCALENDAR\r\nVERSION:1.0\r\nBEGIN:VEVENT\r\nUID:1\r\n"+lines+
			"END:VEVENT\r\nEND:VCALENDAR\r\n")
		compare(t, instants(result.Observations), want)
	}
}
