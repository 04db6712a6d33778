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
}

// instanceOf reads when an event takes place. One without a start takes place when it was to.
func (f *file) instanceOf(e *event, otherwise *moment) (instance, bool) {
	l, _ := e.first("DTSTART")
	start, ok := f.parseMoment(e.calendar, l, l.value)
	if !ok {
		if otherwise == nil || l.name != "" {
			return instance{}, false
		}
		start = *otherwise
	}
	in := instance{start: start}
	if l, ok := e.first("DTEND"); ok {
		if end, ok := f.parseMoment(e.calendar, l, l.value); ok {
			in.setEnd(end)
		}
	} else if length, ok := parseLength(e.value("DURATION")); ok {
		in.start.hasTime = start.hasTime || length.Clock != 0 // hours of a date begin at its midnight
		end := in.start
		end.wall = wallAfter(in.start, length)
		in.setEnd(end)
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
	switch before := in.start.wall.Sub(end.wall); {
	case before <= 0:
		in.end = &end
	case before <= swapped:
		begin := in.start
		in.start, in.end = end, &begin
	}
}

// wallAfter is the clock once a length has passed; its hours are hours that pass, whatever clocks do.
func wallAfter(start moment, length timing.Length) time.Time {
	wall := start.wall.AddDate(length.Years, length.Months, length.Weeks*7+length.Days)
	if !start.hasTime {
		return wall.Add(length.Clock)
	}
	return wallIn(timing.OnWall(wall, start.zone.loc).Add(length.Clock), start.zone.loc)
}

// at is the instance that begins at another clock and is as long.
func (in instance) at(wall time.Time) instance {
	by := wall.Sub(in.start.wall)
	in.start.wall = wall
	if in.end != nil {
		end := in.end.add(by)
		in.end = &end
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
	if in.end != nil && (!in.end.wall.Equal(in.start.wall) || !in.end.hasTime) {
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
