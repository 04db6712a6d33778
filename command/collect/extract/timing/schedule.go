package timing

import (
	"regexp"
	"strings"
	"time"

	"carillon/command/collect/budget"
	"carillon/command/collect/extract/recurrence"
)

// Schedule is a rule of repetition, as schema.org's Schedule has it. All times are wall clock.
type Schedule struct {
	// Start and End are the first and the last day. Optional.
	Start, End *time.Time
	// Every is the interval. Its largest unit counts. Without one, the rules below imply it.
	Every Length
	// Rules for days; empty ones hold for all days.
	ByDay       []Weekday
	ByMonth     []int
	ByMonthDay  []int // negative from the month's end
	ByMonthWeek []int // number of the weekday in the month; negative from its end
	// Count is the number of repetitions, including excepted ones; 0 for no limit.
	Count int
	// Opens and Closes are times of day. Length counts if Closes is nil.
	Opens, Closes *time.Duration
	Length        Length
	// Except leaves out repetitions, by day or by day and time.
	Except []Stamp
}

// Weekday is a day of the week. Nth is its number in the month, 0 for each.
type Weekday = recurrence.Weekday

var weekdayText = regexp.MustCompile(`(?i)^(?:https?://)?(?:(?:www\.)?schema\.org/|schema:)?([+-]?\d{1,2})?\s*` +
	`(\pL{2,14}(?:-\pL+)?)$`)

// ParseWeekday reads "Monday", "https://schema.org/Monday", "MO" or "-1FR".
func ParseWeekday(text string) (Weekday, bool) {
	m := weekdayText.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return Weekday{}, false
	}
	word, nth := strings.ToLower(m[2]), number(strings.TrimPrefix(m[1], "+"))
	for d := time.Sunday; d <= time.Saturday; d++ {
		name := strings.ToLower(d.String())
		if strings.HasPrefix(name+"s", word) || strings.HasPrefix(name, strings.TrimSuffix(word, "s")) {
			return Weekday{Day: d, Nth: nth}, true
		}
	}
	d, ok := weekday(word)
	return Weekday{Day: d, Nth: nth}, ok
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

// maxRepetitions limits the repetitions of one schedule.
const maxRepetitions = maxDays

// rangeBytes is the size of a range in memory, with its end.
const rangeBytes = 160

// maxYears limits the past of a schedule.
const maxYears = 50

// Expand returns the repetitions, as far as the budget lasts. A schedule without an end is expanded within the window;
// others are expanded from their start, but never beyond the window's end. Of more than 400 repetitions only those in
// the window remain, or the last one.
func (s Schedule) Expand(b *budget.Budget, w Window) []Range {
	rule, anchor := s.rule()
	span := recurrence.Span{From: Midnight(w.From), To: Midnight(w.To).AddDate(0, 0, 1)}
	if s.End != nil {
		rule.Until = recurrence.Until{Wall: Midnight(*s.End)}
	}
	excepted := s.excepted()
	walk := func(from time.Time, yield func(Range) bool) {
		// An impossible rule yields nothing.
		_ = recurrence.Walk(b, rule, anchor, true, recurrence.Span{From: from, To: span.To}, func(date time.Time) bool {
			r := s.on(date)
			return excepted.has(r.Start) || yield(r)
		})
	}
	var all []Range
	bounded, earliest := s.Start != nil && (s.End != nil || s.Count > 0), span.From.AddDate(-maxYears, 0, 0)
	if bounded {
		all = upTo(maxRepetitions+1, walk, earliest)
	}
	if !bounded || len(all) > maxRepetitions {
		all = upTo(maxRepetitions, walk, span.From)
		if bounded && len(all) == 0 {
			walk(earliest, func(r Range) bool { all = append(all[:0], r); return true })
		}
	}
	if !b.Memory(rangeBytes * len(all)) {
		return nil
	}
	return all
}

// upTo returns the first ranges of a walk.
func upTo(limit int, walk func(time.Time, func(Range) bool), from time.Time) []Range {
	var all []Range
	walk(from, func(r Range) bool { all = append(all, r); return len(all) < limit })
	return all
}

// on returns the repetition that begins on the date.
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

// exceptions are omitted days, and times of days.
type exceptions struct{ days, times map[time.Time]bool }

func (s Schedule) excepted() exceptions {
	e := exceptions{map[time.Time]bool{}, map[time.Time]bool{}}
	for _, x := range s.Except {
		if x.HasTime && s.Opens != nil && !WallOf(x.Wall).Equal(Midnight(x.Wall)) {
			e.times[x.Wall] = true
		} else {
			e.days[Midnight(x.Wall)] = true
		}
	}
	return e
}

func (e exceptions) has(start Stamp) bool { return e.days[Midnight(start.Wall)] || e.times[start.Wall] }

// rule returns the schedule as a recurrence rule, and the day from which it counts.
func (s Schedule) rule() (recurrence.Rule, time.Time) {
	// A Monday, so that weeks have a beginning even without a start.
	anchor := time.Date(1970, 1, 5, 0, 0, 0, 0, time.UTC)
	r := recurrence.Rule{
		ByDay:      s.ByDay,
		ByMonth:    s.ByMonth,
		ByMonthDay: s.ByMonthDay,
		WeekStart:  time.Monday,
	}
	if s.Start != nil {
		anchor, r.Count = Midnight(*s.Start), s.Count
	}
	r.Frequency, r.Interval = s.frequency()
	if len(s.ByMonthWeek) > 0 {
		r.ByDay = s.inWeeks(anchor)
	}
	// A yearly rule with days needs months: all if it names weeks of the month, else that of the start.
	if anyDay := len(r.ByDay) > 0 || len(r.ByMonthDay) > 0; r.Frequency == recurrence.Yearly && anyDay &&
		len(r.ByMonth) == 0 {
		r.ByMonth = []int{int(anchor.Month())}
		if len(s.ByMonthWeek) > 0 {
			r.ByMonth = []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
		}
	}
	return r, anchor
}

// frequency returns the unit and the interval. Without one, the rules imply it.
func (s Schedule) frequency() (recurrence.Frequency, int) {
	switch e := s.Every; {
	case e.Years > 0:
		return recurrence.Yearly, e.Years
	case e.Months > 0:
		return recurrence.Monthly, e.Months
	case e.Weeks > 0:
		return recurrence.Weekly, e.Weeks
	case e.Days > 0 && e.Days%7 == 0:
		return recurrence.Weekly, e.Days / 7
	case e.Days > 0:
		return recurrence.Daily, e.Days
	case len(s.ByMonth) > 0 && len(s.ByDay) == 0:
		return recurrence.Yearly, 1
	case len(s.ByMonthDay) > 0 || len(s.ByMonthWeek) > 0:
		return recurrence.Monthly, 1
	case len(s.ByDay) > 0:
		return recurrence.Weekly, 1
	}
	return recurrence.Daily, 1
}

// inWeeks returns the days in the named weeks of the month: those of ByDay, else the weekday of the start.
func (s Schedule) inWeeks(anchor time.Time) []Weekday {
	days := s.ByDay
	if len(days) == 0 {
		days = []Weekday{{Day: anchor.Weekday()}}
	}
	var found []Weekday
	for _, d := range days {
		for _, week := range s.ByMonthWeek {
			if (d.Nth == 0 || d.Nth == week) && len(found) < maxRepetitions {
				found = append(found, Weekday{Day: d.Day, Nth: week})
			}
		}
	}
	return found
}
