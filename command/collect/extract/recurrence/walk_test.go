package recurrence_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"carillon/command/collect/budget"
	"carillon/command/collect/extract/recurrence"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func at(text string) time.Time {
	t, err := time.Parse("2006-01-02T15:04:05", text)
	if err != nil {
		panic(err)
	}
	return t
}

// walked lists the starts within a span, at most twelve.
func walked(t *testing.T, steps int, text string, start, from, to time.Time, allDay bool) (string, error) {
	t.Helper()
	rule, err := recurrence.ParseRule(text)
	if err != nil {
		return "", err
	}
	rule.Until = rule.Until.In(time.UTC)
	var got []string
	err = recurrence.Walk(budget.Of(t.Context(), steps, 0), rule, start, allDay, recurrence.Span{From: from, To: to},
		func(at time.Time) bool {
			got = append(got, at.Format("060102T1504"))
			return len(got) < 12
		})
	return strings.Join(got, " "), err
}

func TestWalk(t *testing.T) {
	t.Parallel()
	start, from, to := at("2024-01-31T20:00:00"), at("2026-10-01T00:00:00"), at("2026-11-15T00:00:00")
	for _, tt := range []struct{ rule, want string }{
		{"FREQ=WEEKLY;INTERVAL=2", "261007T2000 261021T2000 261104T2000"},
		{"FREQ=MONTHLY", "261031T2000"},
		{"FREQ=MONTHLY;BYDAY=-1MO,2TU;BYHOUR=9,18", "261013T0900 261013T1800 261026T0900 261026T1800 261110T0900 " +
			"261110T1800"},
		{"FREQ=YEARLY;BYMONTH=10,11;BYDAY=1SU", "261004T2000 261101T2000"},
		{"FREQ=DAILY;COUNT=975", "261001T2000"},
		{"FREQ=DAILY;COUNT=974", ""},
		{"FREQ=DAILY;UNTIL=20261002", "261001T2000 261002T2000"},
		{"FREQ=DAILY;UNTIL=20261002T195959Z", "261001T2000"},
		{"freq = weekly ; byday = th\\, su;", "261001T2000 261004T2000 261008T2000 261011T2000 261015T2000 261018T2000 " +
			"261022T2000 261025T2000 261029T2000 261101T2000 261105T2000 261108T2000"},
		{"FREQ=WEEKLY;BYDAY=1WE,3WE;COUNT=1000;INTERVAL=4", "261007T2000 261104T2000"},
		{"FREQ=HOURLY;BYHOUR=3,5;BYDAY=SA;INTERVAL=2", ""},
		{"FREQ=HOURLY;BYHOUR=4;BYDAY=SA;INTERVAL=2", "261003T0400 261010T0400 261017T0400 261024T0400 261031T0400 " +
			"261107T0400 261114T0400"},
		{"FREQ=MINUTELY;BYMONTH=10;BYMONTHDAY=5;BYHOUR=7;BYMINUTE=30", "261005T0730"},
		{"FREQ=SECONDLY;BYMONTH=10;BYMONTHDAY=5;BYHOUR=7;BYMINUTE=30;BYSECOND=0", "261005T0730"},
		{"FREQ=YEARLY;BYWEEKNO=41", "261007T2000"},
		{"FREQ=YEARLY;BYYEARDAY=-365,-62", "261031T2000"},
		{"FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1,99", "261030T2000"},
	} {
		got := must.Get(walked(t, 100_000, tt.rule, start, from, to, false))(t)
		assert.Equal(t, got, tt.want, "%s", tt.rule)
	}
	if got, err := walked(t, 100, "FREQ=DAILY;BYHOUR=1,2", start, from, from.AddDate(0, 0, 1), true); err != nil ||
		got != "261001T2000" {
		t.Errorf("the hours of a date count: %s, %v", got, err)
	}
}

