package recurrence

import "time"

// Days are counted from 1 January 1970, seconds of the wall clock likewise: whole numbers make a walk of thousands of
// days cheap.

const (
	daySeconds = 86_400
	minYear    = 1
)

// dayOf returns the number of a date (after Howard Hinnant's days_from_civil).
func dayOf(year, month, day int) int {
	if month <= 2 {
		year--
		month += 12
	}
	era := floorDiv(year, 400)
	yearOfEra := year - era*400
	dayOfYear := (153*(month-3)+2)/5 + day - 1
	return era*146_097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719_468
}

// date is the inverse of dayOf.
func date(n int) (year, month, day int) {
	n += 719_468
	era := floorDiv(n, 146_097)
	dayOfEra := n - era*146_097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36_524 - dayOfEra/146_096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	shifted := (5*dayOfYear + 2) / 153
	year, month, day = era*400+yearOfEra, shifted+3, dayOfYear-(153*shifted+2)/5+1
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

func weekdayOf(n int) time.Weekday { return time.Weekday(mod(n+4, 7)) }

func isLeap(year int) bool { return year%4 == 0 && (year%100 != 0 || year%400 == 0) }

func daysInYear(year int) int {
	if isLeap(year) {
		return 366
	}
	return 365
}

func daysInMonth(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		return daysInYear(year) - 337
	}
	return 31
}

// weekStart returns the first day of the week of a day.
func weekStart(n int, first time.Weekday) int { return n - mod(int(weekdayOf(n)-first), 7) }

// firstWeek returns the first day of a year's first week, which has at least four days of the year.
func firstWeek(year int, first time.Weekday) int { return weekStart(dayOf(year, 1, 4), first) }

// weekYear returns the year whose week a day belongs to.
func weekYear(n int, first time.Weekday) int {
	year, _, _ := date(weekStart(n, first) + 3)
	return year
}

func wallSeconds(t time.Time) int64 {
	y, m, d := t.Date()
	return int64(dayOf(y, int(m), d))*daySeconds + int64(t.Hour()*3600+t.Minute()*60+t.Second())
}

func wallTime(seconds int64) time.Time { return time.Unix(seconds, 0).UTC() }

func floorDiv[T int | int64](a, b T) T {
	q := a / b
	if a%b != 0 && (a < 0) != (b < 0) {
		q--
	}
	return q
}

func mod[T int | int64](a, b T) T { return a - floorDiv(a, b)*b }
