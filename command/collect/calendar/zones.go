package calendar

import (
	_ "embed" // the table below
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/recurrence"
	"carillon/command/collect/timing"
)

//go:embed windows.txt
var windowsText string

// windows maps the names that Microsoft gives zones, in lower case, to IANA's.
var windows = sync.OnceValue(func() map[string]string {
	names := map[string]string{}
	for row := range strings.Lines(windowsText) {
		if name, iana, ok := strings.Cut(strings.TrimSpace(row), "|"); ok && row[0] != '#' {
			names[strings.ToLower(name)] = iana
		}
	}
	return names
})

// zone is what a name of a zone means.
type zone struct {
	loc *time.Location
	// name is IANA's, "" where the calendar's own rules are like no zone's that is known.
	name string
	// utc: stated in UTC, which says nothing about where. floats: nothing is stated.
	utc, floats bool
}

// zone finds the zone of a TZID: by a name of IANA's or Microsoft's, a path that ends in one, or the rules of the
// calendar; else what floating times mean.
func (f *file) zone(cal *header, tzid string) zone {
	tzid = strings.TrimSpace(tzid)
	if z, ok := cal.found[tzid]; ok {
		return z
	}
	if f.zones++; f.zones > maxZones {
		return f.floating(cal)
	}
	z, ok := named(tzid)
	if rules := cal.zones[tzid]; !ok && rules != nil {
		z, ok = f.ruled(cal, rules)
	}
	if !ok {
		z = f.floating(cal)
		f.notes.Add(collect.NoteAssumedTimezone, "the calendar's timezone %.60q is unknown: its times are read as those that name none", tzid)
	}
	cal.found[tzid] = z
	return z
}

// maxZones is how many names of zones are looked up.
const maxZones = 150

// floating is what times mean that name no zone: the calendar's, else the source's.
func (f *file) floating(cal *header) zone {
	if cal.floating == nil {
		z := f.floatingIn(cal)
		cal.floating = &z
	}
	return *cal.floating
}

func (f *file) floatingIn(cal *header) zone {
	if z, ok := named(cal.timezone); ok {
		return z
	}
	if z, ok := named(f.home); ok {
		z.floats = true // a place may tell better
		return z
	}
	return zone{loc: time.UTC, floats: true}
}

// named finds a zone by its name: IANA's, Microsoft's, one of them without "Standard Time" as Lotus has it, or one at
// the end of a path.
func named(tzid string) (zone, bool) {
	tzid = strings.TrimSpace(tzid)
	if tzid == "" || len(tzid) > maxZoneName {
		return zone{}, false
	}
	lower := strings.ToLower(tzid)
	for _, name := range []string{lower, strings.TrimRight(lower, " 0123456789"), lower + " standard time"} {
		if iana, ok := windows()[name]; ok {
			tzid = iana
			break
		}
	}
	for tail, more := tzid, true; more; _, tail, more = strings.Cut(tail, "/") {
		if loc := timing.LoadZone(tail); loc != nil {
			return zone{loc: loc, name: tail}, true
		}
	}
	if before, after, ok := strings.Cut(tzid, "-"); ok && !strings.Contains(tzid, "/") {
		if name := before + "/" + after; timing.LoadZone(name) != nil { // US-Eastern
			return zone{loc: timing.LoadZone(name), name: name}, true
		}
	}
	return zone{}, false
}

// maxZoneName is longer than any name of a zone with the path before it.
const maxZoneName = 200

// ruled makes a zone of a calendar's own rules. Where they are those of a known zone, now and in the year around, it
// has that one's name.
func (f *file) ruled(cal *header, rules *zoneRules) (zone, bool) {
	if z, ok := named(rules.location); ok {
		return z, true
	}
	loc, changes := f.location(rules)
	if loc == nil {
		return zone{}, false
	}
	likely := []string{cal.timezone, f.home}
	if changes {
		likely = append(likely, commonZones()...)
	}
	for _, name := range likely {
		if z, ok := named(name); ok && f.alike(loc, z.loc) {
			return z, true
		}
	}
	return zone{loc: loc}, true
}

// commonZones are the zones that have a Windows name, Europe and America first.
var commonZones = sync.OnceValue(func() []string {
	others := slices.Sorted(maps.Values(windows()))
	return slices.Concat([]string{
		"Europe/Berlin", "Europe/London", "Europe/Helsinki", "America/New_York", "America/Chicago", "America/Denver", "America/Los_Angeles",
	}, slices.Compact(others))
})

// alike says that two zones show the same clock over the window.
func (f *file) alike(a, b *time.Location) bool {
	for t := f.window.From; t.Before(f.window.To); t = t.AddDate(0, 0, 5) {
		_, x := t.In(a).Zone()
		_, y := t.In(b).Zone()
		if x != y || !f.budget.Work(8) {
			return false
		}
	}
	return true
}

// change is a moment at which a zone's clock is set.
type change struct {
	at int64 // Unix time
	to int   // seconds east of UTC
}

