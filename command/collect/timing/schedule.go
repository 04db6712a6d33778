package timing

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"carillon/command/collect/budget"
)

// Schedule is a rule of repetition, as schema.org's Schedule has it. All times
// are wall clock.
type Schedule struct {
	// Start and End are the first and the last day; either may be nil.
	Start, End *time.Time
	// Every is the interval. Its largest unit counts; without one the rules
	// below imply it.
	Every Length
	// The rules that a day has to meet; empty ones are met.
	ByDay       []Weekday
	ByMonth     []int
	ByMonthDay  []int // negative from the month's end
	ByMonthWeek []int // which such weekday in the month; negative from its end
	// Count ends the schedule after so many repetitions, excepted ones
	// included; 0 for no limit.
	Count int
	// Opens and Closes are times of day; Length counts where Closes is nil.
	Opens, Closes *time.Duration
	Length        Length
	// Except leaves out repetitions, by day or by day and time.
	Except []Stamp
}

// Weekday is a day of the week; Nth which one in the month, 0 for each.
type Weekday struct {
	Day time.Weekday
	Nth int
}

var weekdayText = regexp.MustCompile(`(?i)^(?:https?://)?(?:(?:www\.)?schema\.org/|schema:)?([+-]?\d{1,2})?\s*([a-z]{2,10})$`)

// ParseWeekday reads "Monday", "https://schema.org/Monday", "MO" or "-1FR".
func ParseWeekday(text string) (Weekday, bool) {
	m := weekdayText.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return Weekday{}, false
	}
	word := strings.ToLower(m[2])
	for d := time.Sunday; d <= time.Saturday; d++ {
		name := strings.ToLower(d.String())
		if strings.HasPrefix(name+"s", word) || strings.HasPrefix(name, strings.TrimSuffix(word, "s")) {
			return Weekday{Day: d, Nth: number(strings.TrimPrefix(m[1], "+"))}, true
		}
	}
	return Weekday{}, false
}

// frequencies are the words that publishers write instead of a duration.
var frequencies = map[string]Length{
	"daily": {Days: 1}, "weekly": {Weeks: 1}, "biweekly": {Weeks: 2}, "fortnightly": {Weeks: 2},
	"monthly": {Months: 1}, "quarterly": {Months: 3}, "yearly": {Years: 1}, "annually": {Years: 1},
}

// ParseFrequency reads an interval: an ISO 8601 duration or a word.
func ParseFrequency(text string) (Length, bool) {
	if l, ok := frequencies[strings.ToLower(strings.TrimSpace(text))]; ok {
		return l, true
	}
	return ParseLength(text)
}

// maxRepetitions caps the repetitions of one schedule.
const maxRepetitions = maxDays

// rangeBytes is what a range takes in memory, with its end.
const rangeBytes = 160

// maxYears is how far back a schedule is counted through.
const maxYears = 50

// Expand gives the repetitions. A schedule that has no end is expanded within
// the window, one that has is expanded from its start, but never beyond the
// window's end; if it has more than 400 repetitions only those in the window
// remain, or the last one.
//
// Where the budget ends, so does what is given.
func (s Schedule) Expand(b *budget.Budget, w Window) []Range {
	rule := s.rule(w)
	last := midnight(w.To)
	if s.End != nil && midnight(*s.End).Before(last) {
		last = midnight(*s.End)
	}
	var all []Range
	count := 0
	for date := rule.from; !date.After(last); date = date.AddDate(0, 0, 1) {
		if !b.Work(1) {
			return nil
		}
		if !rule.matches(date) {
			continue
		}
		count++
		if s.Count > 0 && s.Start != nil && count > s.Count {
			break
		}
		r := s.on(date)
		if !b.Work(len(s.Except)) {
			return nil
		}
		if !s.excepts(r) {
			all = append(all, r)
		}
	}
	if len(all) > maxRepetitions {
		i := slices.IndexFunc(all, func(r Range) bool { return !r.Start.Wall.Before(w.From) })
		if i < 0 {
			i = len(all) - 1
		}
		all = all[i:min(i+maxRepetitions, len(all))]
	}
	// A copy, so that what was left out is not kept by what remains.
	all = slices.Clone(all)
	if !b.Memory(rangeBytes * len(all)) {
		return nil
	}
	return all
}

// on is the repetition that begins on the date.
func (s Schedule) on(date time.Time) Range {
	r := Range{Start: Stamp{Wall: date}, Length: s.Length}
	if s.Opens == nil {
		return r
	}
	r.Start.Wall, r.Start.HasTime = date.Add(*s.Opens), true
	if s.Closes != nil {
		r.End = &Stamp{Wall: date.Add(*s.Closes), HasTime: true}
	}
	return r
}

