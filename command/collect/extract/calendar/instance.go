package calendar

import (
	"time"

	"carillon/command/collect/extract/timing"
)

// instance is one performance of an event.
type instance struct {
	start moment
	// end is stated or computed from a length; inclusive if it is a date.
	end *moment
	// length is the length in elapsed hours; without it, the clock counts.
	length timing.Length
	// lasts is the length of the first instance of a series, which the others have by the clock; 0 if the clock of the
	// end counts.
	lasts time.Duration
}

// instanceOf reads the time of an event. Without a start it has the original one, otherwise. A start without a zone
// uses the given clock, of the event that it belongs to; nil if it belongs to none.
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
		in.start.hasTime = start.hasTime || length.Clock != 0 // the hours of a date begin at midnight
		if in.setEnd(in.start.later(length)); length.Clock != 0 {
			in.length = length
		}
	}
	return in, true
}

// swapped is the maximum time by which an end may precede its start for the two to be swapped. A larger one is another
// mistake.
const swapped = 3 * time.Hour

// setEnd sets an end after the start. A date is the day after the last one; if only one of them is a date, it means
// its midnight.
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
			in.length.Clock = end.instant().Sub(in.start.instant()) // its clock does not hold for other nights
		}
	case in.start.wall.Sub(end.wall) <= swapped:
		begin := in.start
		in.start, in.end = end, &begin
	}
}

// later returns the moment after a length, whose hours are elapsed hours.
func (m moment) later(length timing.Length) moment {
	if days := length.Weeks*7 + length.Days; length.Years != 0 || length.Months != 0 || days != 0 {
		m.wall, m.second = m.wall.AddDate(length.Years, length.Months, days), false
	}
	if !m.hasTime || length.Clock == 0 {
		return m.add(length.Clock)
	}
	return momentAt(m.instant().Add(length.Clock), m.zone)
}

// at returns the instance with another start and the same length.
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

// first returns the instance as the first one of a series. A clock change during it does not concern other nights.
func (in instance) first() instance {
	if in.end != nil && in.start.hasTime && in.end.hasTime {
		in.lasts = in.end.instant().Sub(in.start.instant())
	}
	return in
}

// shifted returns an instance with a change for it and all following ones.
func (in instance) shifted(v *override) instance {
	return v.at(v.start.wall.Add(in.start.wall.Sub(v.id)))
}

// shown returns the range of an instance for readers that know only the stated zone of the event.
func (in instance) shown(stated zone) timing.Range {
	r := timing.Range{Start: in.start.stamp(stated)}
	if in.end != nil && (!in.end.equal(in.start) || !in.end.hasTime) {
		end := in.end.stamp(stated)
		r.End = &end
	}
	return r
}

// farAhead limits how many years ahead a single event may be.
const farAhead = 20

// within reports whether an instance is visible: it isn't over when the window begins and, if it is recurring, begins
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