// The cost of any rule stays within its budget, and computable parts cost nothing.
func TestHostileRules(t *testing.T) {
	t.Parallel()
	from, to := at("2026-10-01T00:00:00"), at("2028-01-01T00:00:00")
	for _, tt := range []struct {
		rule  string
		start string
		steps int
		err   error
	}{
		{"FREQ=SECONDLY", "0001-01-01T00:00:00", 12, nil},
		{"FREQ=SECONDLY;COUNT=4000000000000000000", "0001-01-01T00:00:00", 12, nil},
		{"FREQ=MINUTELY;COUNT=2000000000", "1970-01-01T00:00:00", 12, nil},
		{"FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30", "0001-01-01T00:00:00", 500, nil},
		{"FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30", "0001-01-01T00:00:00", 500, nil},
		{"FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30;COUNT=5", "0001-01-01T00:00:00", 100_000, recurrence.ErrSteps},
		{"FREQ=SECONDLY;BYDAY=MO,TU,WE;COUNT=2000000000", "1970-01-01T00:00:00", 100_000, recurrence.ErrSteps},
		{"FREQ=SECONDLY;INTERVAL=60;BYSECOND=7", "1970-01-01T00:00:00", 100_000, recurrence.ErrSteps},
		{"FREQ=DAILY;BYSETPOS=366", "0001-01-01T00:00:00", 2000, nil},
		{"FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYHOUR=1,2,3,4,5;BYMINUTE=1,2,3,4,5;BYSECOND=1,2,3,4,5;BYSETPOS=-366",
			"0001-01-01T00:00:00", 2000, nil},
		{"FREQ=YEARLY;INTERVAL=1000000", "2026-11-01T00:00:00", 500, nil},
	} {
		assert.Is(t, assert.Err(walked(t, tt.steps, tt.rule, at(tt.start), from, to, false)), tt.err,
			"%s within %d steps", tt.rule, tt.steps)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	rule := recurrence.Rule{Frequency: recurrence.Secondly, BySecond: []int{7}, Interval: 60}
	err := recurrence.Walk(budget.Of(ended, 1<<40, 0), rule, at("1970-01-01T00:00:00"), false, recurrence.Span{From: from,
		To: to}, func(time.Time) bool {
		return true
	})
	assert.Is(t, err, recurrence.ErrSteps, "a walk outlives its context")
}

func TestParseRule_invalid(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "COUNT=3", "FREQ=FORTNIGHTLY", "FREQ=DAILY;INTERVAL=0", "FREQ=DAILY;COUNT=0", "FREQ=DAILY;COUNT=x",
		"FREQ=DAILY;UNTIL=soon", "FREQ=WEEKLY;BYDAY=TH;UNTL=20191023", "FREQ=WEEKLY;BYDAY=XX", "FREQ=WEEKLY;BYDAY=99MO",
		"FREQ=YEARLY;BYMONTH=13", "FREQ=YEARLY;BYMONTH=0", "FREQ=MONTHLY;BYMONTHDAY=0", "FREQ=MONTHLY;BYMONTHDAY=-32",
		"RSCALE=CHINESE;FREQ=YEARLY",
		"FREQ=DAILY;FREQ=WEEKLY",
		"FREQ=DAILY;WKST=X",
		"FREQ=DAILY;BYHOUR=" + strings.Repeat("1,", 5000) + "1", "FREQ=WEEKLY;BYDAY=" + strings.Repeat("MO,", 5000) + "TU",
	} {
		r, err := recurrence.ParseRule(text)
		assert.True(t, errors.Is(err, recurrence.ErrRule), "%.40q is %+v, %v", text, r, err)
	}
	must.Get(recurrence.ParseRule("FREQ=DAILY;X-NOTE=any;WKST=SU"))(t)
}

