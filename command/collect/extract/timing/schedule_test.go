package timing_test

import (
	"strings"
	"testing"
	"time"

	"carillon/command/collect/extract/timing"
	"carillon/eventstore/storetest/assert"
)

func date(y int, m time.Month, d int) *time.Time {
	t := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	return &t
}

func TestExpand(t *testing.T) {
	t.Parallel()
	seven, nine := 19*time.Hour, 21*time.Hour
	wednesday := []timing.Weekday{{Day: time.Wednesday}}
	tests := []struct {
		name     string
		schedule timing.Schedule
		want     string // the first dates, then the number of all
		count    int
	}{
		{"daily", timing.Schedule{Start: date(2027, 3, 5), End: date(2027, 3, 7), Every: timing.Length{Days: 1}},
			"03-05 03-06 03-07", 3},
		{"every other day", timing.Schedule{Start: date(2027, 3, 5), Count: 3, Every: timing.Length{Days: 2}},
			"03-05 03-07 03-09", 3},
		{"daily on work days", timing.Schedule{
			Start: date(2027, 3, 5),
			Count: 3,
			Every: timing.Length{Days: 1},
			ByDay: []timing.Weekday{{Day: time.Monday}, {Day: time.Tuesday}, {Day: time.Friday}},
		}, "03-05 03-08 03-09", 3},
		{"weekly on the start's day", timing.Schedule{Start: date(2027, 3, 5), Count: 3, Every: timing.Length{Weeks: 1}},
			"03-05 03-12 03-19", 3},
		{"weekly as seven days", timing.Schedule{Start: date(2027, 3, 5), Count: 2, Every: timing.Length{Days: 7}},
			"03-05 03-12", 2},
		{"every other week, two days", timing.Schedule{
			Start: date(2027, 3, 5),
			Count: 4,
			Every: timing.Length{Weeks: 2},
			ByDay: []timing.Weekday{{Day: time.Monday}, {Day: time.Friday}},
		}, "03-05 03-15 03-19 03-29", 4},
		{"a weekday without an interval", timing.Schedule{Start: date(2027, 3, 1), Count: 2, ByDay: wednesday},
			"03-03 03-10", 2},
		{"monthly on the start's day", timing.Schedule{Start: date(2027, 1, 31), Count: 3, Every: timing.Length{Months: 1}},
			"01-31 03-31 05-31", 3},
		{"first and third Wednesday", timing.Schedule{
			Start:       date(2027, 3, 1),
			Count:       3,
			ByDay:       wednesday,
			ByMonthWeek: []int{1, 3},
		}, "03-03 03-17 04-07", 3},
		{"last Friday", timing.Schedule{
			Start: date(2027, 3, 1),
			Count: 2,
			Every: timing.Length{Months: 1},
			ByDay: []timing.Weekday{{Day: time.Friday, Nth: -1}},
		}, "03-26 04-30", 2},
		{"last day of the month", timing.Schedule{Start: date(2027, 2, 1), Count: 2, ByMonthDay: []int{-1}},
			"02-28 03-31", 2},
		{"quarterly on the 15th", timing.Schedule{
			Start:      date(2027, 1, 1),
			Count:      3,
			Every:      timing.Length{Months: 3},
			ByMonthDay: []int{15},
		}, "01-15 04-15 07-15", 3},
		{"yearly", timing.Schedule{Start: date(2025, 3, 5), Count: 3, Every: timing.Length{Years: 1}},
			"03-05 03-05 03-05", 3},
		{"yearly in some months", timing.Schedule{Start: date(2026, 12, 24), Count: 3, ByMonth: []int{6, 12}},
			"12-24 06-24 12-24", 3},
		{"exceptions count as repetitions", timing.Schedule{
			Start:  date(2027, 3, 5),
			Count:  3,
			Every:  timing.Length{Weeks: 1},
			Except: []timing.Stamp{{Wall: *date(2027, 3, 12)}},
		}, "03-05 03-19", 2},
		{"an exception with a time", timing.Schedule{
			Start: date(2027, 3, 5),
			Count: 2,
			Opens: &seven,
			Every: timing.Length{Weeks: 1},
			Except: []timing.Stamp{{Wall: date(2027, 3, 5).Add(seven), HasTime: true}, {Wall: date(2027, 3, 12).Add(nine),
				HasTime: true}},
		}, "03-12", 1},
		{"no start, within the window", timing.Schedule{ByDay: wednesday}, "10-07 10-14 10-21", 65},
		{"no end, from the window on", timing.Schedule{Start: date(2017, 1, 1), ByDay: wednesday}, "10-07 10-14 10-21", 65},
		{"an end in the past", timing.Schedule{Start: date(2017, 1, 1), End: date(2017, 12, 31), ByDay: wednesday},
			"01-04 01-11 01-18", 52},
		{"more than can be shown", timing.Schedule{Start: date(2000, 1, 1), End: date(2030, 1, 1),
			Every: timing.Length{Days: 1}}, "10-01 10-02 10-03", 400},
		{"more than can be shown, all past", timing.Schedule{Start: date(2000, 1, 1), End: date(2010, 1, 1),
			Every: timing.Length{Days: 1}}, "01-01", 1},
		{"since ever", timing.Schedule{Start: date(1, 1, 1), ByDay: wednesday}, "10-07 10-14 10-21", 65},
		{"the end before the start", timing.Schedule{Start: date(2027, 3, 5), End: date(2027, 3, 1),
			Every: timing.Length{Days: 1}}, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			all := tt.schedule.Expand(nil, window)
			var first []string
			for _, r := range all[:min(max(3, len(strings.Fields(tt.want))), len(all))] {
				first = append(first, r.Start.Wall.Format("01-02"))
			}
			if got := strings.Join(first, " "); got != tt.want || len(all) != tt.count {
				t.Errorf("got %s of %d, want %s of %d", got, len(all), tt.want, tt.count)
			}
		})
	}
}

