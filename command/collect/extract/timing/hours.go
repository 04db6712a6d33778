package timing

import (
	"regexp"
	"strings"
	"time"
)

// Hours are opening hours by weekday. A day without any is closed; an empty map means unknown hours.
type Hours map[time.Weekday]Opening

// Opening is the first opening and the last closing of a day, counted from midnight.
type Opening struct{ Opens, Closes time.Duration }

// Add opens a day between two times. A closing before the opening, or at midnight, is on the next day.
func (h Hours) Add(d time.Weekday, opens, closes time.Duration) {
	if closes <= opens {
		closes += day
	}
	if have, ok := h[d]; ok {
		opens, closes = min(opens, have.Opens), max(closes, have.Closes)
	}
	h[d] = Opening{opens, closes}
}

var hoursText = regexp.MustCompile(`(?i)^((?:su|mo|tu|we|th|fr|sa)(?:\s*[-,]\s*(?:su|mo|tu|we|th|fr|sa))*)\s+` +
	`(\d{1,2}:\d{2})\s*[-–]\s*(\d{1,2}:\d{2})$`)

// AddText reads schema.org's openingHours, such as "Mo-Fr 10:00-18:00" or "Sa,Su 11:00-17:00"; it ignores other texts.
func (h Hours) AddText(text string) {
	m := hoursText.FindStringSubmatch(strings.TrimSpace(text))
	if m == nil {
		return
	}
	opens, _, ok := ParseTime(m[2])
	closes, _, ok2 := ParseTime(m[3])
	if !ok || !ok2 {
		return
	}
	for part := range strings.SplitSeq(m[1], ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, ok := ParseWeekday(from)
		last := first
		if isRange {
			last, ok2 = ParseWeekday(to)
		}
		if !ok || !ok2 {
			continue
		}
		for d := first.Day; ; d = (d + 1) % 7 {
			h.Add(d, opens, closes)
			if d == last.Day {
				break
			}
		}
	}
}

// Apply narrows whole days to the opening hours and leaves out closed ones. If no day remains, it returns the spans
// unchanged.
func (h Hours) Apply(spans []Span, loc *time.Location) []Span {
	if len(h) == 0 {
		return spans
	}
	open := make([]Span, 0, len(spans))
	for _, s := range spans {
		if !s.AllDay {
			open = append(open, s)
			continue
		}
		date := Midnight(WallOf(s.Start.In(loc)))
		o, ok := h[date.Weekday()]
		if !ok {
			continue
		}
		end := OnWall(date.Add(o.Closes), loc)
		open = append(open, Span{Start: OnWall(date.Add(o.Opens), loc), End: &end, Day: s.Day})
	}
	if len(open) == 0 {
		return spans
	}
	return open
}