// A second implementation of the RFC's table for dates: for each day of a span, it checks whether it is in a period of
// the rule and matches all its parts.
func TestWalk_secondImplementation(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		some := func(name string, least, most int) []int {
			n := rapid.IntRange(0, 2).Draw(t, name+" count")
			return rapid.SliceOfN(rapid.IntRange(least, most).Filter(func(n int) bool { return n != 0 }), n, n).Draw(t, name)
		}
		r := recurrence.Rule{
			Frequency: rapid.SampledFrom([]recurrence.Frequency{recurrence.Daily, recurrence.Weekly, recurrence.Monthly}).
				Draw(t, "frequency"),
			Interval:   rapid.IntRange(1, 4).Draw(t, "interval"),
			Count:      rapid.SampledFrom([]int{0, 0, 1, 7, 100}).Draw(t, "count"),
			ByMonth:    some("month", 1, 12),
			ByMonthDay: some("day of the month", -31, 31),
			ByYearDay:  some("day of the year", -366, 366),
			WeekStart:  time.Weekday(rapid.IntRange(0, 6).Draw(t, "week start")),
		}
		for _, d := range some("weekday", 1, 7) {
			r.ByDay = append(r.ByDay, recurrence.Weekday{Day: time.Weekday(d - 1), Nth: rapid.IntRange(-5, 5).Draw(t, "nth")})
		}
		start := at("2023-01-01T00:00:00").AddDate(0, 0, rapid.IntRange(0, 800).Draw(t, "start"))
		from := start.AddDate(0, 0, rapid.IntRange(-100, 800).Draw(t, "from"))
		to := start.AddDate(0, 0, 1500)
		var want, got []string
		count := 0
		for day := start; day.Before(to); day = day.AddDate(0, 0, 1) {
			if !meets(r, start, day) {
				continue
			}
			if count++; r.Count > 0 && count > r.Count {
				break
			}
			if !day.Before(from) {
				want = append(want, day.Format("060102"))
			}
		}
		err := recurrence.Walk(budget.Of(context.Background(), 1_000_000, 0), r, start, true, recurrence.Span{From: from,
			To: to}, func(at time.Time) bool {
			got = append(got, at.Format("060102"))
			return true
		})
		if err != nil || strings.Join(got, " ") != strings.Join(want, " ") {
			t.Fatalf("%+v from %s in [%s, %s): %v\n got %v\nwant %v", r, start, from, to, err, got, want)
		}
	})
}

func meets(r recurrence.Rule, start, day time.Time) bool {
	days := func(a, b time.Time) int { return int(b.Sub(a).Hours()) / 24 }
	inMonth := time.Date(day.Year(), day.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	inYear := time.Date(day.Year(), 12, 31, 0, 0, 0, 0, time.UTC).YearDay()
	periods := days(start, day)
	switch r.Frequency {
	case recurrence.Weekly:
		week := func(t time.Time) time.Time { return t.AddDate(0, 0, -(int(t.Weekday()-r.WeekStart)+7)%7) }
		periods = days(week(start), week(day)) / 7
	case recurrence.Monthly:
		periods = (day.Year()-start.Year())*12 + int(day.Month()-start.Month())
	default:
	}
	if periods%r.Interval != 0 {
		return false
	}
	among := func(list []int, n, of int) bool {
		for _, x := range list {
			if x == n || x == n-of-1 {
				return true
			}
		}
		return len(list) == 0
	}
	weekday := len(r.ByDay) == 0
	for _, d := range r.ByDay {
		nth, fromEnd := (day.Day()-1)/7+1, -((inMonth-day.Day())/7 + 1)
		weekday = weekday || d.Day == day.Weekday() && (d.Nth == 0 || d.Nth == nth || d.Nth == fromEnd)
	}
	if len(r.ByDay)+len(r.ByMonthDay)+len(r.ByYearDay) == 0 {
		switch r.Frequency {
		case recurrence.Weekly:
			weekday = day.Weekday() == start.Weekday()
		case recurrence.Monthly:
			weekday = day.Day() == start.Day()
		default:
		}
	}
	return weekday && among(r.ByMonth, int(day.Month()), 999) && among(r.ByMonthDay, day.Day(), inMonth) &&
		among(r.ByYearDay, day.YearDay(), inYear)
}

// FuzzWalk shows that no rule exceeds a budget, yields starts out of order or out of its span, or more than its count.
func FuzzWalk(f *testing.F) {
	f.Add("FREQ=MONTHLY;BYDAY=-1MO;BYSETPOS=1,-1;COUNT=3", int64(1_700_000_000), int64(0), false)
	f.Add("FREQ=YEARLY;BYWEEKNO=53,-1;WKST=FR;UNTIL=20400101", int64(1_700_000_000), int64(1e9), true)
	f.Add("FREQ=HOURLY;BYYEARDAY=366;BYHOUR=1,2;INTERVAL=7", int64(-62_135_596_800), int64(1e8), false)
	f.Fuzz(func(t *testing.T, text string, begin, later int64, allDay bool) {
		rule, err := recurrence.ParseRule(text)
		start := time.Unix(begin, 0).UTC()
		if err != nil || start.Year() < 1 || start.Year() > 9999 {
			return
		}
		from := start.Add(time.Duration(later%1e9) * time.Second)
		span := recurrence.Span{From: from, To: from.AddDate(3, 0, 0)}
		var last time.Time
		n := 0
		_ = recurrence.Walk(budget.Of(t.Context(), 50_000, 0), rule, start, allDay, span, func(at time.Time) bool {
			if n++; n > 1 && !at.After(last) || at.Before(span.From) || at.Before(start) || !at.Before(span.To) ||
				rule.Count > 0 && n > rule.Count {
				t.Errorf("%q from %s in %v: start %d is %s after %s", text, start, span, n, at, last)
			}
			last = at
			return n < 2000
		})
	})
}

// libical is the path of libical's cases in the corpus beside the project. Optional.
var libical = filepath.Join("..", "..", "..", "..", "..", "shared", "corpus", "libical", "icalrecur_test.txt")

// recurrenceCase is a rule with its expected starts.
type recurrenceCase struct {
	comment, rule, start, startAt string
	instances                     []string
}

func readCases(t *testing.T, name string) []recurrenceCase {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Skip("the corpus isn't here")
	}
	defer func() { _ = file.Close() }()
	var all []recurrenceCase
	var c recurrenceCase
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch {
		case strings.HasPrefix(name, "#"):
			c.comment = lines.Text()
		case name == "RRULE":
			c.rule = value
		case name == "DTSTART":
			c.start = value
		case name == "START-AT":
			c.startAt = value
		case name == "INSTANCES":
			c.instances = strings.Split(strings.TrimSpace(value), ",")
			all = append(all, c)
			c = recurrenceCase{}
		}
	}
	must.OK(t, lines.Err())
	return all
}

