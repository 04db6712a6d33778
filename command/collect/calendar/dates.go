package calendar

import (
	"strings"
	"time"

	"carillon/command/collect/timing"
)

// moment is a date or a time as a calendar writes it.
type moment struct {
	// wall is the clock in zone, with UTC standing for it.
	wall    time.Time
	hasTime bool
	zone    zone
}

// parseMoment reads a DATE or a DATE-TIME. Others' spellings are taken as well.
func (f *file) parseMoment(cal *header, l line, value string) (moment, bool) {
	value = strings.TrimSpace(value)
	if strings.EqualFold(l.param("VALUE"), "DATE") && len(value) > len("20060102") && value[8] == 'T' {
		value = value[:8]
	}
	m := moment{hasTime: true}
	utc := strings.HasSuffix(value, "Z")
	var err error
	switch trimmed := strings.TrimSuffix(value, "Z"); len(trimmed) {
	case len("20060102"):
		m.wall, err = time.Parse("20060102", trimmed)
		m.hasTime, utc = false, false
	case len("20060102T150405"):
		m.wall, err = time.Parse("20060102T150405", trimmed)
	default:
		err = timing.ErrNoDate
	}
	if err != nil {
		stamp, err := timing.Parse(value, false)
		if err != nil {
			return moment{}, false
		}
		m.wall, m.hasTime = stamp.Wall, stamp.HasTime
		if stamp.HasOffset && stamp.HasTime {
			m.wall, utc = stamp.Wall.Add(-time.Duration(stamp.Offset)*time.Second), true
		}
	}
	if m.wall.Year() < 1 || m.wall.Year() > 9999 {
		return moment{}, false
	}
	switch tzid := l.param("TZID"); {
	case utc:
		m.zone = zone{loc: time.UTC, utc: true}
	case tzid != "":
		m.zone = f.zone(cal, tzid)
	default:
		m.zone = f.floating(cal)
	}
	return m, true
}

// instant is the moment in time.
func (m moment) instant() time.Time { return timing.OnWall(m.wall, m.zone.loc) }

// in is the moment on the clock of another zone. A mere date is that date everywhere.
func (m moment) in(z zone) moment {
	if m.hasTime && m.zone.loc != z.loc {
		m.wall = wallIn(m.instant(), z.loc)
	}
	m.zone = z
	return m
}

// stamp is the moment as it is told of an event whose zone is stated, if it has a name.
func (m moment) stamp(stated zone) timing.Stamp {
	s := timing.Stamp{Wall: m.wall, HasTime: m.hasTime}
	if m.hasTime && !m.zone.floats && (m.zone.utc || m.zone.name == "" || m.zone.name != stated.name) {
		_, s.Offset = m.instant().Zone()
		s.HasOffset = true
	}
	return s
}

func (m moment) add(d time.Duration) moment {
	m.wall = m.wall.Add(d)
	return m
}

// wallIn is the clock that is on the wall in a zone.
func wallIn(t time.Time, loc *time.Location) time.Time {
	t = t.In(loc)
	y, m, d := t.Date()
	return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
}

// parseLength reads a DURATION, which has a sign and may be negative: then it is none.
func parseLength(text string) (timing.Length, bool) {
	return timing.ParseLength(strings.TrimPrefix(strings.TrimSpace(text), "+"))
}