func (s Schedule) excepts(r Range) bool {
	return slices.ContainsFunc(s.Except, func(x Stamp) bool {
		if x.HasTime && r.Start.HasTime && sinceMidnight(x.Wall) != 0 {
			return x.Wall.Equal(r.Start.Wall)
		}
		return midnight(x.Wall).Equal(midnight(r.Start.Wall))
	})
}

// rule is a schedule with what it leaves open filled in.
type rule struct {
	Schedule
	unit     byte // one of D, W, M, Y
	interval int
	// anchor is what intervals are counted from, from where to begin.
	anchor, from time.Time
}

func (s Schedule) rule(w Window) rule {
	r := rule{Schedule: s, interval: 1}
	switch e := s.Every; {
	case e.Years > 0:
		r.unit, r.interval = 'Y', e.Years
	case e.Months > 0:
		r.unit, r.interval = 'M', e.Months
	case e.Weeks > 0:
		r.unit, r.interval = 'W', e.Weeks
	case e.Days > 0 && e.Days%7 == 0:
		r.unit, r.interval = 'W', e.Days/7
	case e.Days > 0:
		r.unit, r.interval = 'D', e.Days
	case len(s.ByMonth) > 0 && len(s.ByDay) == 0:
		r.unit = 'Y'
	case len(s.ByMonthDay) > 0 || len(s.ByMonthWeek) > 0:
		r.unit = 'M'
	case len(s.ByDay) > 0:
		r.unit = 'W'
	default:
		r.unit = 'D'
	}
	// A Monday, so that weeks have a beginning even without a start.
	r.anchor, r.from = time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC), midnight(w.From)
	if s.Start != nil {
		r.anchor = midnight(*s.Start)
		if bounded := s.End != nil || s.Count > 0; bounded || r.anchor.After(r.from) {
			r.from = r.anchor
		}
		if earliest := midnight(w.From).AddDate(-maxYears, 0, 0); r.from.Before(earliest) {
			r.from = earliest
		}
	}
	return r
}

func (r rule) matches(date time.Time) bool {
	return r.aligned(date) && r.inMonth(date) && r.onMonthDay(date) && r.onWeekday(date)
}

// aligned: the date lies in one of the periods that the interval picks. A unit
// without a rule for its days means the day of the start.
func (r rule) aligned(date time.Time) bool {
	anyDay := len(r.ByDay) > 0 || len(r.ByMonthDay) > 0
	months := (date.Year()-r.anchor.Year())*12 + int(date.Month()-r.anchor.Month())
	switch r.unit {
	case 'Y':
		return (date.Year()-r.anchor.Year())%r.interval == 0 &&
			(anyDay || date.Day() == r.anchor.Day()) &&
			(len(r.ByMonth) > 0 || anyDay && len(r.ByMonthWeek) > 0 || date.Month() == r.anchor.Month())
	case 'M':
		return months%r.interval == 0 && (anyDay || date.Day() == r.anchor.Day())
	case 'W':
		weeks := daysBetween(weekStart(r.anchor), weekStart(date)) / 7
		return weeks%r.interval == 0 && (anyDay || date.Weekday() == r.anchor.Weekday())
	}
	return daysBetween(r.anchor, date)%r.interval == 0
}

func (r rule) inMonth(date time.Time) bool {
	return len(r.ByMonth) == 0 || slices.Contains(r.ByMonth, int(date.Month()))
}

func (r rule) onMonthDay(date time.Time) bool {
	return len(r.ByMonthDay) == 0 || slices.Contains(r.ByMonthDay, date.Day()) ||
		slices.Contains(r.ByMonthDay, date.Day()-daysIn(date)-1)
}

func (r rule) onWeekday(date time.Time) bool {
	nth := (date.Day()-1)/7 + 1
	fromEnd := -((daysIn(date)-date.Day())/7 + 1)
	in := func(week int) bool { return week == nth || week == fromEnd }
	if len(r.ByMonthWeek) > 0 && !slices.ContainsFunc(r.ByMonthWeek, in) {
		return false
	}
	return len(r.ByDay) == 0 || slices.ContainsFunc(r.ByDay, func(d Weekday) bool {
		return d.Day == date.Weekday() && (d.Nth == 0 || in(d.Nth))
	})
}

func weekStart(date time.Time) time.Time {
	return date.AddDate(0, 0, -(int(date.Weekday())+6)%7)
}

func daysIn(date time.Time) int {
	return time.Date(date.Year(), date.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
}
