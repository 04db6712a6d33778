package calendar

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/extract/recurrence"
	"carillon/command/collect/extract/timing"
)

// zone is the meaning of a zone name.
type zone struct {
	loc *time.Location
	// name is IANA's, "" if the calendar's rules match no known zone.
	name string
	// utc marks UTC, which does not locate the event; floats marks a missing zone.
	utc, floats bool
}

// zone returns the zone of a TZID: by a known name, the rules of the calendar, or a guess; else the zone of floating
// times.
func (f *file) zone(cal *header, tzid string) zone {
	if z, ok := cal.found[tzid]; ok {
		return z
	}
	if f.zones++; f.zones > maxZones {
		return f.floating(cal)
	}
	z, known := f.lookUp(cal, tzid)
	if known == unknown {
		z = f.floating(cal)
		f.notes.Add(collect.NoteAssumedTimezone, "the calendar's timezone %.60q is unknown: its times are read as those "+
			"that name none", tzid)
	}
	if known == offsetOnly {
		f.notes.Add(collect.NoteAssumedTimezone, "the calendar's timezone %.60q is unknown but for its offset, which is "+
			"taken", tzid)
	}
	cal.found[tzid] = z
	return z
}

// zoneKey normalizes the name of a zone, which occurs with and without escapes and quotes.
func zoneKey(tzid string) string { return strings.ToLower(timing.CleanZoneName(tzid)) }

// knowledge is the certainty of a zone name.
type knowledge int

const (
	unknown knowledge = iota
	offsetOnly
	wholly
)

// lookUp returns the meaning of a zone name, as [file.zone] does.
func (f *file) lookUp(cal *header, tzid string) (zone, knowledge) {
	if z, ok := named(tzid); ok {
		return z, wholly
	}
	if rules := cal.zones[zoneKey(tzid)]; rules != nil {
		if z, ok := f.ruled(cal, rules); ok {
			return z, wholly
		}
	}
	switch loc, name, exact := timing.GuessZone(tzid); {
	case loc == nil:
		return zone{}, unknown
	case !exact:
		return zone{loc: loc}, offsetOnly
	default:
		return zone{loc: loc, name: name}, wholly
	}
}

// maxZones limits the zone names that are looked up.
const maxZones = 150

// floating returns the zone of dates and times without one: the calendar's, or that of its only VTIMEZONE, else the
// source's.
func (f *file) floating(cal *header) zone {
	if cal.floating == nil {
		z := f.floatingIn(cal)
		cal.floating = &z
	}
	return *cal.floating
}

func (f *file) floatingIn(cal *header) zone {
	if z, ok := f.hinted(cal); ok {
		return z
	}
	if len(cal.zones) == 1 {
		for key := range cal.zones {
			if z, known := f.lookUp(cal, key); known != unknown {
				return z
			}
		}
	}
	if z, ok := named(f.home); ok {
		z.floats = true // a place may be more precise
		return z
	}
	return zone{loc: time.UTC, floats: true}
}

// hinted returns the zone that a calendar names for itself.
func (f *file) hinted(cal *header) (zone, bool) {
	for _, hint := range cal.hints() {
		if z, known := f.lookUp(cal, hint); known != unknown {
			return z, true
		}
	}
	return zone{}, false
}

// named returns a zone by a name that is known everywhere.
func named(tzid string) (zone, bool) {
	loc, name := timing.FindZone(tzid)
	return zone{loc: loc, name: name}, loc != nil
}

// ruled returns a zone of a calendar's own rules. If they match a known zone, now and in the year around, it has the
// name of that.
func (f *file) ruled(cal *header, rules *zoneRules) (zone, bool) {
	if z, ok := named(rules.location); ok {
		return z, true
	}
	loc, changes := f.location(rules)
	if loc == nil {
		return zone{}, false
	}
	likely := append(cal.hints(), f.home)
	if changes {
		likely = append(likely, timing.CommonZones()...)
	}
	for _, name := range likely {
		if z, ok := named(name); ok && f.alike(loc, z.loc) {
			return z, true
		}
	}
	return zone{loc: loc}, true
}

// alike reports whether two zones show the same clock over the window.
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

// change is a clock change of a zone.
type change struct {
	at int64 // Unix time
	to int   // seconds east of UTC
}

const (
	// zoneSteps limits the work for one part of a zone, maxChanges its results.
	zoneSteps  = 20_000
	maxChanges = 2000
)

// location returns a time.Location of a zone's rules, valid until the end of the window.
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

// onsets returns the wall clocks at which a season begins.
func (f *file) onsets(s lines, from int) []time.Time {
	plain := &header{found: map[string]zone{}}
	var all []time.Time
	start, ok := f.parseMoment(plain, line{}, s.value("DTSTART"), nil)
	if ok {
		all = append(all, start.wall)
	}
	for _, l := range s {
		switch {
		case l.name == "RDATE":
			for value := range strings.SplitSeq(l.value, ",") {
				if m, ok := f.parseMoment(plain, line{}, value, nil); ok && len(all) < maxChanges {
					all = append(all, m.wall)
				}
			}
		case l.name == "RRULE" && ok:
			rule, err := recurrence.ParseRule(l.value)
			if err != nil {
				continue
			}
			rule.Until = rule.Until.In(time.FixedZone("", from))
			// Events before the window are not shown, and clocks change twice a year.
			span := recurrence.Span{From: f.window.From.AddDate(-3, 0, 0), To: f.window.To.AddDate(1, 0, 0)}
			_ = recurrence.Walk(&recurrence.Allowance{Of: f.budget, Left: zoneSteps}, rule, start.wall, false, span,
				func(t time.Time) bool {
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

// tzif encodes a zone in the format of the tz database, RFC 9636, which Go can load.
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
	// The first part is for readers of 32 bits only.
	data := append(head(0, 1, 1), 0, 0, 0, 0, 0, 0, 0)
	data = append(data, head(len(kinds), len(offsets), 1)...)
	data = append(data, times...)
	data = append(data, kinds...)
	data = append(data, types...)
	return append(data, 0, '\n', '\n')
}
