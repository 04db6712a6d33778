package calendar_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/budget/budgettest"
	"carillon/command/collect/extract/calendar"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/timing"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// read reads a calendar as if it had been found at an address.
func read(t *testing.T, timezone, text string) candidate.Result {
	t.Helper()
	return readAt(t, now, timezone, text)
}

func fixture(t testing.TB, name string) string {
	t.Helper()
	data := must.Get(os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name))))(t)
	return string(data)
}

// outline lists for each observation its details, and its instances in local time.
func outline(t *testing.T, observations []collect.Observation) string {
	t.Helper()
	var b strings.Builder
	for _, o := range observations {
		d := o.Details
		fmt.Fprintf(&b, "%s %s %s\n", d.Title, d.Time.TemporalPattern, d.Time.Timezone)
		loc := must.Get(time.LoadLocation(d.Time.Timezone))(t)
		for _, instance := range d.Instances {
			fmt.Fprintf(&b, "  %s:", instance.Status)
			for _, c := range instance.Occurrences {
				fmt.Fprintf(&b, " %s", c.Start.In(loc).Format("2006-01-02T15:04"))
				if c.End != nil {
					fmt.Fprintf(&b, "/%s", c.End.In(loc).Format("02T15:04"))
				}
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

func compare(t *testing.T, got, want string) {
	t.Helper()
	assert.Same(t, strings.TrimSpace(got), strings.TrimSpace(want))
}

func TestProgramme(t *testing.T) {
	t.Parallel()
	result := read(t, "", fixture(t, "programme.ics"))
	compare(t, outline(t, result.Observations), `
Harbour Jazz Night, with bands singular Europe/Copenhagen
  scheduled: 2026-12-05T20:00/06T01:30
Pub quiz recurring Europe/Paris
  scheduled: 2026-11-04T19:00/04T21:00
  rescheduled: 2026-11-12T20:00/12T22:00
  scheduled: 2026-11-25T19:00/25T21:00
  cancelled: 2026-12-02T19:00/02T21:00
  scheduled: 2026-12-09T19:00/09T21:00
  scheduled: 2026-12-13T15:00/13T19:00
Open house singular Europe/Copenhagen
  scheduled: 2026-12-12T00:00/13T00:00 2026-12-13T00:00/14T00:00
Talk singular Europe/Copenhagen
  scheduled: 2026-12-10T19:00`)
	assert.Equal(t, len(result.Notes), 0, "notes %+v", result.Notes)
	quiz := result.Observations[1]
	if want := "id:kajhallen.example|uid|quiz@kajhallen.example"; len(quiz.Keys) != 1 || quiz.Keys[0] != want ||
		quiz.Key != want {
		t.Errorf("keys %q, %q, want %q", quiz.Key, quiz.Keys, want)
	}
	// A moved instance keeps its id.
	if want := happening.DeriveInstanceID(quiz.Key, "2026-11-11T19:00:00"); quiz.Details.Instances[1].ID != want {
		t.Errorf("instance id %s, want %s", quiz.Details.Instances[1].ID, want)
	}
	if l := result.Observations[2].Details.Location; l == nil || l.Online == nil || l.Online.Platform != "Zoom" {
		t.Errorf("a link in the place of a location gives %+v", l)
	}
}

func TestFields(t *testing.T) {
	t.Parallel()
	o := read(t, "", fixture(t, "programme.ics")).Observations[0]
	want := happening.Details{
		Title:            "Harbour Jazz Night, with bands",
		Description:      "<p>Three <b>bands</b>.</p>",
		ShortDescription: "Three bands.",
		Time:             o.Details.Time,
		Location: &happening.Location{
			Venue:          &happening.Venue{Name: "Kajhallen", Address: "Havnegade 1, 8000 Aarhus, Denmark"},
			Coordinates:    &happening.Coordinates{Lat: 56.1572, Lng: 10.2107},
			Online:         &happening.Online{Platform: "YouTube", URL: "https://www.youtube.com/live/abc"},
			DisplayAddress: "Kajhallen, Havnegade 1, 8000 Aarhus, Denmark",
		},
		Organizer:        &happening.Organizer{Name: "Kajhallen A/S", Contact: "post@kajhallen.example"},
		PrimaryImage:     "https://kajhallen.example/media/1.jpg",
		SupportingImages: []string{"https://kajhallen.example/media/2.png"},
		PrimaryURL:       "https://kajhallen.example/programme/harbour-jazz-night",
		URLs:             []string{"https://kajhallen.example/programme/harbour-jazz-night"},
		GeoLocations:     o.Details.GeoLocations,
		Instances:        o.Details.Instances,
	}
	assert.Same(t, o.Details, want)
	assert.True(t, o.PublishedAt != nil && o.PublishedAt.Equal(time.Date(2026, 9, 1, 8, 0, 0, 0, time.UTC)),
		"published at %v", o.PublishedAt)
	said := map[collect.Field]collect.Origin{}
	for _, origin := range o.Origins {
		said[origin.Field] = origin
	}
	if want := (collect.Origin{
		Field:   collect.FieldStart,
		Page:    "https://kajhallen.example/programme.ics",
		Syntax:  collect.ICalendar,
		Path:    "VEVENT.DTSTART",
		Element: "VEVENT[1]",
		Text:    "20261205T200000",
	}); said[collect.FieldStart] != want {
		t.Errorf("the origin of the start is %+v, want %+v", said[collect.FieldStart], want)
	}
	for _, field := range []collect.Field{
		collect.FieldTitle, collect.FieldDescription, collect.FieldEnd, collect.FieldStatus, collect.FieldTimezone,
		collect.FieldLocation, collect.FieldCoordinates, collect.FieldOnline, collect.FieldOrganizer, collect.FieldImage,
		collect.FieldURL,
		collect.FieldPublished,
		collect.FieldIdentity,
	} {
		assert.True(t, said[field].Text != "", "%s has no origin", field)
	}
}

// An unreadable part costs a line or an event, with a note, and never the file.
func TestBroken(t *testing.T) {
	t.Parallel()
	result := read(t, "Europe/Rome", fixture(t, "broken.ics"))
	compare(t, outline(t, result.Observations), `
Kept although a singular Europe/Rome
  scheduled: 2026-12-05T19:00
A rule that can't be read singular Europe/Rome
  scheduled: 2026-12-06T00:00/07T00:00
Not closed singular Europe/Rome
  scheduled: 2026-12-07T19:00
In lower case singular Europe/Rome
  scheduled: 2026-12-08T00:00/09T00:00
Another calendar singular Europe/Rome
  scheduled: 2026-12-10T19:30/10T20:00`)
	notes := ""
	for _, n := range result.Notes {
		notes += string(n.Code) + ": " + n.Text + "\n"
	}
	compare(t, notes, `
broken-markup: a line of the calendar can't be read: "this line has no name"
broken-markup: 2 lines of the calendar can't be read
assumed-timezone: the calendar's timezone "Nowhere/At-All" is unknown: its times are read as those that name none
broken-markup: "A rule that can't be read" repeats by a rule that can't be read: "FREQ=FORTNIGHTLY"
skipped-event: "No date that can be read" was left out, for its date can't be read: "next friday"
skipped-event: an event without a title was left out`)
}

func TestZones(t *testing.T) {
	t.Parallel()
	result := read(t, "Europe/Rome", fixture(t, "zones.ics"))
	var got strings.Builder
	for _, o := range result.Observations {
		fmt.Fprintf(&got, "%s: %s %s\n", o.Details.Title, o.Details.Time.Timezone,
			o.Details.Instances[0].Occurrences[0].Start.Format("02T15:04"))
	}
	compare(t, got.String(), `
IANA: Asia/Tokyo 05T11:00
Microsoft: Europe/Berlin 05T18:00
Lotus: America/Los_Angeles 06T03:00
path: America/Argentina/Ushuaia 05T23:00
quoted: America/Chicago 06T01:00
Outlook: Europe/Rome 05T18:00
own rules: Etc/GMT-10 05T10:00
fixed: UTC 06T00:45
unknown: Europe/Lisbon 05T19:00
skipped: Europe/Paris 28T01:30
twice: Europe/Paris 25T00:30
floating: Europe/Lisbon 05T19:00
UTC: Europe/Lisbon 05T20:00`)
}

func TestUnfold(t *testing.T) {
	t.Parallel()
	for folded, want := range map[string]string{
		"A:b\r\n c\r\nD:e\r\n":          "A:bc\r\nD:e\r\n",
		"A:b\n\tc\n  d\n":               "A:bc d\n",
		"A:caf\xc3\r\n \xa9\r\n":        "A:café\r\n",
		"A\n\n :b\nC:d":                 "A:b\nC:d",
		"A:b\r\n\r\nC:d\r\n":            "A:b\r\n\r\nC:d\r\n",
		"A:b\n ":                        "A:b",
		" A:b":                          " A:b",
		strings.Repeat("A:b\r\n c", 50): strings.Repeat("A:bc", 50),
	} {
		assert.Equal(t, string(calendar.Unfold([]byte(folded))), want, "%q", folded)
	}
}

func TestIs(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"BEGIN:VCALENDAR\r\n": true, "\ufeff\r\n begin:vcalendar": true, "<html>BEGIN:VCALENDAR": false, "BEGIN:VCARD": false,
		"": false,
	} {
		if calendar.Is(text) != want {
			t.Errorf("%q: %v", text, !want)
		}
	}
}

// A calendar is not an event's own page, even if it has a single one.
func TestStanding(t *testing.T) {
	t.Parallel()
	result := read(t, "Europe/Copenhagen", "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:1\r\nSUMMARY:Jazz\r\n"+
		"DTSTART:20261205T200000\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n")
	assert.True(t, len(result.Observations) == 1 && result.Observations[0].Standing == happening.FromListing,
		"got %+v", result.Observations)
}

// FuzzRead shows that no file makes the reader panic or hang, or leads to an invalid observation.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.ics"))
	if err != nil || len(files) == 0 {
		f.Fatal("no fixtures", err)
	}
	for _, name := range files {
		data := must.Get(os.ReadFile(name))(f)
		f.Add(data, "Europe/Rome")
	}
	for _, lines := range []string{
		"SUMMARY:x\nDTSTART:99991231T235959Z\nDURATION:P99999Y\nRRULE:FREQ=YEARLY;INTERVAL=1000000\n",
		"SUMMARY:x\nDTSTART:00010101\nDTEND:99991231\nRRULE:FREQ=DAILY;BYSETPOS=-1;UNTIL=00010101\nEXRULE:FREQ=WEEKLY\n",
		"SUMMARY:x\nDTSTART;TZID=\"a:b;c\":20261205T240000\nRDATE;VALUE=PERIOD:20261206T000000/PT1H,20261207/20261206\n" +
			"EXDATE:,\n",
		"SUMMARY:\xff\x00\nDTSTART:20261205T190000-2460\nGEO:NaN;1e400\nORGANIZER;CN=\"^n\":MAILTO:\n",
		"UID:1\nRECURRENCE-ID;RANGE=THISANDFUTURE:20261205\nSUMMARY:x\nDTSTART:20261206T100000Z\nSEQUENCE:-9\n",
	} {
		f.Add([]byte("BEGIN:VCALENDAR\nBEGIN:VEVENT\n"+lines+"END:VEVENT\n"), "America/Lord_Howe")
	}
	f.Fuzz(func(t *testing.T, file []byte, timezone string) {
		b := budget.Of(t.Context(), 2_000_000, 8<<20)
		page, found, notes := calendar.Candidates(b, calendar.Page{
			URL:      &url.URL{Scheme: "https", Host: "a.example", Path: "/x.ics"},
			Text:     string(calendar.Unfold(file)),
			Timezone: timezone,
			Window:   timing.WindowAt(now),
		})
		result := candidate.Observe(b, page, found, notes)
		if b.Err() != nil {
			return // too complex for this budget
		}
		keys := map[string]bool{}
		for _, o := range result.Observations {
			if o.Key == "" || keys[o.Key] || o.Details.Title == "" || len(o.Details.Instances) == 0 {
				t.Errorf("%q of key %q (there before: %v) has %d instances", o.Details.Title, o.Key, keys[o.Key],
					len(o.Details.Instances))
			}
			keys[o.Key] = true
			for _, instance := range o.Details.Instances {
				for _, c := range instance.Occurrences {
					if c.End != nil && c.End.Before(c.Start) || c.Start.Year() < 1 || c.Start.Year() > 9999 ||
						c.End != nil && c.End.Year() > 9999 {
						t.Errorf("an occurrence is from %s to %v", c.Start, c.End)
					}
				}
			}
		}
	})
}

// events returns a calendar of n events, with numbered lines.
func events(n int, lines string) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\n")
	for i := range n {
		b.WriteString("BEGIN:VEVENT\r\n")
		fmt.Fprintf(&b, lines, i)
		b.WriteString("END:VEVENT\r\n")
	}
	b.WriteString("END:VCALENDAR\r\n")
	return b.String()
}

// Of too many events, the window shows as many as possible, with a note about the rest.
func TestLarge(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		text             string
		events, truncate int // at least this many events, and whether a note reports more
	}{
		"100,000 events": {events(100_000, "UID:%[1]d\r\nSUMMARY:Event %[1]d\r\nDTSTART:20261205T200000Z\r\n"),
			10_000, 1},
		"100,000 events of once": {events(100_000, "UID:%[1]d\r\nSUMMARY:Event %[1]d\r\nDTSTART:20161205T200000Z\r\n") +
			events(9, "UID:%[1]d\r\nSUMMARY:New %[1]d\r\nDTSTART:20261205T200000Z\r\n"), 9, 0},
		"10,000 rules": {events(10_000, "UID:%[1]d\r\nSUMMARY:Event\r\nDTSTART:20161205T200000Z\r\n"+
			"RRULE:FREQ=DAILY\r\n"), 10_000, 1},
		"every second": {events(1, "UID:%[1]d\r\nSUMMARY:Event\r\nDTSTART:19700101T200000Z\r\n"+
			"RRULE:FREQ=SECONDLY\r\n"), 1, 1},
		"a count beyond all": {events(1, "UID:%[1]d\r\nSUMMARY:Event\r\nDTSTART:20240101T200000Z\r\n"+
			"RRULE:FREQ=DAILY;COUNT=2000000000\r\n"), 1, 0},
		"never, and one other": {events(1, "UID:a%[1]d\r\nSUMMARY:Event\r\nDTSTART:20240101T200000Z\r\n"+
			"RRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30;COUNT=9\r\n") +
			events(1, "UID:b%[1]d\r\nSUMMARY:Other\r\nDTSTART:20240101T200000Z\r\nRRULE:FREQ=WEEKLY;COUNT=500\r\n"), 1, 0},
		"10,000 too hard to follow, and one other": {events(10_000,
			"UID:a%[1]d\r\nSUMMARY:Event\r\nDTSTART:19700101T200000Z\r\nRRULE:FREQ=SECONDLY;BYDAY=MO;COUNT=2000000000\r\n") +
			events(1, "UID:b%[1]d\r\nSUMMARY:Other\r\nDTSTART:20261205T200000Z\r\n"), 1, 1},
		"a position of nothing": {events(1, "UID:%[1]d\r\nSUMMARY:Event\r\nDTSTART:20240101T200000Z\r\n"+
			"RRULE:FREQ=DAILY;BYSETPOS=300\r\n"), 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			result := read(t, "", tt.text)
			truncated := 0
			for _, n := range result.Notes {
				if n.Code == collect.NoteTruncated {
					truncated = 1
				}
			}
			assert.True(t, len(result.Observations) >= tt.events && truncated == tt.truncate,
				"%d events, truncated %d; want %d and %d", len(result.Observations), truncated, tt.events, tt.truncate)
		})
	}
}

