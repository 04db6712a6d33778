package recurrence

import (
	"fmt"
	"math/bits"
	"slices"
	"sort"
	"time"
)

// Span is the range of starts; To is exclusive.
type Span struct{ From, To time.Time }

// Walk yields the starts of a rule in the span, in order, until yield returns false. The rule counts from the first
// start, which need not match it, and takes its time of day from it. allDay marks a date without a time, so that
// hours, minutes and seconds of the rule are ignored.
//
// It fails with ErrSteps if steps returns false, after yielding the starts so far, and with ErrRule if the rule counts
// hours of a date without a time.
func Walk(steps Steps, r Rule, start time.Time, allDay bool, span Span, yield func(time.Time) bool) error {
	w, err := newWalk(steps, r, start, allDay, span)
	if err != nil {
		return err
	}
	w.yield = yield
	switch {
	case w.end <= w.from:
		return nil
	case w.regular():
		return w.walkRegular()
	case r.Frequency >= Daily:
		return w.walkDays()
	}
	return w.walkClock()
}

// walk is a rule with defaults for its missing parts.
type walk struct {
	Steps
	rule     Rule
	interval int
	start    int64 // wall seconds
	startDay int
	from     int64
	end      int64 // the first second after the walk
	days     filter
	hours    []int
	minutes  []int
	seconds  []int
	// hourSet, minuteSet and secondSet are empty if any is allowed.
	hourSet, minuteSet, secondSet uint64
	count                         int // number of starts, if the rule has a Count
	yield                         func(time.Time) bool
}

func newWalk(steps Steps, r Rule, start time.Time, allDay bool, span Span) (*walk, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	if allDay {
		if r.Frequency < Daily {
			return nil, fmt.Errorf("%w: hours of a mere date", ErrRule)
		}
		r.ByHour, r.ByMinute, r.BySecond = nil, nil, nil
	}
	w := &walk{
		Steps:    steps,
		rule:     r,
		interval: max(r.Interval, 1),
		start:    wallSeconds(start),
		end:      wallSeconds(span.To),
	}
	w.startDay = int(floorDiv(w.start, daySeconds))
	w.from = max(w.start, wallSeconds(span.From))
	if !r.Until.Wall.IsZero() {
		w.end = min(w.end, wallSeconds(r.Until.Wall)+1)
	}
	w.days = newFilter(r, w.startDay)
	w.hourSet, w.minuteSet, w.secondSet = set(r.ByHour), set(r.ByMinute), set(r.BySecond)
	w.hours = members(w.hourSet, start.Hour())
	w.minutes = members(w.minuteSet, start.Minute())
	w.seconds = members(w.secondSet, start.Second())
	return w, nil
}

func set(numbers []int) (s uint64) {
	for _, n := range numbers {
		s |= 1 << min(n, 59) // a leap second counts as the last second
	}
	return s
}

func members(s uint64, otherwise int) []int {
	if s == 0 {
		return []int{otherwise}
	}
	found := make([]int, 0, bits.OnesCount64(s))
	for ; s != 0; s &= s - 1 {
		found = append(found, bits.TrailingZeros64(s))
	}
	return found
}

// unitSeconds are the frequencies whose units have one length.
var unitSeconds = map[Frequency]int64{
	Secondly: 1,
	Minutely: 60,
	Hourly:   3600,
	Daily:    daySeconds,
	Weekly:   7 * daySeconds,
}

// regular reports whether only the interval counts, so that starts before the span can be computed instead of counted.
func (w *walk) regular() bool {
	r := w.rule
	return unitSeconds[r.Frequency] > 0 && w.hourSet|w.minuteSet|w.secondSet == 0 && len(r.BySetPos) == 0 &&
		len(r.ByMonth)+len(r.ByMonthDay)+len(r.ByYearDay)+len(r.ByWeekNo)+len(r.ByDay) == 0
}

func (w *walk) walkRegular() error {
	step := unitSeconds[w.rule.Frequency] * int64(w.interval)
	n := -floorDiv(w.start-w.from, step) // the first one in the span
	for t := w.start + n*step; t < w.end && (w.rule.Count == 0 || n < int64(w.rule.Count)); t, n = t+step, n+1 {
		if !w.Work(1) {
			return ErrSteps
		}
		if !w.yield(wallTime(t)) {
			return nil
		}
	}
	return nil
}

// give yields a start. Those before the rule's first one are skipped.
func (w *walk) give(t int64) (goOn bool) {
	if t < w.start {
		return true
	}
	w.count++
	if t >= w.end || w.rule.Count > 0 && w.count > w.rule.Count {
		return false
	}
	return t < w.from || w.yield(wallTime(t))
}

