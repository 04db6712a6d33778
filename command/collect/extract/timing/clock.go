package timing

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

var (
	clockTime = regexp.MustCompile(`^(\d{1,2})(?:[:.hH](\d{2}))?(?:[:.](\d{2}))?(?:[.,]\d+)?`)
	basicTime = regexp.MustCompile(`^(\d{2})(\d{2})(\d{2})?(?:[.,]\d+)?(?:$|\D)`)
	// 10-30-00, and the 10-10-30-00 of a calendar plugin that writes the hour twice.
	dashTime  = regexp.MustCompile(`^(\d{1,2})-(\d{1,2})-(\d{2})(?:-(\d{2}))?(?:$|\D)`)
	halfOfDay = regexp.MustCompile(`(?i)^\s*([ap])\.?\s?m\.?`)
	offsetHM  = regexp.MustCompile(`^(?:GMT|UTC)?\s?([+\x{2212}-])(\d{1,2})(?::?(\d{2}))?(?::\d{2})?`)
)

// ParseTime reads a time of day: "19:00:00", "7:30 PM", "1930", "T19", and its offset; nil for none.
func ParseTime(text string) (sinceMidnight time.Duration, offset *int, ok bool) {
	clock, rest, ok := parseClock(strings.TrimLeft(strings.TrimSpace(text), "Tt"))
	if seconds, stated := parseOffset(strings.TrimSpace(rest)); ok && stated {
		offset = &seconds
	}
	return clock, offset, ok
}

var (
	// shownClock matches a time in a text for people: with minutes, or with the half of the day.
	shownClock = regexp.MustCompile(`(?i)(?:^|[^\d:.,/-])(\d{1,2})(?:[:h](\d{2})(?::\d{2})?|(?:[.:](\d{2}))?\s?(?:uhr` +
		`|h)\b|\s?([ap])\.?\s?m\b)`)
	halfShown = regexp.MustCompile(`(?i)^\s*([ap])\.?\s?m\b`)
	// bareRange matches the end of "7 - 9 pm", untilWords what stands between two times.
	bareRange  = regexp.MustCompile(`(?i)\d\s*[-–—]\s*\d{1,2}(?:[:.]\d{2})?\s*[ap]\.?m\.?$`)
	untilWords = regexp.MustCompile(`(?i)^\.?\s*(?:uhr)?\s*(?:[-–—]|to|until|till|bis|à|al|às|tot|til)\s*`)
)

// Shown is a time of day in a text; Halved marks one that may be of either half of the day.
type Shown struct {
	Clock  time.Duration
	Halved bool
	half   string // "a" or "p" if it is stated
}

// FirstShown finds the first time of day in a text for people.
func FirstShown(text string) (s Shown, ok bool) {
	s, _, ok = cutShown(text)
	return s, ok
}

// ShownTimes finds the first time of day in a text for people, and the end that follows it, which is optional. A range
// that begins with a bare number is not ok.
func ShownTimes(text string) (start Shown, end *Shown, ok bool) {
	start, rest, ok := cutShown(text)
	if !ok || bareRange.MatchString(text[:len(text)-len(rest)]) {
		return Shown{}, nil, false
	}
	if to := untilWords.FindString(rest); to != "" {
		later, after, ok := cutShown(rest[len(to):])
		if at := shownClock.FindStringIndex(rest[len(to):]); ok && at[0] == 0 && len(after) < len(rest) {
			end = &later
		}
	}
	if end != nil && start.half == "" && end.half == "p" && start.Clock+day/2 < end.Clock {
		start.Clock, start.Halved = start.Clock+day/2, false // "7:00–11:30 pm"
	}
	return start, end, true
}

// cutShown finds the first time of day in a text, and returns the text after it.
func cutShown(text string) (s Shown, rest string, ok bool) {
	at := shownClock.FindStringSubmatchIndex(text)
	if at == nil {
		return Shown{}, "", false
	}
	group := func(i int) string {
		if at[2*i] < 0 {
			return ""
		}
		return text[at[2*i]:at[2*i+1]]
	}
	half, rest := group(4), text[at[1]:]
	if m := halfShown.FindStringSubmatch(rest); m != nil {
		half, rest = m[1], rest[len(m[0]):]
	}
	hour, minute := number(group(1)), number(group(2)+group(3))
	s.half = strings.ToLower(half)
	if half != "" && hour <= 12 {
		hour %= 12
		if s.half == "p" {
			hour += 12
		}
	}
	s.Clock = time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute
	s.Halved = half == "" && hour <= 12 && hour > 0
	return s, rest, hour < 24 && minute < 60
}

