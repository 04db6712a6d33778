// Package recurrence computes repetitions: it expands the rules of RFC 5545 for calendars and for schema.org's
// schedules.
//
//	text ──ParseRule──▶ Rule ──┐
//	                           ├──Walk──▶ starts within a window, in order
//	first start, steps ────────┘
//
// All times are wall clock: a time.Time in UTC stands for the local clock. A rule may never end or never match, so
// each walk has a window and limited [Steps].
package recurrence

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Frequency is the unit of a rule.
type Frequency int

// Frequencies of RFC 5545, the longest last.
const (
	Secondly Frequency = iota + 1
	Minutely
	Hourly
	Daily
	Weekly
	Monthly
	Yearly
)

var frequencies = map[string]Frequency{
	"SECONDLY": Secondly, "MINUTELY": Minutely, "HOURLY": Hourly,
	"DAILY": Daily, "WEEKLY": Weekly, "MONTHLY": Monthly, "YEARLY": Yearly,
}

// Rule is a recurrence rule, RFC 5545 section 3.3.10.
type Rule struct {
	Frequency Frequency
	// Interval is the number of units between two periods; 0 counts as 1.
	Interval int
	// Count limits the number of starts; 0 for no limit.
	Count int
	// Until is the last possible start; zero for no limit.
	Until Until

	BySecond, ByMinute, ByHour []int
	ByDay                      []Weekday
	// Negative numbers count from the end of the month or of the year.
	ByMonthDay, ByYearDay, ByWeekNo []int
	ByMonth                         []int
	// BySetPos selects starts of one period.
	BySetPos []int
	// WeekStart is the first day of weeks.
	WeekStart time.Weekday
}

// Weekday is a day of the week. Nth is its number in the month, or in the year for a yearly rule without months;
// negative from the end, 0 for each.
type Weekday struct {
	Day time.Weekday
	Nth int
}

// Until is the stated end of a rule.
type Until struct {
	// Wall is the stated clock. A date ends with its last second.
	Wall time.Time
	// UTC marks an end in UTC, whatever the zone of the start.
	UTC bool
}

// In returns the end on the clock of loc, the zone of the start.
func (u Until) In(loc *time.Location) Until {
	if u.UTC && !u.Wall.IsZero() {
		y, m, d := u.Wall.In(loc).Date()
		h, minute, s := u.Wall.In(loc).Clock()
		u.Wall = time.Date(y, m, d, h, minute, s, 0, time.UTC)
	}
	return Until{Wall: u.Wall}
}

// ErrRule is returned for an invalid rule.
var ErrRule = errors.New("no recurrence rule")

const (
	maxInterval = 1_000_000
	// maxList exceeds the distinct numbers of any part of a rule.
	maxList = 1000
)

var weekdays = map[string]time.Weekday{
	"SU": time.Sunday, "MO": time.Monday, "TU": time.Tuesday, "WE": time.Wednesday,
	"TH": time.Thursday, "FR": time.Friday, "SA": time.Saturday,
}

