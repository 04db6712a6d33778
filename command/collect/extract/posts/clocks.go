package posts

import (
	"time"
)

// clock is a time of day, or a range of two, counted from midnight.
type clock struct {
	from, to, line int
	start, end     time.Duration
	hasEnd         bool
	label          label
}

type label int

const (
	unlabelled label = iota
	isStart
	isDoors
)

var (
	halves    = wordSet("am pm a p noon")
	hourWords = wordSet("uhr h hrs hs hora horas heures heure uur u 時 ore std hod")
	// atWords precede a clock; after one of sureAt a bare hour is a clock.
	atWords = wordSet("at @ um ab gegen à a las la alle dalle ore kl klo klokken om às from von de van från fra dès " +
		"dalle ⏰ 🕗 🕖 🕘 🕒 🕕 🕔 🕑 🕙 🕣 🕢 🕓 🕐 🕛 🕚 | , . · - –")
	sureAt = wordSet("ore alle kl klo klokken las às dalle h")

	startWords = wordSet("start starts begin begins beginn beginnt anfang début debut comienzo comienza inicio inizio " +
		"aanvang start kickoff anpfiff show music concert départ salida partenza film screening commence onstage konzert " +
		"spielbeginn musik")
	doorWords = wordSet("doors door einlass türöffnung tueroeffnung türen portes puertas apertura porte deuren inloop " +
		"dørene dörrar ouverture portas einlaß check gates gate ingresso")
	endWords   = wordSet("- – — − ‐ ‑ ~ 〜 to till til until bis à a al alle tot às a las and und / ～")
	eveningTag = wordSet("tarde noche abends soir sera noite avond nachmittags pomeriggio")
)

// findClocks returns all times of day outside of dates.
func (r *reader) findClocks() []clock {
	var found []clock
	next := 0
	for i := 0; i < len(r.words); {
		for next < len(r.dates) && r.dates[next].to <= i {
			next++
		}
		if next < len(r.dates) && i >= r.dates[next].from {
			i = r.dates[next].to
			continue
		}
		if !r.budget.Work(20) {
			return nil
		}
		c, ok := r.clockAt(i)
		if !ok {
			i++
			continue
		}
		c.label = r.labelOf(i)
		found = append(found, c)
		i = c.to
		if len(found) == maxClocks {
			break
		}
	}
	return found
}

// moment is one written time of day.
type moment struct {
	from, to int
	hour     int
	minute   int
	// sure marks a time of day that needs no words around it; half is "am" or "pm" if stated.
	sure   bool
	dotted bool // 19.30
	half   string
}

func (m moment) clock() time.Duration {
	hour := m.hour
	switch {
	case m.half == "pm" && hour < 12:
		hour += 12
	case m.half == "am" && hour == 12:
		hour = 0
	}
	return time.Duration(hour)*time.Hour + time.Duration(m.minute)*time.Minute
}

// momentAt reads a time of day without the words before it.
func (r *reader) momentAt(i int) (moment, bool) {
	h := r.at(i)
	if h.lower == "noon" || h.lower == "midday" || h.lower == "mezzogiorno" {
		return moment{
			from: i,
			to:   i + 1,
			hour: 12,
			sure: true,
		}, true
	}
	if h.number < 0 || h.number > 24 || h.to-h.from > 2 || r.glued(i) && i > 0 && (r.at(i-1).isWord() &&
		!r.at(i-1).is(sureAt) || r.at(i-1).lower == "/" || r.at(i-1).lower == ":" || r.at(i-1).lower == ".") {
		return moment{}, false
	}
	m := moment{from: i, to: i + 1, hour: h.number}
	sep, minute := r.at(i+1), r.at(i+2)
	twoFigures := minute.number >= 0 && minute.number < 60 && minute.to-minute.from == 2 && r.glued(i+1) && r.glued(i+2)
	switch {
	case sep.lower == ":" && twoFigures:
		m.minute, m.to, m.sure = minute.number, i+3, true
	case (sep.lower == "h" || sep.lower == "u") && twoFigures:
		m.minute, m.to, m.sure = minute.number, i+3, true
		return m, true
	case (sep.lower == "." || sep.lower == "'") && twoFigures && !r.threeFigures(i):
		m.minute, m.to, m.dotted = minute.number, i+3, true
	case sep.lower == "/" && r.glued(i+1), sep.lower == ":" && r.glued(i+1) && r.glued(i+2) && minute.number >= 0:
		return moment{}, false
	}
	return r.suffix(m), true
}

