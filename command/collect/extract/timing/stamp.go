// Package timing reads the dates that sources write and computes when a happening takes place: its timezone, its days,
// its repetitions, and words for them.
//
//	text ──Parse──▶ Stamp ──┐
//	                        ├── Range ──Spans──▶ the days, in a zone from Resolve
//	schedule ──Expand───────┘
//
// The package never reads the clock. Repetitions without an end are expanded within a [Window], which moves once a
// month, so that a page leads to the same occurrences in consecutive collections.
package timing

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // zones for machines without a tz database
)

// ErrNoDate is returned for a text without a day.
var ErrNoDate = errors.New("no date")

// Stamp is a date with an optional time, as a source writes it.
type Stamp struct {
	// Wall is the wall clock, with UTC in place of the zone.
	Wall    time.Time
	HasTime bool
	// Offset is in seconds east of UTC, and counts only if HasOffset.
	HasOffset bool
	Offset    int
}

// In returns the instant of the stamp, shown in loc. A stamp without an offset is in loc.
func (s Stamp) In(loc *time.Location) time.Time {
	if s.HasOffset {
		return s.Wall.Add(-time.Duration(s.Offset) * time.Second).In(loc)
	}
	return OnWall(s.Wall, loc)
}

// IsUTC reports whether the offset is zero, which publishers write for any zone.
func (s Stamp) IsUTC() bool { return s.HasOffset && s.Offset == 0 }

// OnWall reads the wall clock in loc, as RFC 5545 requires: a time that is skipped when clocks go forward gets the
// offset before, and of one that occurs twice the first counts.
func OnWall(wall time.Time, loc *time.Location) time.Time {
	y, m, d := wall.Date()
	hour, minute, second := wall.Clock()
	t := time.Date(y, m, d, hour, minute, second, 0, loc)
	if loc == time.UTC {
		return t
	}
	_, offset := t.Zone()
	if _, before := t.Add(-nearChange).Zone(); before != offset {
		early := time.Date(y, m, d, hour, minute, second, 0, time.UTC).Add(-time.Duration(before) * time.Second).In(loc)
		if _, then := early.Zone(); then == before || t.Hour() != hour || t.Minute() != minute {
			return early
		}
	}
	return t
}

// OnWallAgain returns the later of two instants with the same wall clock.
func OnWallAgain(wall time.Time, loc *time.Location) time.Time {
	t := OnWall(wall, loc)
	_, after := t.Add(nearChange).Zone()
	if later := wall.Add(-time.Duration(after) * time.Second).In(loc); WallOf(later).Equal(wall) {
		return later
	}
	return t
}

// nearChange exceeds any change of clocks.
const nearChange = 3 * time.Hour

// WallOf returns the wall clock of t, with UTC in place of its zone.
func WallOf(t time.Time) time.Time {
	_, offset := t.Zone()
	return time.Unix(t.Unix()+int64(offset), 0).UTC()
}

// Midnight returns the day of a wall clock.
func Midnight(wall time.Time) time.Time { return wall.Truncate(day) }

var (
	isoDate     = regexp.MustCompile(`^(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})`)
	ordinalDate = regexp.MustCompile(`^(\d{4})-(\d{3})(?:\D|$)`)
	basicDate   = regexp.MustCompile(`^(\d{4})(\d{2})(\d{2})(?:\D|$)`)
	numberDate  = regexp.MustCompile(`^(\d{1,2})([-/.])\s?(\d{1,2})[-/.]\s?(\d{4})`)
	dayMonth    = regexp.MustCompile(`(?i)^` + beforeDates + `(\d{1,2})(?:st|nd|rd|th|er|re|ère|º|°|ª|\.)?[\s-]+` +
		`(?:of\s+|de\s+|d’|d')?(\pL{3,12})\.?,?[\s-]+(?:de\s+|del\s+)?(\d{4})`)
	monthDay  = regexp.MustCompile(`(?i)^(\pL{3,12})\.?\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(\d{4})`)
	eastDate  = regexp.MustCompile(`^(\d{4})\s?[年년]\s?(\d{1,2})\s?[月월]\s?(\d{1,2})\s?[日일]`)
	unixTime  = regexp.MustCompile(`^(\d{10})(?:\d{3})?$`)
	firstWord = regexp.MustCompile(`^(\pL+(?:-\pL+)?)\.?,?\s+`)
	untilTime = regexp.MustCompile(beforeTimes)
	bracketed = regexp.MustCompile(`^\s*[(（]\pL+[)）]`)
)

