package calendar_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/command/collect"
)

// generatedCalendars is the number of generated calendars.
const generatedCalendars = 1000

// generated is a calendar in two forms: as programs write it, and in standard form, with each time in its zone and the
// rules of that zone beside it.
type generated struct{ what, wild, plain string }

// zoneRow is a zone, its rules, and its names in programs. An escaped name is one of a VTIMEZONE.
type zoneRow struct {
	iana, rules string
	spellings   []string
}

func seasons(standard, daylight, toDaylight, toStandard string) string {
	if daylight == "" {
		return "BEGIN:STANDARD\nDTSTART:19700101T000000\nTZOFFSETFROM:" + standard + "\nTZOFFSETTO:" + standard +
			"\nEND:STANDARD\n"
	}
	return "BEGIN:STANDARD\nDTSTART:" + toStandard + "\nTZOFFSETFROM:" + daylight + "\nTZOFFSETTO:" + standard +
		"\nEND:STANDARD\n" +
		"BEGIN:DAYLIGHT\nDTSTART:" + toDaylight + "\nTZOFFSETFROM:" + standard + "\nTZOFFSETTO:" + daylight +
		"\nEND:DAYLIGHT\n"
}

var (
	european = [2]string{"19700329T%02d0000\nRRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU",
		"19701025T%02d0000\nRRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU"}
	american = [2]string{"20070311T020000\nRRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=2SU",
		"20071104T020000\nRRULE:FREQ=YEARLY;BYMONTH=11;BYDAY=1SU"}
	zoneRows = []zoneRow{
		{"Europe/Berlin", seasons("+0100", "+0200", fmt.Sprintf(european[0], 2), fmt.Sprintf(european[1], 3)), []string{
			"Europe/Berlin", "europe/BERLIN", "W. Europe Standard Time", "w. europe standard time", "W. Europe Standard Time 1",
			"(UTC+01:00) Amsterdam, Berlin, Bern, Rome, Stockholm, Vienna",
			`"(GMT+01:00) Amsterdam, Berlin, Bern, Rome, Stockholm, Vienna"`,
			"/freeassociation.sourceforge.net/Europe/Berlin", "Europe/Berlin 2", `VTIMEZONE:Hall\, upper floor`,
		}},
		{"America/New_York", seasons("-0500", "-0400", american[0], american[1]), []string{
			"America/New_York", "US/Eastern", "US-Eastern", "Eastern Standard Time", "Eastern",
			"(UTC-05:00) Eastern Time (US & Canada)",
			"(GMT-05.00) Eastern Time (US & Canada)", "America/New York", "GMT -0500 (Standard) / GMT -0400 (Daylight)",
			"VTIMEZONE:Our town",
		}},
		{"Europe/London", seasons("+0000", "+0100", fmt.Sprintf(european[0], 1), fmt.Sprintf(european[1], 2)), []string{
			"Europe/London", "GMT Standard Time", "(UTC+00:00) Dublin, Edinburgh, Lisbon, London", "GB",
			"(GMT) Greenwich Mean Time : Dublin, Edinburgh, Lisbon, London", `VTIMEZONE:(UTC+00:00) Ours\; and theirs`,
		}},
		{"Asia/Tokyo", seasons("+0900", "", "", ""), []string{
			"Asia/Tokyo", "Tokyo Standard Time", "(UTC+09:00) Osaka, Sapporo, Tokyo", "asia/tokyo", "Japan", "(GMT+09:00)",
			"UTC+09:00", "GMT+9",
		}},
		{"Etc/GMT", seasons("+0000", "", "", ""), []string{"GMT", "UTC", "Etc/UTC", "tzone://Microsoft/Utc",
			"(UTC) Coordinated Universal Time", "gmt"}},
	}
	ruleRows = []string{
		"", "FREQ=DAILY;COUNT=5", "FREQ=WEEKLY;COUNT=4", "FREQ=WEEKLY;INTERVAL=2;BYDAY=SA,SU;COUNT=6",
		"FREQ=MONTHLY;BYDAY=-1SU;COUNT=4",
		"FREQ=MONTHLY;BYMONTHDAY=1,15;COUNT=5", "FREQ=WEEKLY;UNTIL=%s",
	}
	propertyRows = []string{
		"none", "end", "end in UTC", "duration", "exception", "exception in UTC", "exception of a day", "further date",
		"further date in UTC", "change", "change in UTC", "cancellation",
	}
	clockRows = []string{"zone", "zone, rest floats", "hint", "only VTIMEZONE", "UTC", "UTC, rest floats", "day"}
	startRows = []string{
		"20260110T190000", "20260328T223000", "20260329T013000", "20260329T030000", "20260307T220000", "20260308T013000",
		"20260614T090000", "20261024T223000", "20261025T013000", "20261025T033000", "20261031T233000", "20261101T003000",
	}
)

