package posts

import "time"

// date is an expression of one or more days, with its tokens.
type date struct {
	from, to int
	// days are the days of a list, in order, or the first day of a range; last is the last day of a range.
	days []time.Time
	last time.Time
	// until is the time at which the last day ends, if a range has both times. Optional.
	until *clock
	// words beside the day
	weekday, year bool
	// byName marks a day by a word such as "tomorrow", relative to the time of the post.
	byName nameKind
	// wrong is the reason why the day can't be an event's, whatever its context.
	wrong   string
	reasons []string
}

type nameKind int

const (
	byDate nameKind = iota
	byDayWord
	byWeekday
)

// part is a written day: some days of one month, or a range of them.
type part struct {
	from, to int
	days     []int
	isRange  bool
	month    time.Month
	year     int // 0 if not stated
	weekday  int // of the first day, from 1 for Sunday; 0 if not stated
	weak     bool
}

var (
	rangeSigns = wordSet("- – — − ‐ ‑ ~ 〜 ～ bis to till until til au al a tot through thru")
	listSigns  = wordSet("& + , / und and et y e og och en plus")
	ordinals   = wordSet("st nd rd th er ère re e o a ª º ° .")
	joiners    = wordSet("of de d di del ' ’ - .")
	articles   = wordSet("the den der dem d le la el il lo op på on am dia día a o ( , . : - – | jour")
)

// findDates returns all dates of the post, in order.
func (r *reader) findDates() []date {
	var found []date
	for i := 0; i < len(r.words); {
		if !r.budget.Work(20) {
			return nil
		}
		d, ok := date{}, false
		if t := r.at(i); t.number >= 0 || dateStarts[t.lower] {
			if d, ok = r.dateAt(i); !ok {
				d, ok = r.namedDay(i)
			}
		}
		if !ok {
			i++
			continue
		}
		found = append(found, d)
		i = d.to
		if len(found) == maxDates {
			break
		}
	}
	return found
}

// maxDates and maxClocks exceed those of any announcement.
const maxDates, maxClocks = 60, 120

func (r *reader) at(i int) *token {
	if i < 0 || i >= len(r.words) {
		return &token{
			number:   -1,
			line:     -1,
			sentence: -1,
			space:    true,
		}
	}
	return &r.words[i]
}

// glued reports whether a token follows the one before it without a space.
func (r *reader) glued(i int) bool { return i < len(r.words) && !r.words[i].space }

// sameLine reports whether two tokens are in one line. A date crosses the end of a line only after its weekday.
func (r *reader) sameLine(i, j int) bool { return r.at(i).line == r.at(j).line }

// dateAt reads a date at a token; a range of two dates is one.
func (r *reader) dateAt(i int) (date, bool) {
	p, ok := r.partAt(i)
	if !ok {
		return date{}, false
	}
	if j := p.to; r.at(j).is(rangeSigns) && r.sameLine(j, i) && !p.isRange {
		next := j + 1
		if r.at(j).lower == "bis" || r.at(j).lower == "up" {
			for r.at(next).lower == "zum" || r.at(next).lower == "to" {
				next++
			}
		}
		for r.at(next).lower == "al" || r.at(next).lower == "au" || r.at(next).lower == "le" {
			next++
		}
		if q, ok := r.partAt(next); ok && len(p.days) == 1 && len(q.days) == 1 {
			return r.rangeOf(p, q), true
		}
	}
	if p.weak && !r.strengthened(p) {
		return date{}, false
	}
	return r.single(p), true
}

// partAt reads a date, with its weekday before or after it.
func (r *reader) partAt(i int) (part, bool) {
	if n := weekdays[r.at(i).lower]; n > 0 && r.at(i).isWord() && (len(r.at(i).lower) > 2 || r.at(i).upper) {
		j := i + 1
		for j < i+4 && r.at(j).is(articles) {
			j++
		}
		if p, ok := r.bareDate(j); ok {
			p.from, p.weekday = i, n
			return p, true
		}
		return part{}, false
	}
	p, ok := r.bareDate(i)
	if !ok {
		return p, false
	}
	if j := p.to; p.weekday == 0 && r.sameLine(j, i) {
		open := r.at(j).lower
		if (open == "(" || open == "," || open == "[") && weekdays[r.at(j+1).lower] > 0 {
			p.weekday, p.to = weekdays[r.at(j+1).lower], j+2
			if c := r.at(p.to).lower; open != "," && (c == ")" || c == "]") {
				p.to++
			}
		}
	}
	return p, true
}

func (r *reader) bareDate(i int) (part, bool) {
	for _, read := range []func(int) (part, bool){r.isoDate, r.eastDate, r.daysThenMonth, r.monthThenDays, r.figures} {
		if p, ok := read(i); ok {
			p.from = i
			return p, true
		}
	}
	return part{}, false
}

