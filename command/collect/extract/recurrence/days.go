package recurrence

import "time"

// filter selects the days of a rule. Each field is a set of bits; an empty set allows all.
type filter struct {
	months      uint16
	monthDays   ends64
	yearDays    yearDays
	weeks       ends64
	weekdays    uint8 // any such day
	nth         [7]ends64
	hasNth      bool
	nthOfYear   bool
	weekStart   time.Weekday
	hasYearDays bool
}

// ends64 holds numbers up to 63 that count from the beginning and from the end.
type ends64 struct{ fromStart, fromEnd uint64 }

func (e *ends64) add(n int) {
	if n < 0 {
		e.fromEnd |= 1 << -n
		return
	}
	e.fromStart |= 1 << n
}

func (e ends64) empty() bool { return e == ends64{} }

// has reports whether the n-th of a number of days is in the set.
func (e ends64) has(n, of int) bool { return e.fromStart>>n&1 == 1 || e.fromEnd>>(of-n+1)&1 == 1 }

type yearDays struct{ fromStart, fromEnd [6]uint64 }

func (y *yearDays) add(n int) {
	if n < 0 {
		y.fromEnd[-n/64] |= 1 << (-n % 64)
		return
	}
	y.fromStart[n/64] |= 1 << (n % 64)
}

func (y *yearDays) has(n, of int) bool {
	back := of - n + 1
	return y.fromStart[n/64]>>(n%64)&1 == 1 || y.fromEnd[back/64]>>(back%64)&1 == 1
}

// newFilter reads the parts of a rule about days. Missing ones are taken from the first start, as the RFC requires.
func newFilter(r Rule, startDay int) filter {
	f := filter{weekStart: r.WeekStart}
	for _, m := range r.ByMonth {
		f.months |= 1 << m
	}
	for _, d := range r.ByMonthDay {
		f.monthDays.add(d)
	}
	for _, d := range r.ByYearDay {
		f.yearDays.add(d)
		f.hasYearDays = true
	}
	for _, w := range r.ByWeekNo {
		f.weeks.add(w)
	}
	for _, d := range r.ByDay {
		if d.Nth == 0 {
			f.weekdays |= 1 << d.Day
			continue
		}
		f.nth[d.Day].add(d.Nth)
		f.hasNth = true
	}
	f.nthOfYear = r.Frequency == Yearly && f.months == 0
	f.imply(r, startDay)
	return f
}

func (f *filter) imply(r Rule, startDay int) {
	_, month, day := date(startDay)
	someDay := len(r.ByDay) > 0 || f.hasYearDays
	switch {
	case (r.Frequency == Weekly || r.Frequency == Yearly && !f.weeks.empty()) && !someDay && f.monthDays.empty():
		f.weekdays = 1 << weekdayOf(startDay)
	case r.Frequency == Yearly && f.weeks.empty() && !someDay:
		// A day of the month alone is in the start's month: RFC 5545 leaves it open, and libical does so.
		if f.monthDays.empty() {
			f.monthDays.add(day)
		}
		if f.months == 0 {
			f.months = 1 << month
		}
	case r.Frequency == Monthly && !someDay && f.monthDays.empty():
		f.monthDays.add(day)
	}
}

// any reports whether the filter allows every day.
func (f *filter) any() bool {
	return f.months == 0 && f.monthDays.empty() && !f.hasYearDays && f.weeks.empty() && f.weekdays == 0 && !f.hasNth
}

func (f *filter) allows(n int) bool {
	year, month, day := date(n)
	return f.allowsDate(n, year, month, day)
}

func (f *filter) allowsDate(n, year, month, day int) bool {
	if f.months != 0 && f.months>>month&1 == 0 {
		return false
	}
	if !f.monthDays.empty() && !f.monthDays.has(day, daysInMonth(year, month)) {
		return false
	}
	if (f.weekdays != 0 || f.hasNth) && !f.allowsWeekday(n, year, month, day) {
		return false
	}
	if f.hasYearDays && !f.yearDays.has(n-dayOf(year, 1, 1)+1, daysInYear(year)) {
		return false
	}
	if f.weeks.empty() {
		return true
	}
	of := weekYear(n, f.weekStart)
	first := firstWeek(of, f.weekStart)
	return f.weeks.has((n-first)/7+1, (firstWeek(of+1, f.weekStart)-first)/7)
}

func (f *filter) allowsWeekday(n, year, month, day int) bool {
	weekday := weekdayOf(n)
	if f.weekdays>>weekday&1 == 1 {
		return true
	}
	nth := f.nth[weekday]
	if nth.empty() {
		return false
	}
	of := daysInMonth(year, month)
	if f.nthOfYear {
		day, of = n-dayOf(year, 1, 1)+1, daysInYear(year)
	}
	return nth.fromStart>>((day-1)/7+1)&1 == 1 || nth.fromEnd>>((of-day)/7+1)&1 == 1
}

// days appends the allowed days from first to last, inclusive, and returns the number of days examined.
func (f *filter) days(into []int, first, last int) (found []int, looked int) {
	year, month, day := date(first)
	for n := first; n <= last; {
		looked++
		step, length := 1, daysInMonth(year, month)
		if f.months != 0 && f.months>>month&1 == 0 {
			step = length - day + 1 // skip to the next month
		} else if f.allowsDate(n, year, month, day) {
			into = append(into, n)
		}
		n += step
		if day += step; day > length {
			day = 1
			if month++; month > 12 {
				month = 1
				year++
			}
		}
	}
	return into, looked
}