func TestExpand_times(t *testing.T) {
	t.Parallel()
	ten, two := 22*time.Hour, 2*time.Hour
	loc := zone(t, "Europe/London")
	all := timing.Schedule{
		Start:  date(2027, 3, 26),
		Count:  2,
		Every:  timing.Length{Weeks: 1},
		Opens:  &ten,
		Closes: &two,
	}.Expand(nil, window)
	got := make([]string, 0, len(all))
	for _, r := range all {
		got = append(got, shown(r.In(loc).Spans(window), loc))
	}
	assert.Equal(t, strings.Join(got, " | "), "26 22:00-27.02:00 | 2 22:00-3.02:00", "Join")
}

func TestParseWeekday(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]timing.Weekday{
		"https://schema.org/Monday": {Day: time.Monday}, "schema:Tuesday": {Day: time.Tuesday},
		"Wednesdays": {Day: time.Wednesday},
		"TH":         {Day: time.Thursday}, "fri": {Day: time.Friday}, "-1SA": {Day: time.Saturday, Nth: -1},
		"+2SU": {Day: time.Sunday, Nth: 2}, "tues": {Day: time.Tuesday},
		"Montag": {Day: time.Monday}, "Mi": {Day: time.Wednesday}, "mardi": {Day: time.Tuesday},
		"miércoles": {Day: time.Wednesday},
		"giovedì":   {Day: time.Thursday}, "sexta-feira": {Day: time.Friday}, "lördag": {Day: time.Saturday},
		"niedziela": {Day: time.Sunday},
	} {
		got, ok := timing.ParseWeekday(text)
		assert.True(t, ok && got == want, "%q is %+v, %v", text, got, ok)
	}
	for _, text := range []string{"", "PublicHolidays", "M", "Mox", "https://example.org/Monday"} {
		got, ok := timing.ParseWeekday(text)
		assert.True(t, !ok, "%q is %+v", text, got)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	us := []string{"America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles"}
	tests := []struct {
		name    string
		clues   timing.Clues
		start   string
		want    string
		assumed bool
	}{
		{"nothing", timing.Clues{}, "2027-07-05T20:00", "UTC", true},
		{"said to be UTC", timing.Clues{}, "2027-07-05T20:00Z", "UTC", false},
		{"stated", timing.Clues{Stated: "Europe/London", Home: "Europe/Paris"}, "2027-07-05T20:00", "Europe/London", false},
		{"stated, unknown", timing.Clues{Stated: "Mars/Base", Home: "Europe/Paris"}, "2027-07-05T20:00",
			"Europe/Paris", false},
		{"the machine's zone is not used", timing.Clues{Stated: "Local", Home: "Europe/Paris"}, "2027-07-05T20:00",
			"Europe/Paris", false},
		{"the source's zone", timing.Clues{Home: "America/Chicago"}, "2027-07-05T20:00", "America/Chicago", false},
		{"the source's zone for UTC times", timing.Clues{Home: "America/Chicago"}, "2027-07-05T20:00Z",
			"America/Chicago", false},
		{"a sure place", timing.Clues{Home: "Europe/Paris", Place: []string{"Europe/Prague"}, PlaceSure: true},
			"2027-07-05T20:00", "Europe/Prague", false},
		{"a sure place for UTC times", timing.Clues{Place: []string{"Europe/Prague"}, PlaceSure: true}, "2027-07-05T20:00Z",
			"Europe/Prague", false},
		{"an unsure place that holds the source's zone", timing.Clues{Home: "America/Denver", Place: us}, "2027-07-05T20:00",
			"America/Denver", false},
		{"an unsure place elsewhere", timing.Clues{Home: "Europe/Paris", Place: us}, "2027-07-05T20:00",
			"Europe/Paris", false},
		{"an unsure place alone", timing.Clues{Place: us}, "2027-07-05T20:00", "America/New_York", true},
		{"the offset picks among zones of the place", timing.Clues{Place: us}, "2027-07-05T20:00-05:00",
			"America/Chicago", false},
		{"the same in winter", timing.Clues{Place: us}, "2027-01-05T20:00-05:00", "America/New_York", false},
		{"the source's zone goes first if it agrees", timing.Clues{Home: "America/Denver", Place: us},
			"2027-07-05T20:00-06:00", "America/Denver", false},
		{"an offset that the place can't have", timing.Clues{Place: []string{"America/New_York"}, PlaceSure: true},
			"2027-07-05T20:00-05:00", "America/New_York", false},
		{"the source's zone agrees", timing.Clues{Home: "Europe/Paris"}, "2027-07-05T20:00+02:00", "Europe/Paris", false},
		{"nothing agrees", timing.Clues{Home: "Europe/Paris"}, "2027-07-05T20:00+09:00", "Etc/GMT-9", false},
		{"an offset alone", timing.Clues{}, "2027-07-05T20:00-05:00", "Etc/GMT+5", false},
		{"an odd offset alone", timing.Clues{}, "2027-07-05T20:00+05:30", "Asia/Kolkata", false},
		{"an impossible offset", timing.Clues{}, "2027-07-05T20:00+05:17", "UTC", false},
		{"a date", timing.Clues{Home: "Europe/Paris"}, "2027-07-05", "Europe/Paris", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.clues.Start = stamp(t, tt.start)
			loc, assumed := timing.Resolve(tt.clues)
			assert.True(t, loc.String() == tt.want && assumed == tt.assumed, "got %s, assumed %v", loc, assumed)
		})
	}
}

// A trial has a window of its own; its month is that of the visit as well.
func TestMonthOfVisit(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	want := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	for _, w := range []timing.Window{timing.WindowAt(now), {From: now.AddDate(0, 0, -14), To: now, Visited: now}} {
		got := w.Month()
		assert.True(t, got.Equal(want), "%+v: %s", w, got)
	}
}
