package timing

import "time"

// Range is a start and perhaps an end, as a source writes them.
type Range struct {
	Start Stamp
	// End is inclusive where it is a date only.
	End *Stamp
	// Length counts where there is no End.
	Length Length
}

// Shift moves a range by the clock. Mere dates stay.
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

// Anchor states the offsets of times that are meant in loc, so that they are the same when they are shown in another
// zone. Mere dates stay.
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

// maxDays is how many days of a range are given without regard to a window.
const maxDays = 400

// Spans gives the days of the range in loc, each a span of its own.
//
// A night that ends by noon is one span, and so belongs to the day it begins. Where the end is later in its day than
// the start in its own, those are hours that hold each day; else the range goes on through the nights. Hours that end
// by six in the morning are held each night. A range of midnights, or from midnight to 23:59, names whole days. An end
// before the start is the night's end if they share the date, and ignored if not.
//
// A range of more than 400 days is cut to the window; a day of it remains even if none is inside.
func (r Range) Spans(loc *time.Location, w Window) []Span { return r.In(loc).Spans(w) }

// In works out when the range is held in loc.
func (r Range) In(loc *time.Location) Period { return Period{r.period(loc), loc} }

// Period is when a range is held in one zone.
type Period struct {
	period
	loc *time.Location
}

// Days counts the days that the range takes.
func (p Period) Days() int { return p.days }

// Spans gives the days of the range, see [Range.Spans].
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
		spans = append(spans, p.span(i, p.loc))
	}
	return spans
}

// period is a range in local time: so many days from the first, on each the hours from open to close, counted from
// midnight.
type period struct {
	first  time.Time // wall clock, midnight
	days   int
	allDay bool
	open   time.Duration
	close  time.Duration // 0: no end is known
	// through: it goes on over the nights between open and close.
	through bool
	// start and end as stated, for what takes one day: a wall clock can't tell the two equal hours when summer time
	// ends.
	start time.Time
	end   *time.Time
}

func (r Range) period(loc *time.Location) period {
	start := r.Start.In(loc)
	if !r.Start.HasTime {
		start = OnWall(r.Start.Wall, loc)
	}
	wall := r.Start.clock(start)
	first := midnight(wall)
	p := period{
		start:  start,
		first:  first,
		days:   1,
		open:   wall.Sub(first),
		allDay: !r.Start.HasTime,
	}
	end, wall, dateOnly := r.end(start, loc)
	if end == nil {
		// Midnight is what programs write when no time is known.
		p.allDay = p.allDay || p.open == 0
		return p
	}
	last := midnight(wall)
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

// clock is the wall clock that a stamp means, which an instant can't say of one that clocks skip.
func (s Stamp) clock(at time.Time) time.Time {
	if s.HasOffset {
		return wallOf(at)
	}
	return s.Wall
}

// until sets the end of a period with times; days already counts to its date.
func (p *period) until(end time.Time, clock time.Duration) {
	switch {
	case p.days == 1 && clock <= p.open && end.After(p.start) && end.Sub(p.start) < nearChange:
		// Clocks are set back in between.
	case p.days == 1 && clock == p.open:
		p.allDay = p.open == 0
		return
	case p.days == 1 && clock < p.open:
		clock += day // the same date was written for both
		end = OnWall(p.first.Add(clock), p.start.Location())
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

// end is the stated end, the clock that it means, and whether it is a date only.
func (r Range) end(start time.Time, loc *time.Location) (end *time.Time, wall time.Time, dateOnly bool) {
	switch {
	case r.End != nil && r.End.HasTime && !r.End.HasOffset && r.Start.HasOffset:
		// The end is in the same zone as the start, wherever that is.
		s := *r.End
		s.Offset, s.HasOffset = r.Start.Offset, true
		t := s.In(loc)
		return &t, wallOf(t), false
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
		t = t.Add(l.Clock) // hours that pass, whatever clocks do
		return &t, wallOf(t), false
	}
	return nil, time.Time{}, false
}

// span is the i-th day.
func (p period) span(i int, loc *time.Location) Span {
	date := p.first.AddDate(0, 0, i)
	at := func(clock time.Duration) time.Time { return OnWall(date.Add(clock), loc) }
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
		end = s.Start.Add(p.close - p.open) // clocks skip the hour in which it begins
	}
	s.End = &end
	return s
}

// exact is the only day, as it was stated.
func (p Period) exact() Span {
	s := Span{Start: p.start, End: p.end}
	if p.end != nil && !p.end.After(p.start) {
		s.End = p.span(0, p.loc).End
	}
	return s
}

func daysBetween(from, to time.Time) int { return int(to.Sub(from) / day) }
