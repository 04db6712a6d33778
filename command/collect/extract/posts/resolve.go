package posts

import (
	"time"
)

const (
	day = 24 * time.Hour
	// farthestMonths is the maximum time between a post and its event.
	farthestMonths = 18
	// nearAhead is the maximum number of days ahead of a date without year and weekday. A later one is of this year and
	// over.
	nearAhead = 260
)

// single returns the date of a part.
func (r *reader) single(p part) date {
	d := date{
		from:    p.from,
		to:      p.to,
		weekday: p.weekday > 0,
		year:    p.year > 0,
	}
	if p.isRange {
		first, last := p, p
		first.days, last.days, last.weekday = p.days[:1], p.days[len(p.days)-1:], 0
		whole := r.rangeOf(first, last)
		whole.from, whole.to = p.from, p.to
		return whole
	}
	for i, n := range p.days {
		one := p
		one.days = []int{n}
		if i > 0 {
			one.weekday = 0
			one.year = d.days[0].Year()
		}
		at, wrong := r.resolve(one)
		if wrong != "" {
			d.wrong = wrong
		}
		d.days = append(d.days, at)
	}
	return d
}

// joinRanges joins the parts of "Friday 5 June, 6pm to Sunday 7 June, 4pm" to one date.
func (r *reader) joinRanges() {
	var joined []date
	for _, d := range r.dates {
		if n := len(joined) - 1; n >= 0 && r.isListed(joined[n], d) {
			before := &joined[n]
			before.days, before.to, before.weekday, before.year = append(before.days, d.days...), d.to, before.weekday ||
				d.weekday, before.year || d.year
			continue
		}
		if n := len(joined) - 1; n >= 0 && r.goesOn(joined[n], d) {
			before := &joined[n]
			before.last, before.to, before.year = d.days[0], d.to, before.year || d.year
			for _, c := range r.clocks {
				if c.from >= d.to && c.from <= d.to+3 && c.line == r.at(d.from).line {
					before.until, before.to = &c, c.to
					break
				}
			}
			continue
		}
		joined = append(joined, d)
	}
	r.dates = joined
}

// isListed reports whether two dates are elements of a list, as in "Sat 10 Oct, Sat 24 Oct & Sat 7 Nov".
func (r *reader) isListed(a, b date) bool {
	if a.byName != byDate || b.byName != byDate || a.wrong+b.wrong != "" || !a.last.IsZero() || !b.last.IsZero() ||
		b.from == a.to || !r.sameLine(a.from, b.from) {
		return false
	}
	for i := a.to; i < b.from; i++ {
		if t := r.at(i); !t.is(listSigns) && !t.is(articles) || t.lower == "/" || t.lower == "-" || t.lower == "|" ||
			t.lower == "–" || t.lower == "(" {
			return false
		}
	}
	return b.days[0].After(a.days[len(a.days)-1])
}

// goesOn reports whether the second date is the end of the first: between them are a time and a word such as "to".
func (r *reader) goesOn(a, b date) bool {
	if a.byName != byDate || b.byName != byDate || a.wrong+b.wrong != "" || !a.last.IsZero() || !b.last.IsZero() ||
		len(a.days)+len(b.days) > 2 {
		return false
	}
	sign := b.from - 1
	if r.at(sign).is(articles) && !r.at(sign).is(rangeSigns) {
		sign--
	}
	if !r.at(sign).is(rangeSigns) || r.at(sign).lower == "a" || !r.sameLine(a.from, b.from) ||
		!b.days[0].After(a.days[0]) {
		return false
	}
	for _, c := range r.clocks {
		if c.from >= a.to && c.from <= a.to+3 && c.to <= sign && sign-c.to <= 1 && !c.hasEnd {
			return true
		}
	}
	return false
}

// rangeOf returns the date of a first and a last day.
func (r *reader) rangeOf(p, q part) date {
	d := date{
		from:    p.from,
		to:      q.to,
		weekday: p.weekday > 0,
		year:    p.year+q.year > 0,
	}
	if q.year == 0 && p.year > 0 {
		q.year = p.year
		if q.month < p.month {
			q.year++
		}
	}
	last, wrong := r.resolve(q)
	if wrong == isPast && q.year == 0 && p.year == 0 {
		// Resolved on its own, the last day of "24 December to 6 January" may seem past.
		if first, w := r.resolve(p); w == "" {
			last, wrong = time.Date(first.Year(), q.month, q.days[0], 0, 0, 0, 0, time.UTC), ""
			if last.Before(first) {
				last = time.Date(first.Year()+1, q.month, q.days[0], 0, 0, 0, 0, time.UTC)
			}
		}
	}
	if wrong != "" {
		return date{
			from:  d.from,
			to:    d.to,
			days:  []time.Time{last},
			wrong: wrong,
		}
	}
	if p.year == 0 {
		p.year = last.Year()
		if p.month > q.month || p.month == q.month && p.days[0] > q.days[0] {
			p.year--
		}
	}
	first, ok := civil(p.year, p.month, p.days[0])
	d.days, d.last = []time.Time{first}, last
	switch {
	case !ok || last.Before(first):
		d.wrong = "it ends before it begins"
	case p.weekday > 0 && first.Weekday() != time.Weekday(p.weekday-1):
		d.wrong = wrongWeekday
	case last.Equal(first):
		d.last = time.Time{}
	case first.After(r.today.AddDate(0, farthestMonths, 0)):
		d.wrong = tooFar
	}
	return d
}

// Reasons why a date can't be an event's.
const (
	isPast       = "it lies before the post"
	tooFar       = "it is more than 18 months ahead"
	noSuchDay    = "there is no such day"
	wrongWeekday = "its weekday is that of another day"
)

// civil returns a day if it exists.
func civil(year int, m time.Month, d int) (time.Time, bool) {
	t := time.Date(year, m, d, 0, 0, 0, 0, time.UTC)
	return t, t.Month() == m && t.Day() == d
}

// resolve returns the day of a part with one day: in the stated year, in the year in which it has its weekday, or the
// next one.
func (r *reader) resolve(p part) (at time.Time, wrong string) {
	weekdayFits := func(t time.Time) bool { return p.weekday == 0 || t.Weekday() == time.Weekday(p.weekday-1) }
	if p.year > 0 {
		t, ok := civil(p.year, p.month, p.days[0])
		switch {
		case !ok:
			return t, noSuchDay
		case t.Before(r.today):
			return t, isPast
		case !weekdayFits(t):
			return t, wrongWeekday
		case t.After(r.today.AddDate(0, farthestMonths, 0)):
			return t, tooFar
		}
		return t, ""
	}
	wrong = noSuchDay
	for _, year := range []int{r.today.Year(), r.today.Year() + 1, r.today.Year() - 1} {
		t, ok := civil(year, p.month, p.days[0])
		if !ok {
			continue
		}
		if !weekdayFits(t) {
			if wrong == noSuchDay {
				at, wrong = t, wrongWeekday
			}
			continue
		}
		ahead := int(t.Sub(r.today) / day)
		switch {
		case ahead >= 0 && (p.weekday > 0 || ahead <= nearAhead):
			return t, ""
		case p.weekday > 0 || wrong != isPast:
			at, wrong = t, isPast
		}
		if p.weekday > 0 {
			return at, wrong
		}
	}
	return at, wrong
}
