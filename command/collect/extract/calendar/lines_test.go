package calendar_test

import (
	"strings"
	"testing"
)

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
		if len(result.Notes) != 0 {
			t.Errorf("%s: notes %+v", name, result.Notes)
		}
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
	if result := read(t, "UTC", quiz("RRULE:FREQ=DAILY;FREQ=WEEKLY")); len(result.Notes) == 0 {
		t.Error("a rule that contradicts itself is followed")
	}
}
