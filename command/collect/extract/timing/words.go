package timing

import (
	"fmt"
	"strings"
	"time"
)

// maxListed is the number of single dates that are written out.
const maxListed = 3

// Words describes in English when a happening takes place. Each element of instances has the days of one instance, in
// order. Times are shown in loc.
func Words(instances [][]Span, loc *time.Location) string {
	w := words{loc}
	switch len(instances) {
	case 0:
		return ""
	case 1:
		return w.instance(instances[0])
	}
	if text := w.weekly(instances); text != "" {
		return text
	}
	if len(instances) <= maxListed {
		parts := make([]string, len(instances))
		for i, spans := range instances {
			parts[i] = w.instance(spans)
		}
		return strings.Join(parts, "; ")
	}
	first, last := instances[0], instances[len(instances)-1]
	return fmt.Sprintf("%d dates, %s", len(instances), w.dates(first[0].Start, lastOf(last).Start))
}

type words struct{ loc *time.Location }

func lastOf(spans []Span) Span { return spans[len(spans)-1] }

func (w words) instance(spans []Span) string {
	if len(spans) == 0 {
		return ""
	}
	first, last := spans[0], lastOf(spans)
	if len(spans) == 1 {
		return w.day(first.Start) + w.hours(first)
	}
	for _, s := range spans[1:] {
		if !w.sameHours(s, first) {
			// Hours differ between the days: describe beginning and end.
			text := w.moment(first, first.Start) + " – "
			if last.End == nil || last.AllDay {
				return text + w.moment(last, last.Start)
			}
			return text + w.moment(last, *last.End)
		}
	}
	return w.dates(first.Start, last.Start) + w.hours(first)
}

// weekly describes instances that repeat each week at the same day and hours.
func (w words) weekly(instances [][]Span) string {
	first := instances[0][0]
	date := Midnight(WallOf(first.Start.In(w.loc)))
	if len(instances) <= maxListed {
		return ""
	}
	for i, spans := range instances {
		s := spans[0]
		if len(spans) != 1 || !w.sameHours(s, first) || !Midnight(WallOf(s.Start.In(w.loc))).Equal(date.AddDate(0, 0, 7*i)) {
			return ""
		}
	}
	return date.Weekday().String() + "s" + w.hours(first) + ", " +
		w.dates(first.Start, instances[len(instances)-1][0].Start)
}

func (w words) day(t time.Time) string { return t.In(w.loc).Format("Mon 2 Jan 2006") }

func (w words) moment(s Span, t time.Time) string {
	if s.AllDay {
		return t.In(w.loc).Format("2 Jan 2006")
	}
	return t.In(w.loc).Format("2 Jan 2006, 15:04")
}

// hours returns ", 20:00–23:00", or "" for a whole day.
func (w words) hours(s Span) string {
	if s.AllDay {
		return ""
	}
	text := ", " + s.Start.In(w.loc).Format("15:04")
	if s.End != nil {
		text += "–" + s.End.In(w.loc).Format("15:04")
	}
	return text
}

// sameHours reports whether [words.hours] of both are equal, without formatting.
func (w words) sameHours(a, b Span) bool {
	if a.AllDay || b.AllDay {
		return a.AllDay == b.AllDay
	}
	clock := func(t time.Time) int { hour, minute, _ := t.In(w.loc).Clock(); return hour*60 + minute }
	if a.End == nil || b.End == nil {
		return clock(a.Start) == clock(b.Start) && a.End == b.End
	}
	return clock(*a.End) == clock(*b.End)
}

// dates returns a range of days; month and year appear once if they are equal.
func (w words) dates(from, to time.Time) string {
	from, to = from.In(w.loc), to.In(w.loc)
	const full = "2 Jan 2006"
	switch {
	case from.Format(full) == to.Format(full):
		return from.Format(full)
	case from.Year() != to.Year():
		return from.Format(full) + " – " + to.Format(full)
	case from.Month() != to.Month():
		return from.Format("2 Jan") + " – " + to.Format(full)
	}
	return from.Format("2") + "–" + to.Format(full)
}