// generate returns a calendar from a row of each table.
func generate(r *rand.Rand) generated {
	pick := func(rows []string) string { return rows[r.IntN(len(rows))] }
	zone := zoneRows[r.IntN(len(zoneRows))]
	spelling, clock, property, rule := pick(zone.spellings), pick(clockRows), pick(propertyRows), pick(ruleRows)
	loc, err := time.LoadLocation(zone.iana)
	if err != nil {
		panic(err)
	}
	const layout = "20060102T150405"
	start, err := time.ParseInLocation(layout, pick(startRows), loc)
	if err != nil {
		panic(err)
	}
	length := []time.Duration{30 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour}[r.IntN(4)]
	book := ";TZID=" + zone.iana + ":"
	rules := "BEGIN:VTIMEZONE\nTZID:%s\n" + zone.rules + "END:VTIMEZONE\n"
	head, named := "", ";TZID="+spelling+":"
	if id, own := strings.CutPrefix(spelling, "VTIMEZONE:"); own {
		head, named = fmt.Sprintf(rules, id), `;TZID="`+strings.ReplaceAll(id, `\`, "")+`":`
	}
	rest := named
	switch clock {
	case "zone, rest floats":
		rest = ":"
	case "hint":
		head, named, rest = head+"X-WR-TIMEZONE:"+strings.TrimPrefix(strings.Trim(spelling, `"`), "VTIMEZONE:")+"\n", ":", ":"
	case "only VTIMEZONE":
		head, named, rest = fmt.Sprintf(rules, "Somewhere"), ":", ":"
	case "UTC", "UTC, rest floats":
		loc, book, named, rest = time.UTC, ":", ":", ":"
		start = time.Date(start.Year(), start.Month(), start.Day(), start.Hour(), start.Minute(), 0, 0, loc)
	case "day":
		start = time.Date(start.Year(), start.Month(), start.Day(), 0, 0, 0, 0, loc)
		named, rest, book = ";VALUE=DATE:", ";VALUE=DATE:", ";VALUE=DATE:"
	}
	// at formats a time on the clock of the start, in the wild or the standard form.
	at := func(t time.Time, wild, follows bool) string {
		text := t.In(loc).Format(layout)
		switch {
		case clock == "day":
			return ";VALUE=DATE:" + text[:8]
		case clock == "UTC, rest floats" && wild && follows:
			return ":" + text
		case loc == time.UTC:
			return ":" + text + "Z"
		case wild && follows:
			return rest + text
		case wild:
			return named + text
		}
		return book + text
	}
	utc := func(t time.Time) string { return ":" + t.UTC().Format(layout) + "Z" }
	next := start.AddDate(0, 0, 1)
	if rule != ruleRows[1] { // the second instance of a rule is a week later or missing
		next = start.AddDate(0, 0, 7)
	}
	if strings.Contains(rule, "%s") {
		if rule = fmt.Sprintf(rule, start.AddDate(0, 0, 21).UTC().Format(layout)+"Z"); clock == "day" {
			rule = "FREQ=WEEKLY;UNTIL=" + start.AddDate(0, 0, 21).Format("20060102")
		}
	}
	event := func(wild bool) string {
		lines := "UID:1\nSUMMARY:T\nDTSTART" + at(start, wild, false) + "\n"
		if rule != "" {
			lines += "RRULE:" + rule + "\n"
		}
		ends := "DTEND" + at(start.Add(length), wild, true) + "\n"
		if clock == "day" {
			ends = ""
		}
		more := ""
		switch property {
		case "end":
			lines += ends
		case "end in UTC":
			if clock != "day" {
				lines += "DTEND" + utc(start.Add(length)) + "\n"
			}
		case "duration":
			if clock != "day" {
				lines += fmt.Sprintf("DURATION:PT%dM\n", int(length.Minutes()))
			}
		case "exception":
			lines += ends + "EXDATE" + at(next, wild, true) + "\n"
		case "exception in UTC":
			if clock != "day" {
				lines += "EXDATE" + utc(next) + "\n"
			}
		case "exception of a day":
			if clock == "day" {
				lines += "EXDATE;VALUE=DATE:" + next.Format("20060102") + "\n"
			}
		case "further date":
			lines += ends + "RDATE" + at(start.AddDate(0, 0, 3), wild, true) + "\n"
		case "further date in UTC":
			if clock != "day" {
				lines += "RDATE" + utc(start.AddDate(0, 0, 3)) + "\n"
			}
		case "change", "change in UTC", "cancellation":
			id := at(next, wild, true)
			if property == "change in UTC" && clock != "day" {
				id = utc(next)
			}
			to := next.AddDate(0, 0, 2).Add(time.Hour)
			more = "BEGIN:VEVENT\nUID:1\nSUMMARY:T\nRECURRENCE-ID" + id + "\nDTSTART" + at(to, wild, true) + "\n"
			if property == "cancellation" {
				more += "STATUS:CANCELLED\n"
			}
			more += "END:VEVENT\n"
			if rule == "" || rule == ruleRows[4] || rule == ruleRows[5] || rule == ruleRows[3] {
				more = "" // no instance to change
			}
		}
		return "BEGIN:VEVENT\n" + lines + "END:VEVENT\n" + more
	}
	calendar := func(head, events string) string {
		return "BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:-//generated//EN\n" + head + events + "END:VCALENDAR\n"
	}
	plainHead := fmt.Sprintf(rules, zone.iana)
	if loc == time.UTC {
		plainHead = ""
	}
	return generated{
		what: strings.Join([]string{clock, spelling, property, rule, start.Format(layout), length.String()}, " | "),
		wild: calendar(head, event(true)), plain: calendar(plainHead, event(false)),
	}
}

// outcome lists the begin and end of instances in UTC, or their days.
func outcome(observations []collect.Observation) string {
	var b strings.Builder
	for _, o := range observations {
		loc, err := time.LoadLocation(o.Details.Time.Timezone)
		if err != nil {
			panic(err)
		}
		for _, instance := range o.Details.Instances {
			first, last := instance.Occurrences[0], instance.Occurrences[len(instance.Occurrences)-1]
			layout, in := "2006-01-02T15:04", time.UTC
			if first.AllDay {
				layout, in = "2006-01-02", loc
			}
			fmt.Fprintf(&b, "%s", first.Start.In(in).Format(layout))
			if last.End != nil {
				fmt.Fprintf(&b, "/%s", last.End.In(in).Format(layout))
			}
			if instance.Status == "cancelled" {
				b.WriteString(" cancelled")
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// TestGenerated reads a thousand calendars as programs write them, and in standard form, with equal results. With
// CARILLON_GENERATED it writes them with the results to a directory, for comparison with other programs.
func TestGenerated(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("CARILLON_GENERATED")
	r := rand.New(rand.NewPCG(29, 1)) //nolint:gosec // the same each time
	at := time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC)
	wrong := 0
	for i := range generatedCalendars {
		g := generate(r)
		wild := outcome(readAt(t, at, "", g.wild).Observations)
		plain := outcome(readAt(t, at, "", g.plain).Observations)
		if wild == "" || wild != plain {
			if wrong++; wrong <= 5 {
				t.Errorf("%d, %s:\n%s\ngives\n%s\nand by the book\n%s", i, g.what, g.wild, wild, plain)
			}
		}
		if dir == "" {
			continue
		}
		for ending, text := range map[string]string{"what": g.what, "wild.ics": g.wild, "plain.ics": g.plain, "ours": wild,
			"ours-plain": plain} {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%04d.%s", i, ending)), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d are read otherwise than by the book", wrong, generatedCalendars)
	}
}