// Is reports whether the time may be that of a wall clock.
func (s Shown) Is(wall time.Time) bool {
	clock := wall.Sub(Midnight(wall)).Truncate(time.Minute)
	return clock == s.Clock || s.Halved && (clock+day/2)%day == s.Clock%day
}

func parseClock(text string) (clock time.Duration, rest string, ok bool) {
	var h, m, s string
	switch {
	case dashTime.MatchString(text):
		g := dashTime.FindStringSubmatch(text)
		h, m, s = g[1], g[2], g[3]
		rest = text[len(strings.Join(g[1:4], "-")):]
		if g[4] != "" {
			rest = strings.TrimPrefix(rest, "-"+g[4])
			if number(g[1]) == number(g[2]) {
				m, s = g[3], g[4]
			}
		}
	case basicTime.MatchString(text):
		g := basicTime.FindStringSubmatch(text)
		h, m, s = g[1], g[2], g[3]
		rest = strings.TrimLeft(text[len(h+m+s):], ".,0123456789")
	default:
		g := clockTime.FindStringSubmatch(text)
		if g == nil {
			return 0, "", false
		}
		h, m, s = g[1], g[2], g[3]
		rest = text[len(g[0]):]
	}
	hour := number(h)
	if g := halfOfDay.FindStringSubmatch(rest); g != nil && hour >= 1 && hour <= 12 {
		rest = rest[len(g[0]):]
		hour %= 12
		if strings.EqualFold(g[1], "p") {
			hour += 12
		}
	}
	clock = time.Duration(hour)*time.Hour + time.Duration(number(m))*time.Minute + time.Duration(number(s))*time.Second
	if hour > 24 || number(m) > 59 || number(s) > 60 || clock > day {
		return 0, "", false
	}
	return clock, rest, true
}

// abbreviations have one offset nearly everywhere.
var abbreviations = map[string]int{
	"Z": 0, "GMT": 0, "UTC": 0, "WET": 0, "CET": 1, "CEST": 2, "EET": 2, "EEST": 3, "WEST": 1,
	"EST": -5, "EDT": -4, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7,
}

// parseOffset reads a zone as an offset in seconds east of UTC: "Z", "+02:00", "-0400", "GMT+2", "CEST". It leaves
// "[Europe/Berlin]" to others.
func parseOffset(text string) (seconds int, ok bool) {
	if text == "+0:00" || text == "-0:00" {
		return 0, false // EventON, a calendar plugin, writes it for an unknown offset
	}
	if g := offsetHM.FindStringSubmatch(text); g != nil {
		if halfOfDay.MatchString(text[len(g[0]):]) {
			return 0, false // the end of a range such as "8:00 AM-9:00 AM"
		}
		return offsetOf(g[1], g[2], g[3])
	}
	name, _, _ := strings.Cut(strings.ToUpper(text), " ")
	hours, ok := abbreviations[strings.Trim(name, "()[]")]
	return hours * 3600, ok
}

// offsetOf returns an offset in seconds east of UTC.
func offsetOf(sign, hours, minutes string) (seconds int, ok bool) {
	h, m := number(hours), number(minutes)
	if h > 14 || m > 59 {
		return 0, false
	}
	if seconds = h*3600 + m*60; sign == "-" || sign == "\u2212" {
		seconds = -seconds
	}
	return seconds, true
}

// Length is an ISO 8601 duration. Years, months, weeks and days are calendar units, Clock is the part after the T.
type Length struct {
	Years, Months, Weeks, Days int
	Clock                      time.Duration
}

var isoLength = regexp.MustCompile(`^P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)` +
	`(?:[.,]\d+)?S)?)?$`)

const maxLengthPart = 100_000

// ParseLength reads an ISO 8601 duration such as "PT90M" or "P2W". Zero and negative ones are not ok.
func ParseLength(text string) (l Length, ok bool) {
	g := isoLength.FindStringSubmatch(strings.ToUpper(strings.TrimSpace(text)))
	if g == nil {
		return Length{}, false
	}
	var parts [7]int
	for i, s := range g[1:] {
		n, err := strconv.Atoi("0" + s)
		if err != nil || n > maxLengthPart {
			return Length{}, false
		}
		parts[i] = n
	}
	l = Length{
		Years:  parts[0],
		Months: parts[1],
		Weeks:  parts[2],
		Days:   parts[3],
		Clock:  time.Duration(parts[4])*time.Hour + time.Duration(parts[5])*time.Minute + time.Duration(parts[6])*time.Second,
	}
	return l, l != Length{}
}

// after returns the wall clock when the length has passed.
func (l Length) after(wall time.Time) time.Time {
	return wall.AddDate(l.Years, l.Months, l.Weeks*7+l.Days).Add(l.Clock)
}
