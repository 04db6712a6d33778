package calendar_test

import (
	"strings"
	"testing"

	"carillon/command/collect"
)

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
		if got := strings.TrimSpace(outline(t, result.Observations)); got != tt.want {
			t.Errorf("%s gives\n%s\nwant\n%s", name, got, tt.want)
		}
		if result.Notes.Has(collect.NoteSeveralDates) != tt.noted || len(result.Notes) > 1 {
			t.Errorf("%s: notes %+v", name, result.Notes)
		}
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