// threeFigures reports whether the token is part of three numbers, such as "5.12.26", which are not a time of day.
func (r *reader) threeFigures(i int) bool {
	return r.at(i+3).lower == "." && r.glued(i+3) && r.at(i+4).number >= 0 && r.glued(i+4)
}

// suffix reads the words after a time: "pm", "Uhr", "h", "de la tarde".
func (r *reader) suffix(m moment) moment {
	next := r.at(m.to)
	if !r.sameLine(m.from, m.to) {
		return m
	}
	switch {
	case next.lower == "am" || next.lower == "pm":
		// "10 am Markt" is German.
		if next.lower == "am" && next.space && r.at(m.to+1).upper && m.hour > 12 {
			return m
		}
		m.half, m.to, m.sure = next.lower, m.to+1, m.hour <= 12
	case (next.lower == "a" || next.lower == "p") && r.at(m.to+1).lower == "." && r.at(m.to+2).lower == "m":
		m.half, m.to, m.sure = next.lower+"m", m.to+3, true
		if r.at(m.to).lower == "." && !r.at(m.to+1).upper {
			m.to++
		}
	case next.lower == "noon" || next.lower == "midday":
		m.to, m.sure = m.to+1, true
	case next.is(hourWords) && (next.lower != "ore" || !m.dotted):
		m.to, m.sure = m.to+1, true
		if minute := r.at(m.to); minute.number >= 0 && minute.number < 60 && minute.to-minute.from == 2 && !m.dotted &&
			m.minute == 0 && r.sameLine(m.from, m.to) && !r.isHour(m.to+1) && next.lower != "uur" {
			m.minute, m.to = minute.number, m.to+1
			if r.at(m.to).lower == "分" {
				m.to++
			}
		}
	}
	j := m.to
	for j < m.to+2 && (r.at(j).lower == "de" || r.at(j).lower == "la" || r.at(j).lower == "du" || r.at(j).lower == "di" ||
		r.at(j).lower == "da") {
		j++
	}
	if r.at(j).is(eveningTag) && m.hour <= 12 && m.half == "" && r.sameLine(m.from, j) {
		m.half, m.to, m.sure = "pm", j+1, true
	}
	if (r.at(j).lower == "mañana" || r.at(j).lower == "matin" || r.at(j).lower == "mattina") && j > m.to {
		m.to, m.sure = j+1, true
	}
	return m
}

// clockAt reads a time of day, or a range of two, at a token.
func (r *reader) clockAt(i int) (clock, bool) {
	first, ok := r.momentAt(i)
	if !ok {
		return clock{}, false
	}
	led := r.led(i)
	second, ranged := r.ending(first)
	switch {
	case ranged:
		if !first.sure && !second.sure && !led && (!first.dotted || !second.dotted) {
			return clock{}, false
		}
		if second.half != "" && first.half == "" && first.hour <= 12 && (first.hour <= second.hour || second.half != "pm" ||
			first.hour == 12) {
			if first.half = second.half; first.hour == 12 {
				first.half = "pm"
			}
		} else if second.half != "" && first.half == "" && first.hour > 12 {
			return clock{}, false
		}
	case first.sure, led, first.dotted && r.usual(first) && r.besideDate(i):
	default:
		return clock{}, false
	}
	c := clock{
		from:  i,
		to:    first.to,
		line:  r.at(i).line,
		start: first.clock(),
	}
	if ranged {
		c.to, c.end, c.hasEnd = second.to, second.clock(), true
	}
	if c.start >= day {
		c.start -= day
	}
	if c.start >= day || c.hasEnd && (c.end > day || c.end == c.start) {
		return clock{}, false
	}
	return c, true
}