// walkDays visits the days, weeks, months or years of the rule.
func (w *walk) walkDays() error {
	base := w.basePeriod()
	first := base
	if w.rule.Count == 0 {
		// Nothing has to be counted before the span.
		if k := w.periodOf(int(floorDiv(w.from, daySeconds))) - base; k > w.interval {
			first = base + (k/w.interval-1)*w.interval
		}
	}
	var buffer []int
	for period := first; ; period += w.interval {
		begin, last := w.bounds(period)
		if int64(begin)*daySeconds >= w.end {
			return nil
		}
		days, looked := w.days.days(buffer[:0], begin, last)
		buffer = days
		if !w.Work(1 + looked) {
			return ErrSteps
		}
		if goOn, err := w.within(days); err != nil || !goOn {
			return err
		}
	}
}

// periodOf returns the number of the period of a day.
func (w *walk) periodOf(n int) int {
	year, month, _ := date(n)
	switch w.rule.Frequency {
	case Yearly:
		if len(w.rule.ByWeekNo) > 0 {
			return weekYear(n, w.rule.WeekStart)
		}
		return year
	case Monthly:
		return year*12 + month - 1
	case Weekly:
		return floorDiv(weekStart(n, w.rule.WeekStart)-weekStart(0, w.rule.WeekStart), 7)
	default:
		return n
	}
}

// basePeriod returns the period of the first start. A year of weeks counts from the one whose week has the start if
// that matches the rule, else from the one in the date, as in libical.
func (w *walk) basePeriod() int {
	base := w.periodOf(w.startDay)
	if len(w.rule.ByWeekNo) == 0 || w.rule.Frequency != Yearly || w.days.allows(w.startDay) {
		return base
	}
	year, _, _ := date(w.startDay)
	if w.interval == 1 {
		return min(base, year)
	}
	return year
}

// bounds returns the first and the last day of a period.
func (w *walk) bounds(period int) (first, last int) {
	switch w.rule.Frequency {
	case Yearly:
		if len(w.rule.ByWeekNo) > 0 {
			return firstWeek(period, w.rule.WeekStart), firstWeek(period+1, w.rule.WeekStart) - 1
		}
		return dayOf(period, 1, 1), dayOf(period, 12, 31)
	case Monthly:
		year, month := floorDiv(period, 12), mod(period, 12)+1
		return dayOf(year, month, 1), dayOf(year, month, daysInMonth(year, month))
	case Weekly:
		first = period*7 + weekStart(0, w.rule.WeekStart)
		return first, first + 6
	default:
		return period, period
	}
}

// within yields the starts of one period, by its days and the times of day.
func (w *walk) within(days []int) (goOn bool, err error) {
	times := len(w.hours) * len(w.minutes) * len(w.seconds)
	at := func(i int) int64 { return int64(days[i/times])*daySeconds + w.clock(i%times) }
	return w.pick(len(days)*times, at)
}

// clock returns the i-th time of day, in seconds.
func (w *walk) clock(i int) int64 {
	s, i := i%len(w.seconds), i/len(w.seconds)
	m, h := i%len(w.minutes), i/len(w.minutes)
	return int64(w.hours[h]*3600 + w.minutes[m]*60 + w.seconds[s])
}

// pick yields the candidates of a period that BYSETPOS selects. at returns the i-th of them, in order.
func (w *walk) pick(total int, at func(int) int64) (goOn bool, err error) {
	if total == 0 {
		return true, nil
	}
	if len(w.rule.BySetPos) > 0 {
		chosen := w.positions(total)
		all := at
		total, at = len(chosen), func(i int) int64 { return all(chosen[i]) }
		if total == 0 {
			return true, nil
		}
	}
	skip := 0
	switch {
	case w.rule.Count == 0:
		skip = sort.Search(total, func(i int) bool { return at(i) >= w.from })
	case at(0) >= w.start && at(total-1) < w.from:
		w.count += total // counted as a whole
		return w.count < w.rule.Count, nil
	}
	for i := skip; i < total; i++ {
		if !w.Work(1) {
			return false, ErrSteps
		}
		if !w.give(at(i)) {
			return false, nil
		}
	}
	return true, nil
}

// positions returns the indexes that BYSETPOS selects of total candidates, in order.
func (w *walk) positions(total int) []int {
	chosen := make([]int, 0, len(w.rule.BySetPos))
	for _, p := range w.rule.BySetPos {
		switch {
		case p > 0 && p <= total:
			chosen = append(chosen, p-1)
		case p < 0 && -p <= total:
			chosen = append(chosen, total+p)
		}
	}
	slices.Sort(chosen)
	return slices.Compact(chosen)
}