// ParseRule parses the value of an RRULE. It accepts common mistakes: spaces, lower case, backslashes before
// separators, a trailing semicolon. An unreadable part makes the rule invalid, because a rule without one of its
// limits differs.
func ParseRule(text string) (Rule, error) {
	r := Rule{WeekStart: time.Monday}
	text = strings.ToUpper(strings.ReplaceAll(text, `\`, ""))
	seen := map[string]string{}
	for part := range strings.SplitSeq(text, ";") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if name == "" && !ok {
			continue
		}
		name, value = strings.TrimSpace(name), strings.Trim(strings.TrimSpace(value), ",")
		switch before, again := seen[name]; {
		case again && before == value:
			continue
		case again:
			return Rule{}, fmt.Errorf("%w: %.20q is there twice", ErrRule, name)
		}
		seen[name] = value
		if err := r.set(name, value); err != nil {
			return Rule{}, err
		}
	}
	if r.Frequency == 0 {
		return Rule{}, fmt.Errorf("%w: no frequency in %.60q", ErrRule, text)
	}
	return r.normal(), nil
}

// normal removes what the RFC forbids and programs write.
func (r Rule) normal() Rule {
	if r.Frequency < Monthly || len(r.ByWeekNo) > 0 {
		for i := range r.ByDay {
			r.ByDay[i].Nth = 0
		}
	}
	return r
}

func (r *Rule) set(name, value string) error {
	var err error
	switch name {
	case "FREQ":
		f, ok := frequencies[value]
		if !ok {
			return fmt.Errorf("%w: unknown frequency %.20q", ErrRule, value)
		}
		r.Frequency = f
	case "INTERVAL":
		r.Interval, err = number(value, 1, maxInterval)
	case "COUNT":
		// -1 is how some programs write no limit.
		if value != "-1" {
			r.Count, err = number(value, 1, 1<<62)
		}
	case "UNTIL":
		r.Until, err = parseUntil(value)
	case "WKST":
		d, ok := weekdays[value]
		if !ok {
			return fmt.Errorf("%w: week start %.20q", ErrRule, value)
		}
		r.WeekStart = d
	case "BYDAY":
		r.ByDay, err = parseDays(value)
	case "RSCALE":
		if value != "GREGORIAN" {
			return fmt.Errorf("%w: calendar scale %.20q", ErrRule, value)
		}
	case "SKIP":
		if value != "OMIT" {
			return fmt.Errorf("%w: skip %.20q", ErrRule, value)
		}
	default:
		list, ok := r.lists()[name]
		switch {
		case ok:
			*list.into, err = numbers(value, list.least, list.most)
		case !strings.HasPrefix(name, "X-"):
			// A mistyped "UNTL" occurs: without the end the rule would be endless.
			return fmt.Errorf("%w: unknown part %.20q", ErrRule, name)
		}
	}
	return err
}

type list struct {
	into        *[]int
	least, most int
}

func (r *Rule) lists() map[string]list {
	return map[string]list{
		"BYSECOND": {&r.BySecond, 0, 60}, "BYMINUTE": {&r.ByMinute, 0, 59}, "BYHOUR": {&r.ByHour, 0, 23},
		"BYMONTH": {&r.ByMonth, 1, 12}, "BYMONTHDAY": {&r.ByMonthDay, -31, 31}, "BYYEARDAY": {&r.ByYearDay, -366, 366},
		"BYWEEKNO": {&r.ByWeekNo, -53, 53}, "BYSETPOS": {&r.BySetPos, -366, 366},
	}
}

// check reports impossible numbers in rules that weren't parsed.
func (r Rule) check() error {
	for name, list := range r.lists() {
		for _, n := range *list.into {
			if n < list.least || n > list.most || n == 0 && list.least < 0 {
				return fmt.Errorf("%w: %s can't be %d", ErrRule, name, n)
			}
		}
	}
	for _, d := range r.ByDay {
		if d.Nth < -53 || d.Nth > 53 || d.Day < time.Sunday || d.Day > time.Saturday {
			return fmt.Errorf("%w: there is no such day as %d of %d", ErrRule, d.Nth, d.Day)
		}
	}
	if r.Frequency < Secondly || r.Frequency > Yearly || r.Interval < 0 || r.Interval > maxInterval {
		return fmt.Errorf("%w: frequency %d, interval %d", ErrRule, r.Frequency, r.Interval)
	}
	return nil
}

func number(text string, least, most int) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(text), "+"))
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%w: number %.20q", ErrRule, text)
	}
	return n, nil
}

func numbers(text string, least, most int) ([]int, error) {
	if strings.Count(text, ",") >= maxList {
		return nil, fmt.Errorf("%w: a list of more than %d numbers", ErrRule, maxList)
	}
	var found []int
	for part := range strings.SplitSeq(text, ",") {
		n, err := number(part, least, most)
		if err != nil {
			return nil, err
		}
		if n == 0 && least < 0 {
			return nil, fmt.Errorf("%w: 0 counts from neither end", ErrRule)
		}
		found = append(found, n)
	}
	return found, nil
}

func parseDays(text string) ([]Weekday, error) {
	if strings.Count(text, ",") >= maxList {
		return nil, fmt.Errorf("%w: a list of more than %d days", ErrRule, maxList)
	}
	var found []Weekday
	for part := range strings.SplitSeq(text, ",") {
		part = strings.ReplaceAll(strings.TrimSpace(part), " ", "")
		if len(part) < 2 {
			return nil, fmt.Errorf("%w: day %.20q", ErrRule, part)
		}
		day, ok := weekdays[part[len(part)-2:]]
		nth, err := 0, error(nil)
		if prefix := part[:len(part)-2]; prefix != "" {
			nth, err = number(prefix, -53, 53)
		}
		if !ok || err != nil {
			return nil, fmt.Errorf("%w: day %.20q", ErrRule, part)
		}
		found = append(found, Weekday{Day: day, Nth: nth})
	}
	return found, nil
}

func parseUntil(text string) (Until, error) {
	for _, form := range []struct {
		layout string
		utc    bool
	}{{"20060102T150405Z", true}, {"20060102T150405", false}, {"20060102", false}, {"20060102Z", false},
		{"2006-01-02", false}, {"2006-01-02T15:04:05Z", true}} {
		t, err := time.Parse(form.layout, text)
		if err != nil || t.Year() < minYear {
			continue
		}
		if !strings.Contains(form.layout, "15") {
			t = t.Add(24*time.Hour - time.Second)
		}
		return Until{Wall: t, UTC: form.utc}, nil
	}
	return Until{}, fmt.Errorf("%w: end %.30q", ErrRule, text)
}
