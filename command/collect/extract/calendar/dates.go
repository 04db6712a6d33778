package calendar

import (
	"strings"
	"time"

	"carillon/command/collect/extract/timing"
)

// moment is a date or a time as a calendar writes it.
type moment struct {
	// wall is the clock in zone, with UTC in its place.
	wall    time.Time
	hasTime bool
	zone    zone
	// second marks the later of two times with the same clock.
	second bool
}

// parseMoment reads a DATE or a DATE-TIME, also in incorrect spellings. Without a zone it uses the given clock, of the
// moment that it follows; nil if it follows none.
func (f *file) parseMoment(cal *header, l line, value string, clock *zone) (moment, bool) {
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
	case clock != nil:
		m.zone = *clock
	default:
		m.zone = f.floating(cal)
	}
	return m, true
}

// instant returns the instant of the moment.
func (m moment) instant() time.Time {
	if m.second {
		return timing.OnWallAgain(m.wall, m.zone.loc)
	}
	return timing.OnWall(m.wall, m.zone.loc)
}

// momentAt returns an instant on the clock of a zone.
func momentAt(t time.Time, z zone) moment {
	m := moment{wall: timing.WallOf(t.In(z.loc)), hasTime: true, zone: z}
	m.second = !m.instant().Equal(t)
	return m
}

// equal reports whether two moments on one clock are the same.
func (m moment) equal(o moment) bool { return m.wall.Equal(o.wall) && m.second == o.second }

// after reports whether a moment is later than another one on the same clock, either by the clock or by the instant:
// in a night of a clock change these may differ.
func (m moment) after(o moment) bool {
	return m.wall.After(o.wall) || m.second != o.second && m.instant().After(o.instant())
}

// in returns the moment on the clock of another zone. A date without a time is the same in all zones.
func (m moment) in(z zone) moment {
	if m.hasTime && m.zone.loc != z.loc {
		return momentAt(m.instant(), z)
	}
	m.zone = z
	return m
}

// stamp returns the moment for an event with a stated zone, if that has a name.
func (m moment) stamp(stated zone) timing.Stamp {
	s := timing.Stamp{Wall: m.wall, HasTime: m.hasTime}
	if m.hasTime && !m.zone.floats && (m.second || m.zone.utc || m.zone.name == "" || m.zone.name != stated.name) {
		_, s.Offset = m.instant().Zone()
		s.HasOffset = true
	}
	return s
}

func (m moment) add(d time.Duration) moment {
	m.wall, m.second = m.wall.Add(d), m.second && d == 0
	return m
}

// parseLength reads a DURATION. A negative one is invalid.
func parseLength(text string) (timing.Length, bool) {
	return timing.ParseLength(strings.TrimPrefix(strings.TrimSpace(text), "+"))
}