const (
	// zoneSteps bounds the work for one part of a zone, maxChanges what it gives.
	zoneSteps  = 20_000
	maxChanges = 2000
)

// location makes a time.Location of a zone's rules. It holds until the end of the window.
func (f *file) location(rules *zoneRules) (loc *time.Location, changes bool) {
	var all []change
	earliest, before := int64(1)<<62, 0
	for _, s := range rules.seasons {
		from, ok := parseOffset(s.value("TZOFFSETFROM"))
		to, ok2 := parseOffset(s.value("TZOFFSETTO"))
		if !ok2 {
			continue
		}
		if !ok {
			from = to
		}
		for _, wall := range f.onsets(s, from) {
			at := wall.Unix() - int64(from)
			if at < earliest {
				earliest, before = at, from
			}
			all = append(all, change{at, to})
		}
	}
	if len(all) == 0 || !f.budget.Work(10*len(all)) {
		return nil, false
	}
	slices.SortStableFunc(all, func(a, b change) int { return int(min(max(a.at-b.at, -1), 1)) })
	all = slices.CompactFunc(all, func(a, b change) bool { return a.at == b.at })
	for _, c := range all {
		changes = changes || c.to != all[0].to
	}
	loc, err := time.LoadLocationFromTZData(rules.id, tzif(before, all))
	if err != nil {
		return nil, false
	}
	return loc, changes
}

// onsets gives the wall clocks at which a season begins.
func (f *file) onsets(s season, from int) []time.Time {
	plain := &header{found: map[string]zone{}}
	var all []time.Time
	start, ok := f.parseMoment(plain, line{}, s.value("DTSTART"))
	if ok {
		all = append(all, start.wall)
	}
	for _, l := range s.lines {
		switch {
		case l.name == "RDATE":
			for value := range strings.SplitSeq(l.value, ",") {
				if m, ok := f.parseMoment(plain, line{}, value); ok && len(all) < maxChanges {
					all = append(all, m.wall)
				}
			}
		case l.name == "RRULE" && ok:
			rule, err := recurrence.ParseRule(l.value)
			if err != nil {
				continue
			}
			rule.Until = rule.Until.In(time.FixedZone("", from))
			// No event before the window is told of, and a clock is set twice a year.
			span := recurrence.Span{From: f.window.From.AddDate(-3, 0, 0), To: f.window.To.AddDate(1, 0, 0)}
			_ = recurrence.Walk(&recurrence.Allowance{Of: f.budget, Left: zoneSteps}, rule, start.wall, false, span, func(t time.Time) bool {
				all = append(all, t)
				return len(all) < maxChanges
			})
		}
	}
	return all
}

// parseOffset reads "+0100" or "-013045" as seconds east of UTC.
func parseOffset(text string) (seconds int, ok bool) {
	if len(text) < 5 || text[0] != '+' && text[0] != '-' {
		return 0, false
	}
	digits := strings.ReplaceAll(text[1:], ":", "")
	for _, unit := range []int{3600, 60, 1} {
		if len(digits) < 2 {
			break
		}
		a, b := digits[0]-'0', digits[1]-'0'
		if a > 9 || b > 9 {
			return 0, false
		}
		seconds += int(a*10+b) * unit
		digits = digits[2:]
	}
	if text[0] == '-' {
		seconds = -seconds
	}
	return seconds, seconds > -day && seconds < day
}

const day = 24 * 3600

// tzif writes a zone in the format of the tz database, RFC 9636, which is how Go can be told of one.
func tzif(before int, changes []change) []byte {
	var offsets []int
	kind := func(offset int) byte {
		i := slices.Index(offsets, offset)
		if i < 0 {
			i = len(offsets)
			offsets = append(offsets, offset)
		}
		return byte(min(i, 255)) //nolint:gosec // at most 255
	}
	kind(before)
	var times, kinds, types []byte
	for _, c := range changes {
		if len(offsets) > 250 {
			break
		}
		times = binary.BigEndian.AppendUint64(times, uint64(c.at)) //nolint:gosec // two's complement is the format
		kinds = append(kinds, kind(c.to))
	}
	for _, offset := range offsets {
		types = binary.BigEndian.AppendUint32(types, uint32(int32(offset))) //nolint:gosec // less than a day
		types = append(types, 0, 0)
	}
	head := func(changes, types, letters int) []byte {
		h := append([]byte("TZif2"), make([]byte, 15)...)
		for _, n := range []int{0, 0, 0, changes, types, letters} {
			h = binary.BigEndian.AppendUint32(h, uint32(n)) //nolint:gosec // small
		}
		return h
	}
	// The first part is for readers that know 32 bits only.
	data := append(head(0, 1, 1), 0, 0, 0, 0, 0, 0, 0)
	data = append(data, head(len(kinds), len(offsets), 1)...)
	data = append(data, times...)
	data = append(data, kinds...)
	data = append(data, types...)
	return append(data, 0, '\n', '\n')
}
