package timing

import "time"

// Range is a start with an optional end, as a source writes them.
type Range struct {
	Start Stamp
	// End is inclusive if it is a date only.
	End *Stamp
	// Length counts if there is no End.
	Length Length
}

// Shift moves a range by the clock. Dates without a time stay.
func (r Range) Shift(by time.Duration) Range {
	if by == 0 || !r.Start.HasTime {
		return r
	}
	r.Start.Wall = r.Start.Wall.Add(by)
	if r.End != nil && r.End.HasTime && !r.End.HasOffset {
		end := *r.End
		end.Wall = end.Wall.Add(by)
		r.End = &end
	}
	return r
}

// Anchor adds the offsets of loc to times without one, so that they stay the same in another zone. Dates without a
// time stay.
func (r Range) Anchor(loc *time.Location) Range {
	r.Start = r.Start.anchor(loc)
	if r.End != nil {
		end := r.End.anchor(loc)
		r.End = &end
	}
	return r
}

func (s Stamp) anchor(loc *time.Location) Stamp {
	if s.HasTime && !s.HasOffset {
		_, s.Offset = s.In(loc).Zone()
		s.HasOffset = true
	}
	return s
}

// Span is one day of a range, as instants.
type Span struct {
	Start time.Time
	End   *time.Time
	// AllDay spans go from midnight to midnight.
	AllDay bool
	// Day counts from the first day of the range, which is 0.
	Day int
}

// maxDays limits the days of a range outside of a window.
const maxDays = 400

// Period is a range in one zone: a number of days, each with hours from open to close, counted from midnight.
type Period struct {
	loc    *time.Location
	first  time.Time // wall clock, midnight
	days   int
	allDay bool
	open   time.Duration
	close  time.Duration // 0 for an unknown end
	// through marks a range that continues over the nights between open and close.
	through bool
	// start and end as stated, for a single day: a wall clock can't distinguish the two equal hours at the end of summer
	// time.
	start time.Time
	end   *time.Time
}

// Location returns the zone of the period.
func (p Period) Location() *time.Location { return p.loc }

// Days returns the number of days of the range.
func (p Period) Days() int { return p.days }

// minWeeks is the number of days from which a range is one of weeks, lateOpening the hour from which it opens in the
// evening, minOpen the least number of hours that a house is open.
const (
	minWeeks    = 14
	lateOpening = 16 * time.Hour
	minOpen     = 5 * time.Hour
)

// IsCourse reports whether a range spans weeks with hours of an evening or a lesson: lists name the first start and the
// last end of a series in this way.
func (p Period) IsCourse() bool {
	return p.days >= minWeeks && !p.allDay && !p.through && (p.open >= lateOpening || p.close != 0 &&
		p.close-p.open < minOpen)
}

// FirstDay returns the first day of the range as a range.
func (r Range) FirstDay(loc *time.Location) Range {
	p := r.In(loc)
	first := p.span(0)
	r.End, r.Length = nil, Length{}
	if first.End != nil && !p.allDay && !p.through {
		r.Length.Clock = first.End.Sub(first.Start)
	}
	return r
}

// Spans returns the days of the range as separate spans.
//
// A night that ends by noon is one span, which belongs to its first day. If the time of the end is later than that of
// the start, those are the hours of each day; else the range continues through the nights. Hours that end by six in
// the morning repeat each night. A range of midnights, or from midnight to 23:59, means whole days. An end before the
// start is the night's end if they share the date and it is at most 16 hours later, and ignored if not.
//
// A range of more than 400 days is cut to the window; at least one day remains.
func (p Period) Spans(w Window) []Span {
	from, to := 0, p.days
	if p.days > maxDays {
		from, to = w.clip(p.first, p.days)
	}
	if p.days == 1 && !p.allDay {
		return []Span{p.exact()}
	}
	spans := make([]Span, 0, to-from)
	for i := from; i < to; i++ {
		spans = append(spans, p.span(i))
	}
	return spans
}

// In returns the range in the zone loc.
func (r Range) In(loc *time.Location) Period {
	start := r.Start.In(loc)
	if !r.Start.HasTime {
		start = OnWall(r.Start.Wall, loc)
	}
	wall := r.Start.clock(start)
	first := Midnight(wall)
	p := Period{
		loc:    loc,
		start:  start,
		first:  first,
		days:   1,
		open:   wall.Sub(first),
		allDay: !r.Start.HasTime,
	}
	end, wall, dateOnly := r.end(start, loc)
	if end == nil {
		// Programs write midnight for an unknown time.
		p.allDay = p.allDay || p.open == 0
		return p
	}
	last := Midnight(wall)
	clock := wall.Sub(last)
	p.days = daysBetween(p.first, last) + 1
	switch {
	case p.days < 1:
		p.days = 1
		p.allDay = p.allDay || p.open == 0
	case p.allDay:
	case dateOnly:
		p.allDay = p.open == 0
	default:
		p.until(*end, clock)
	}
	return p
}