// Parse reads a date in the spellings of the web: ISO 8601 in all its forms and most of its misuses, RFC 1123, numbers
// with the day or the month first, names of months in a dozen languages, Unix time. monthFirst decides "3/4/2027". A
// month or a year alone is not a date.
func Parse(text string, monthFirst bool) (Stamp, error) {
	text = plainDigits(strings.Trim(strings.TrimSpace(text), `"'`))
	if unixTime.MatchString(text) {
		return unixStamp(text)
	}
	day, rest, err := parseDay(text, monthFirst)
	if err != nil {
		return Stamp{}, err
	}
	s := Stamp{Wall: day}
	rest = strings.TrimLeft(bracketed.ReplaceAllString(rest, ""), "Tt ,@\u00a0\u202f")
	rest = untilTime.ReplaceAllString(rest, "")
	if rest == "" {
		return s, nil
	}
	clock, rest, ok := parseClock(rest)
	if !ok {
		// "TBA", or a zone as XML Schema puts it after a date: the day is valid.
		return s, nil
	}
	s.Wall, s.HasTime = day.Add(clock), true
	if s.Offset, s.HasOffset = parseOffset(strings.TrimSpace(rest)); !s.HasOffset {
		s.Offset = 0
	}
	return s, nil
}

func unixStamp(text string) (Stamp, error) {
	seconds, err := strconv.ParseInt(text[:10], 10, 64)
	if err != nil {
		return Stamp{}, fmt.Errorf("%w: %w", ErrNoDate, err)
	}
	return Stamp{Wall: time.Unix(seconds, 0).UTC(), HasTime: true, HasOffset: true}, nil
}

// parseDay reads the date at the start of a text, with an optional weekday before it: "Mar" may be either.
func parseDay(text string, monthFirst bool) (day time.Time, rest string, err error) {
	day, rest, err = parseDate(text, monthFirst)
	if word := firstWord.FindStringSubmatch(text); err != nil && word != nil {
		if _, ok := weekday(word[1]); ok {
			return parseDate(text[len(word[0]):], monthFirst)
		}
	}
	return day, rest, err
}

func parseDate(text string, monthFirst bool) (day time.Time, rest string, err error) {
	var y, m, d string
	switch {
	case matchOff(isoDate, text, &rest, &y, &m, &d):
	case matchOff(eastDate, text, &rest, &y, &m, &d):
	case matchOff(ordinalDate, text, &rest, &y, &d):
		day = time.Date(number(y), 1, number(d), 0, 0, 0, 0, time.UTC)
		if number(y) < 1000 || number(d) < 1 || day.Year() != number(y) {
			return time.Time{}, "", fmt.Errorf("%w: no such day as %.40q", ErrNoDate, text)
		}
		return day, text[8:], nil
	case matchOff(basicDate, text, &rest, &y, &m, &d):
		rest = text[8:]
	case matchOff(dayMonth, text, &rest, &d, &m, &y):
	case matchOff(monthDay, text, &rest, &m, &d, &y):
	default:
		var separator string
		if !matchOff(numberDate, text, &rest, &d, &separator, &m, &y) {
			return time.Time{}, "", fmt.Errorf("%w in %.40q", ErrNoDate, text)
		}
		first, second := number(d), number(m)
		// Dots mean day first everywhere; a number past 12 decides too.
		if separator != "." && (monthFirst && first <= 12 || second > 12) {
			d, m = m, d
		}
	}
	year, month, dayOfMonth := gregorian(number(y), monthNumber(m), number(d))
	day = time.Date(year, time.Month(month), dayOfMonth, 0, 0, 0, 0, time.UTC)
	if year < 1000 || month < 1 || month > 12 || day.Day() != dayOfMonth || day.Month() != time.Month(month) {
		return time.Time{}, "", fmt.Errorf("%w: no such day as %.40q", ErrNoDate, text)
	}
	return day, rest, nil
}

func matchOff(re *regexp.Regexp, text string, rest *string, groups ...*string) bool {
	m := re.FindStringSubmatch(text)
	if m == nil {
		return false
	}
	for i, g := range groups {
		*g = m[i+1]
	}
	*rest = text[len(m[0]):]
	return true
}

// number reads digits; other texts are 0.
func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0
	}
	return n
}

// Window limits expansions without an end.
type Window struct {
	From, To time.Time
	// Visited is a time of the visit, of which the month counts. Optional. Default: a month after From.
	Visited time.Time
}

// Month returns the first day of the month of the visit.
func (w Window) Month() time.Time {
	if w.Visited.IsZero() {
		return w.From.AddDate(0, monthsBack, 0)
	}
	return WindowAt(w.Visited).Month()
}

const (
	monthsBack  = 1
	monthsAhead = 14
)

// WindowAt returns the window around now: from the first day of the month before to the end of a month a year ahead.
// It is the same for all times of a month.
func WindowAt(now time.Time) Window {
	y, m, _ := now.UTC().Date()
	return Window{
		From: time.Date(y, m-monthsBack, 1, 0, 0, 0, 0, time.UTC),
		To:   time.Date(y, m+monthsAhead, 1, 0, 0, 0, 0, time.UTC),
	}
}

// Firm returns the end of the window of the month before. Dates beyond it appear as time passes.
func Firm(now time.Time) time.Time { return WindowAt(now).To.AddDate(0, -1, 0) }

// Key names the window. It differs between windows.
func (w Window) Key() string { return w.From.Format("2006-01") }

// clip returns the days, counted from first, that lie in the window, at least one.
func (w Window) clip(first time.Time, days int) (from, to int) {
	from = min(max(daysBetween(first, w.From), 0), days-1)
	to = max(min(daysBetween(first, w.To), days), from+1)
	return from, to
}