func wall(t *testing.T, text string) (at time.Time, allDay bool) {
	t.Helper()
	if at, err := time.Parse("20060102", text); err == nil {
		return at, true
	}
	at = must.Get(time.Parse("20060102T150405", strings.TrimSuffix(text, "Z")))(t)
	return at, false
}

// unlike lists the cases whose expectation is not met, with the reasons.
var unlike = map[string]string{
	"FREQ=YEARLY;BYMONTH=12;BYMONTHDAY=30;BYWEEKNO=1;UNTIL=20320101": "libical doesn't implement the combination",
}

func TestLibical(t *testing.T) {
	t.Parallel()
	cases := readCases(t, libical)
	must.True(t, len(cases) >= 139, "only %d cases were read", len(cases))
	met := 0
	for _, c := range cases {
		if unlike[c.rule] != "" {
			continue
		}
		got, err := expand(t, c)
		if err != nil {
			t.Errorf("%s\n%s from %s: %v", c.comment, c.rule, c.start, err)
			continue
		}
		if diff := cmp.Diff(c.instances, got); diff != "" {
			t.Errorf("%s\n%s from %s (-want +got):\n%s", c.comment, c.rule, c.start, diff)
			continue
		}
		met++
	}
	t.Logf("%d of %d cases are met, %d are left out with a reason", met, len(cases), len(unlike))
}

func expand(t *testing.T, c recurrenceCase) ([]string, error) {
	t.Helper()
	rule, err := recurrence.ParseRule(c.rule)
	if err != nil {
		return nil, err
	}
	rule.Until = rule.Until.In(time.UTC)
	start, allDay := wall(t, c.start)
	layout := "20060102T150405"
	if allDay {
		layout = "20060102"
	}
	if strings.HasSuffix(c.start, "Z") {
		layout += "Z"
	}
	span := recurrence.Span{From: start, To: start.AddDate(150, 0, 0)}
	var got []string
	err = recurrence.Walk(budget.Of(context.Background(), 1_000_000, 0), rule, start, allDay, span,
		func(at time.Time) bool {
			got = append(got, at.Format(layout))
			return len(got) < 5000
		})
	if err != nil && !errors.Is(err, recurrence.ErrSteps) {
		return nil, err
	}
	return got, err
}