// Of an event with too many instances, those of this month and later are shown.
func TestThisMonthFirst(t *testing.T) {
	t.Parallel()
	result := read(t, "", events(1, "SUMMARY:E%d\r\nDTSTART:20160101T000000Z\r\nRRULE:FREQ=MINUTELY\r\n"))
	instances := result.Observations[0].Details.Instances
	if first := instances[0].Occurrences[0].Start; first.Before(now.AddDate(0, 0, -now.Day()-1)) || len(instances) < 900 {
		t.Errorf("%d instances from %s on", len(instances), first)
	}
}

func BenchmarkCalendar(b *testing.B) {
	text := events(1000, "UID:r%[1]d\r\nSUMMARY:Rule %[1]d\r\nDTSTART;TZID=Europe/Berlin:20200106T200000\r\n"+
		"DTEND;TZID=Europe/Berlin:20200106T220000\r\nRRULE:FREQ=WEEKLY;BYDAY=MO\r\nLOCATION:Hall %[1]d\\, Street 1\\, "+
		"Berlin\r\n") +
		events(9000, "UID:e%[1]d\r\nSUMMARY:Event %[1]d\r\nDTSTART;TZID=Europe/Berlin:20261205T200000\r\n"+
			"DTEND;TZID=Europe/Berlin:20261205T220000\r\nDESCRIPTION:Of some length\\, as it may be\\n\\nwith a "+
			"paragraph.\r\nLOCATION:Hall %[1]d\\, Street 1\\, Berlin\r\nURL:https://a.example/e/%[1]d\r\n")
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	var before, after runtime.MemStats
	begin := budgettest.ProcessorTime()
	defer func() { b.ReportMetric((budgettest.ProcessorTime()-begin).Seconds()/float64(b.N), "cpu-s/op") }()
	for b.Loop() {
		runtime.GC()
		runtime.ReadMemStats(&before)
		budget := budget.New(b.Context())
		page, found, notes := calendar.Candidates(budget, calendar.Page{
			URL:      &url.URL{Scheme: "https", Host: "a.example"},
			Text:     text,
			Timezone: "Europe/Berlin",
			Window:   timing.WindowAt(now),
		})
		result := candidate.Observe(budget, page, found, notes)
		must.Equal(b, len(result.Observations), 10_000, "events, %v", budget.Err())
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/(1<<20), "MB-kept")
		runtime.KeepAlive(result)
	}
}
