package calendar

import (
	"time"

	"carillon/command/collect/timing"
)

// instance is one holding before it is told of.
type instance struct {
	start moment
	// end is where it is stated or follows from a length of time; inclusive where it is a date.
	end *moment
	// length is how long it takes if hours that pass count, whatever clocks do; else the clock counts.
	length timing.Length
	// lasts is how long the first one of a series takes, which the others do by the clock; 0 for what the clock says.
	lasts time.Duration
}

// instanceOf reads when an event takes place. One without a start takes place when it was to. A start that names no
// zone is on the clock of what it belongs to; nil means that it belongs to nothing.
func (f *file) instanceOf(e *event, otherwise *moment, clock *zone) (instance, bool) {
	l, _ := e.first("DTSTART")
	start, ok := f.parseMoment(e.calendar, l, l.value, clock)
	if !ok {
		if otherwise == nil || l.name != "" {
			return instance{}, false
		}
		start = *otherwise
	}
	in := instance{start: start}
	if l, ok := e.first("DTEND"); ok {
		if end, ok := f.parseMoment(e.calendar, l, l.value, &start.zone); ok {
			in.setEnd(end)
		}
	} else if length, ok := parseLength(e.value("DURATION")); ok {
		in.start.hasTime = start.hasTime || length.Clock != 0 // hours of a date begin at its midnight
		if in.setEnd(in.start.later(length)); length.Clock != 0 {
			in.length = length
		}
	}
	return in, true
}

// swapped is how far an end may lie before its start to be taken for the start. More is a slip of another kind.
const swapped = 3 * time.Hour

// setEnd sets an end that lies behind the start. One that is a date is the day after the last; where only one of them
// is a date, it is its midnight.
func (in *instance) setEnd(end moment) {
	switch {
	case !in.start.hasTime && !end.hasTime:
		if end.wall = end.wall.AddDate(0, 0, -1); !end.wall.Before(in.start.wall) {
			in.end = &end
		}
		return
	case !in.start.hasTime:
		in.start.hasTime, in.start.zone = true, end.zone
	case !end.hasTime:
		end.hasTime, end.zone = true, in.start.zone
	case in.start.zone.floats:
		in.start.zone = end.zone
	}
	end = end.in(in.start.zone)
	switch {
	case end.equal(in.start), end.after(in.start):
		in.end = &end
		if end.second {
			in.length.Clock = end.instant().Sub(in.start.instant()) // its clock says nothing about other nights
		}
	case in.start.wall.Sub(end.wall) <= swapped:
		begin := in.start
		in.start, in.end = end, &begin
	}
}

// later is the moment once a length has passed; its hours are hours that pass, whatever clocks do.
func (m moment) later(length timing.Length) moment {
	if days := length.Weeks*7 + length.Days; length.Years != 0 || length.Months != 0 || days != 0 {
		m.wall, m.second = m.wall.AddDate(length.Years, length.Months, days), false
	}
	if !m.hasTime || length.Clock == 0 {
		return m.add(length.Clock)
	}
	return momentAt(m.instant().Add(length.Clock), m.zone)
}

// at is the instance that begins at another clock and is as long.
func (in instance) at(wall time.Time) instance {
	by := wall.Sub(in.start.wall)
	in.start = in.start.add(by)
	if in.end != nil {
		end := in.end.add(by)
		switch {
		case by == 0:
		case in.length.Clock != 0:
			end = in.start.later(in.length)
		case in.lasts > 0:
			end.wall = in.start.wall.Add(in.lasts)
		}
		in.end = &end
	}
	return in
}

// first is the instance as the first one of a series. Clocks may be set while it lasts, and are not in other nights.
func (in instance) first() instance {
	if in.end != nil && in.start.hasTime && in.end.hasTime {
		in.lasts = in.end.instant().Sub(in.start.instant())
	}
	return in
}

// shifted is an instance as a change for it and all that follow makes it.
func (in instance) shifted(v *override) instance {
	return v.at(v.start.wall.Add(in.start.wall.Sub(v.id)))
}

// told gives the range of an instance to those who know only the zone that the event states.
func (in instance) told(stated zone) timing.Range {
	r := timing.Range{Start: in.start.stamp(stated)}
	if in.end != nil && (!in.end.equal(in.start) || !in.end.hasTime) {
		end := in.end.stamp(stated)
		r.End = &end
	}
	return r
}

// farAhead is how many years ahead a single event may be.
const farAhead = 20

// within says that an instance is to be told of: it isn't over when the window begins and, if it is one of many, begins
// before the window ends.
func (f *file) within(in instance, recurring bool) bool {
	last := in.start.wall
	if in.end != nil && in.end.wall.After(last) {
		last = in.end.wall
	}
	if !in.start.hasTime {
		last = last.AddDate(0, 0, 1)
	}
	ahead := f.window.To
	if !recurring {
		ahead = ahead.AddDate(farAhead, 0, 0)
	}
	return !timing.OnWall(last, in.start.zone.loc).Before(f.window.From) && in.start.wall.Before(ahead)
}