// ending reads the second time of a range.
func (r *reader) ending(first moment) (moment, bool) {
	j := first.to
	if !r.at(j).is(endWords) || !r.sameLine(first.from, j) {
		return moment{}, false
	}
	for j < first.to+4 && (r.at(j).is(endWords) || r.at(j).lower == "las" || r.at(j).lower == "ore" ||
		r.at(j).lower == "kl") {
		j++
	}
	second, ok := r.momentAt(j)
	if !ok || !r.sameLine(first.from, j) {
		return moment{}, false
	}
	// "20 Uhr - 12 Euro" and "19h - 3 bands" are not ranges: a bare number must have the form of the first.
	if !second.sure && first.sure && second.dotted == first.dotted && r.at(first.to-1).number < 0 {
		return moment{}, false
	}
	if !second.sure && !second.dotted && first.sure && first.minute > 0 {
		return moment{}, false
	}
	return second, true
}

// led reports whether the words before a bare number make it a time of day.
func (r *reader) led(i int) bool {
	before := r.at(i - 1)
	if !r.sameLine(i, i-1) {
		return false
	}
	if before.lower == "." || before.lower == ":" {
		before = r.at(i - 2)
	}
	switch {
	case before.is(sureAt), before.is(startWords), before.is(doorWords):
		return true
	case before.lower == "le" && r.at(i-2).lower == "per":
		return false
	}
	return before.is(wordSet("um gegen om")) && r.at(i).number >= 0 || before.is(clockSigns)
}

var clockSigns = wordSet("⏰ 🕗 🕖 🕘 🕒 🕕 🕔 🕑 🕙 🕣 🕢 🕓 🕐 🕛 🕚")

// usual reports whether events begin at such minutes.
func (r *reader) usual(m moment) bool { return m.minute%15 == 0 }

// besideDate reports whether a date ends at the token.
func (r *reader) besideDate(i int) bool {
	for _, d := range r.dates {
		if d.to <= i && i-d.to <= 3 && r.sameLine(d.from, i) {
			return true
		}
	}
	return false
}

// labelOf returns what the words before a time call it.
func (r *reader) labelOf(i int) label {
	for j := i - 1; j >= i-3 && j >= 0 && r.sameLine(i, j); j-- {
		switch t := r.at(j); {
		case t.is(doorWords):
			return isDoors
		case t.is(startWords):
			return isStart
		case t.number >= 0 || t.lower == "/" || t.lower == ",":
			return unlabelled
		}
	}
	return unlabelled
}

// maxLines limits the distance between a date and its time, in lines.
const maxLines = 5

// clockOf returns the time of a date: after it, before it, or in the lines around it that have no date.
func (r *reader) clockOf(d date) *clock {
	line := r.at(d.from).line
	before, after := -1, len(r.words)
	nextLine, prevLine := line+maxLines+1, line-maxLines-1
	for _, other := range r.dates {
		switch {
		case other.from == d.from || other.byName != byDate && other.wrong != "":
		case other.from >= d.to:
			after = min(after, other.from)
			nextLine = min(nextLine, r.at(other.from).line)
		case other.to <= d.from:
			before = max(before, other.to)
			prevLine = max(prevLine, r.at(other.from).line)
		}
	}
	var behind, ahead, below, above []*clock
	for k := range r.clocks {
		c := &r.clocks[k]
		switch {
		case d.until != nil && c.from == d.until.from:
		case c.from >= d.from && c.to <= d.to:
			behind = append(behind, c) // between the days of a range
		case c.label == isDoors || r.contextOf(c.from).otherTimes:
		case c.line == line && c.from >= d.to && c.from < after:
			behind = append(behind, c)
		case c.line == line && c.to <= d.from && c.from >= before:
			ahead = append(ahead, c)
		case c.line > line && c.line < nextLine && c.from < after:
			below = append(below, c)
		case c.line < line && c.line > prevLine && c.from >= before:
			above = append(above, c)
		}
	}
	for _, some := range [][]*clock{behind, ahead, below, above} {
		for _, c := range some {
			if c.label == isStart {
				return c
			}
		}
		if len(some) > 0 {
			return some[0]
		}
	}
	return nil
}