func isDay(n int) bool  { return n >= 1 && n <= 31 }
func isYear(n int) bool { return n >= 2000 && n < 2100 }

// earliestYear is the earliest year of a date.
const earliestYear = 1000

func (r *reader) isoDate(i int) (part, bool) {
	y, s, m, s2, d := r.at(i), r.at(i+1).lower, r.at(i+2), r.at(i+3).lower, r.at(i+4)
	if isYear(y.number) && (s == "-" || s == "." || s == "/") && s == s2 && r.glued(i+1) && m.number >= 1 &&
		m.number <= 12 && isDay(d.number) {
		return part{
			to:    i + 5,
			days:  []int{d.number},
			month: time.Month(m.number),
			year:  y.number,
		}, true
	}
	return part{}, false
}

func (r *reader) eastDate(i int) (part, bool) {
	p := part{}
	if isYear(r.at(i).number) && r.at(i+1).lower == "年" {
		p.year = r.at(i).number
		i += 2
	}
	m, d := r.at(i).number, r.at(i+2).number
	if m < 1 || m > 12 || r.at(i+1).lower != "月" || !isDay(d) || r.at(i+3).lower != "日" {
		return part{}, false
	}
	p.month, p.days, p.to = time.Month(m), []int{d}, i+4
	if r.at(i+4).lower == "から" || r.at(i+4).lower == "~" {
		p.to++
	}
	return p, true
}

// dayList reads "5", "5th", "4.–6.", "1, 3 and 5", in ascending order, and returns the token after it.
func (r *reader) dayList(i int) (days []int, isRange bool, next int) {
	for {
		n := r.at(i).number
		if !isDay(n) || r.at(i).to-r.at(i).from > 2 || len(days) > 0 && (n <= days[len(days)-1] || !r.sameLine(i, i-1)) {
			return days, isRange, next
		}
		days = append(days, n)
		i++
		for r.at(i).is(ordinals) && (r.glued(i) || r.at(i).lower == ".") && r.sameLine(i, i-1) {
			i++
		}
		next = i
		sign := r.at(i)
		j := i + 1
		switch {
		case sign.lower == "t" && r.at(i+1).lower == "/" && r.at(i+2).lower == "m":
			isRange, j = true, i+3
		case sign.is(rangeSigns):
			isRange = true
		case sign.is(listSigns):
			if r.at(j).is(listSigns) && r.at(j).isWord() { // ", and"
				j++
			}
		default:
			return days, isRange, next
		}
		if weekdays[r.at(j).lower] > 0 && r.at(j).isWord() {
			j++
		}
		for r.at(j).lower == "." || r.at(j).lower == "," || r.at(j).lower == "the" || r.at(j).lower == "le" ||
			r.at(j).lower == "al" || r.at(j).lower == "el" || r.at(j).lower == "il" {
			j++
		}
		if !isDay(r.at(j).number) || r.isHour(j+1) || r.at(j+1).is(hourWords) {
			return days, isRange && len(days) > 1, next
		}
		i = j
	}
}

func (r *reader) daysThenMonth(i int) (part, bool) {
	days, isRange, j := r.dayList(i)
	if len(days) == 0 {
		return part{}, false
	}
	for j < i+20 && r.at(j).is(joiners) && r.sameLine(i, j) {
		j++
	}
	m := month(r.at(j).lower)
	if m == 0 || !r.sameLine(i, j) || needsCapital[r.at(j).lower] && !r.at(j).upper && !r.sureMonth(j) {
		return part{}, false
	}
	p := part{
		days:    days,
		isRange: isRange,
		month:   m,
		to:      j + 1,
	}
	return r.withYear(p), true
}

// sureMonth reports whether a name in small letters that may be another word is a month: a year follows it, or the
// language around it writes months so.
func (r *reader) sureMonth(j int) bool {
	next := r.at(j + 1)
	return isYear(next.number) || next.lower == "." || (next.lower == "de" || next.lower == "del") &&
		isYear(r.at(j+2).number) || r.at(j-1).lower == "de"
}

func (r *reader) monthThenDays(i int) (part, bool) {
	m := month(r.at(i).lower)
	if m == 0 || !englishMonths[r.at(i).lower] || !r.at(i).upper {
		return part{}, false
	}
	j := i + 1
	if r.at(j).lower == "." || r.at(j).lower == "the" {
		j++
	}
	days, isRange, to := r.dayList(j)
	if len(days) == 0 || !r.sameLine(i, j) {
		return part{}, false
	}
	// In "Dec 4, 8pm", the last number of a list may be the hour.
	if r.isHour(to) {
		return part{}, false
	}
	return r.withYear(part{
		days:    days,
		isRange: isRange,
		month:   m,
		to:      to,
	}), true
}