// clock returns the wall clock of a stamp, which differs from that of the instant at for a time that clocks skip.
func (s Stamp) clock(at time.Time) time.Time {
	if s.HasOffset {
		return WallOf(at)
	}
	return s.Wall
}

// maxNight is the maximum length of an event that ends before its start on the same date.
const maxNight = 16 * time.Hour

// until sets the end of a period with times; days includes its date already.
func (p *Period) until(end time.Time, clock time.Duration) {
	switch {
	case p.days == 1 && clock <= p.open && end.After(p.start) && end.Sub(p.start) < nearChange:
		// Clocks are set back in between.
	case p.days == 1 && clock == p.open:
		p.allDay = p.open == 0
		return
	case p.days == 1 && clock < p.open && clock+day-p.open > maxNight:
		return // a mistake
	case p.days == 1 && clock < p.open:
		clock += day // both have the same date
		end = OnWall(p.first.Add(clock), p.loc)
	case p.days > 1 && clock <= 6*time.Hour && clock <= p.open:
		p.days--
		clock += day
	case p.days == 2 && clock <= 12*time.Hour && clock < p.open:
		p.days = 1
		clock += day
	case p.days > 1 && clock <= p.open:
		p.through = true
	}
	p.end, p.close = &end, clock
	p.allDay = p.open == 0 && !p.through && clock >= day-time.Minute && clock <= day
}

// end returns the stated end and its wall clock, and reports whether it is a date only.
func (r Range) end(start time.Time, loc *time.Location) (end *time.Time, wall time.Time, dateOnly bool) {
	switch {
	case r.End != nil && r.End.HasTime && !r.End.HasOffset && r.Start.HasOffset:
		// The end is in the zone of the start.
		s := *r.End
		s.Offset, s.HasOffset = r.Start.Offset, true
		t := s.In(loc)
		return &t, WallOf(t), false
	case r.End != nil && r.End.HasTime:
		t := r.End.In(loc)
		return &t, r.End.clock(t), false
	case r.End != nil:
		t := OnWall(r.End.Wall, loc)
		return &t, r.End.Wall, true
	case r.Length != Length{} && (r.Start.HasTime || r.Length.Clock == 0):
		l := r.Length
		if !r.Start.HasTime {
			// "P3D" from a Friday is three days, Sunday the last.
			wall := l.after(r.Start.Wall).AddDate(0, 0, -1)
			t := OnWall(wall, loc)
			return &t, wall, true
		}
		t := start
		if l.Years != 0 || l.Months != 0 || l.Weeks != 0 || l.Days != 0 {
			t = OnWall(r.Start.clock(start).AddDate(l.Years, l.Months, l.Weeks*7+l.Days), loc)
		}
		t = t.Add(l.Clock) // elapsed hours, also when clocks change
		return &t, WallOf(t), false
	}
	return nil, time.Time{}, false
}

// span returns the i-th day.
func (p Period) span(i int) Span {
	date := p.first.AddDate(0, 0, i)
	at := func(clock time.Duration) time.Time { return OnWall(date.Add(clock), p.loc) }
	s := Span{Day: i, Start: at(p.open)}
	var end time.Time
	switch {
	case p.allDay:
		s.AllDay = true
		s.Start, end = at(0), at(day)
	case p.close == 0:
		return s
	case p.through:
		if i > 0 {
			s.Start = at(0)
		}
		end = at(day)
		if i == p.days-1 {
			end = at(p.close)
		}
		s.AllDay = i > 0 && i < p.days-1
	default:
		end = at(p.close)
	}
	if !end.After(s.Start) {
		end = s.Start.Add(p.close - p.open) // clocks skip the hour of its start
	}
	s.End = &end
	return s
}

// exact returns the only day as stated.
func (p Period) exact() Span {
	s := Span{Start: p.start, End: p.end}
	if p.end != nil && !p.end.After(p.start) {
		s.End = p.span(0).End
	}
	return s
}

func daysBetween(from, to time.Time) int { return int(to.Sub(from) / day) }