// isHour reports whether the number before a token is one of a clock.
func (r *reader) isHour(to int) bool {
	half := r.at(to).is(halves) && (len(r.at(to).lower) > 1 || r.at(to+1).lower == ".")
	return half && r.sameLine(to-1, to) || r.at(to).lower == ":" && r.glued(to) && r.at(to+1).number >= 0
}

// withYear reads the year and the words before it.
func (r *reader) withYear(p part) part {
	j := p.to
	for j < p.to+2 && r.sameLine(p.to-1, j) && (r.at(j).lower == "." || r.at(j).lower == "," || r.at(j).lower == "de" ||
		r.at(j).lower == "del" || r.at(j).lower == "of") {
		j++
	}
	switch t := r.at(j); {
	case !r.sameLine(p.to-1, j):
	case t.number >= earliestYear && t.number < 2100 && t.to-t.from == 4 && (r.at(j+1).lower != ":" || !r.glued(j+1) ||
		r.at(j+2).number < 0):
		p.year, p.to = t.number, j+1
	case (t.lower == "'" || t.lower == "’") && r.at(j+1).number >= 20 && r.at(j+1).number < 100 && r.glued(j+1):
		p.year, p.to = 2000+r.at(j+1).number, j+2
	}
	return p
}

// figures reads "5.12.", "05.12.2026", "4.-6.12.", "5/12", "12/5/26".
func (r *reader) figures(i int) (part, bool) {
	days, j := []int{r.at(i).number}, i+1
	if !isDay(days[0]) || r.at(i).to-r.at(i).from > 2 {
		return part{}, false
	}
	if more, ranged, next := r.dayList(i); len(more) == 2 && r.at(next-1).lower == "." && r.at(next).number >= 1 &&
		r.at(next).number <= 12 && r.glued(next) && r.at(i+1).lower != "/" {
		return r.figuresYear(part{
			days:    more,
			isRange: ranged,
			month:   time.Month(r.at(next).number),
			to:      next + 1,
		}, "."), true
	}
	sign := r.at(j).lower
	if sign != "." && sign != "/" && sign != "-" || !r.glued(j) || !r.sameLine(i, j+1) || sign != "." && !r.glued(j+1) ||
		r.glued(i) && i > 0 && r.at(i-1).lower == sign {
		return part{}, false
	}
	m := r.at(j + 1)
	if !isDay(m.number) || m.to-m.from > 2 {
		return part{}, false
	}
	p := part{
		days:  days,
		month: time.Month(m.number),
		to:    j + 2,
	}
	if sign == "/" && r.monthFirst && days[0] <= 12 || m.number > 12 && days[0] <= 12 && sign != "." {
		p.days, p.month = []int{m.number}, time.Month(days[0])
	}
	if p.month > 12 {
		return part{}, false
	}
	p = r.figuresYear(p, sign)
	switch {
	case p.year == 0 && sign == "-":
		return part{}, false
	case p.year == 0 && r.at(p.to).lower == sign && r.glued(p.to) && r.at(p.to+1).number >= 0 && r.glued(p.to+1):
		return part{}, false // three numbers without a year
	case p.year == 0 && (sign != "." || r.at(p.to-1).lower != "."):
		p.weak = true
	}
	return p, true
}

func (r *reader) figuresYear(p part, sign string) part {
	j := p.to
	if r.at(j).lower != sign || !r.glued(j) {
		return p
	}
	y := r.at(j + 1)
	switch {
	case !r.sameLine(j, j+1):
	case y.number >= earliestYear && y.number < 2100 && y.to-y.from == 4 && (r.glued(j+1) || sign == "."):
		p.year, p.to = y.number, j+2
	case y.to-y.from == 2 && y.number >= 20 && y.number < 100 && r.glued(j+1) && !r.glued(j+2):
		p.year, p.to = 2000+y.number, j+2
	case sign == ".":
		p.to = j + 1
	}
	return p
}

// beforeFigures are words and signs before a date such as "5/12" or "5.12".
var beforeFigures = wordSet("on am den vom ab der le il el den d dia día op på 📅 🗓 📆 🗓️ date datum fecha data when " +
	"wann quand")

// strengthened reports whether figures without a year are a date: after a weekday or beforeFigures, or before a clock.
func (r *reader) strengthened(p part) bool {
	switch next := r.at(p.to); {
	case r.isHour(p.to) || next.is(hourWords):
		return false
	case p.weekday > 0 || r.at(p.from-1).is(beforeFigures) || r.at(p.from-1).lower == ":" && r.at(p.from-2).is(
		beforeFigures):
		return true
	case r.at(p.to-2).lower == "/":
		// "5/12, 8pm" and "13/12 at 15h" are dates, "1/2 price" is not.
		j := p.to
		for j < p.to+3 && !r.at(j).isWord() && r.at(j).number < 0 || r.at(j).is(atWords) {
			j++
		}
		_, isClock := r.clockAt(j)
		return isClock && r.sameLine(p.from, j)
	}
	return false
}
