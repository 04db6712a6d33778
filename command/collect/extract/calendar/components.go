package calendar

import (
	"slices"
	"strings"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/timing"
)

// file has the events and zones of the calendars in a text. It nests components leniently, because real calendars have
// missing and superfluous ENDs.
type file struct {
	budget *budget.Budget
	notes  *collect.Notes
	// page is the displayed address of the file; home is the zone of the source, or "".
	page   string
	home   string
	window timing.Window
	events []*event
	// numbered counts the VEVENTs, dropped those above the limit.
	numbered, dropped int
	// rules counts the stored VTIMEZONEs, zones the names of zones that were looked up.
	rules, zones int
	// unread counts invalid lines.
	unread int
	stack  []*component
	// spare holds the lines of the current component, spareStarts and spareHoldings the expansion of the current event.
	// They are reused.
	spare         []line
	spareStarts   []instance
	spareHoldings []candidate.Holding
}

// component is the part between a BEGIN and its END.
type component struct {
	name     string
	calendar *header
	event    *event
	zone     *zoneRules
	isSeason bool
	// begin is the index of its first line in file.spare.
	begin int
}

// header has the properties of a calendar.
type header struct {
	// timezone is its X-WR-TIMEZONE, timezoneID its TIMEZONE-ID.
	timezone, timezoneID string
	// cancels marks METHOD:CANCEL: the listed events are cancelled.
	cancels bool
	// zones are its VTIMEZONEs, by their [zoneKey].
	zones map[string]*zoneRules
	// found caches the meanings of zone names; floating is that of a missing name.
	found    map[string]zone
	floating *zone
}

// hints returns the names of zones of the calendar as a whole.
func (h *header) hints() []string {
	return slices.DeleteFunc([]string{h.timezone, h.timezoneID}, func(name string) bool { return name == "" })
}

// event is a VEVENT as it is written.
type event struct {
	calendar *header
	// number counts the VEVENTs of the file, from 1.
	number int
	lines
}

// lines are the properties of a component.
type lines []line

func (ls lines) first(name string) (line, bool) {
	for _, l := range ls {
		if l.name == name {
			return l, true
		}
	}
	return line{}, false
}

func (ls lines) value(name string) string {
	l, _ := ls.first(name)
	return strings.TrimSpace(l.value)
}

// zoneRules is a VTIMEZONE. Its seasons are the STANDARD and DAYLIGHT parts.
type zoneRules struct {
	id, location string
	seasons      []lines
}

// read has the properties of events that are read.
var read = map[string]bool{
	"UID": true, "SUMMARY": true, "DESCRIPTION": true, "X-ALT-DESC": true, "DTSTART": true, "DTEND": true,
	"DURATION": true, "RRULE": true, "EXRULE": true, "RDATE": true, "EXDATE": true, "RECURRENCE-ID": true,
	"SEQUENCE": true, "STATUS": true, "LOCATION": true, "GEO": true, "URL": true, "ORGANIZER": true, "ATTACH": true,
	"IMAGE": true, "CONFERENCE": true, "CREATED": true, "LAST-MODIFIED": true, "DTSTAMP": true,
	"X-APPLE-STRUCTURED-LOCATION":      true,
	"X-GOOGLE-CONFERENCE":              true,
	"X-MICROSOFT-SKYPETEAMSMEETINGURL": true,
}

const (
	// maxDepth limits the nesting of components, maxSeasons the parts of a zone, maxEventLines the properties of an
	// event.
	maxDepth      = 50
	maxSeasons    = 500
	maxEventLines = 5000
	// maxKept limits the stored events, without single ones that are over.
	maxKept = 25_000
	// lineBytes and eventBytes are sizes in memory without texts, which the page shares.
	lineBytes, eventBytes = 48, 80
)

// parse reads the components of a text.
func (f *file) parse(text string) {
	for raw := range strings.SplitSeq(text, "\n") {
		raw = strings.TrimRight(raw, "\r")
		for end := carriageReturn(raw); end >= 0; end = carriageReturn(raw) {
			f.line(raw[:end])
			raw = raw[end+1:]
		}
		if f.line(raw); f.budget.Err() != nil {
			return
		}
	}
	f.closeFrom(0) // with a missing END
	if f.unread > 1 {
		f.notes.Add(collect.NoteBrokenMarkup, "%d lines of the calendar can't be read", f.unread)
	}
}

// carriageReturn returns the index of a carriage return that ends a line alone, -1 if there is none.
func carriageReturn(text string) int {
	for from := 0; ; {
		i := strings.IndexByte(text[from:], '\r')
		if i < 0 {
			return -1
		}
		i += from
		next := text[i+1:]
		if end := strings.IndexByte(next, '\r'); end >= 0 {
			next = next[:end]
		}
		if _, ok := parseLine(next); ok || next == "" {
			return i
		}
		from = i + 1
	}
}

// line reads a content line.
func (f *file) line(raw string) {
	if !f.budget.Work(2+len(raw)/64) || strings.TrimSpace(raw) == "" {
		return
	}
	l, ok := parseLine(raw)
	switch {
	case !ok:
		f.unread++
		if f.unread == 1 {
			f.notes.Add(collect.NoteBrokenMarkup, "a line of the calendar can't be read: %.60q", raw)
		}
	case l.name == "BEGIN":
		f.begin(strings.ToUpper(strings.TrimSpace(l.value)))
	case l.name == "END":
		f.end(strings.ToUpper(strings.TrimSpace(l.value)))
	default:
		f.property(l)
	}
}

func (f *file) top() *component {
	if len(f.stack) == 0 {
		return &component{}
	}
	return f.stack[len(f.stack)-1]
}

// begin opens a component. It closes an open component that can't contain the new one.
func (f *file) begin(name string) {
	if name == "VCALENDAR" || name == "VEVENT" {
		f.end(name)
	}
	if len(f.stack) >= maxDepth {
		f.budget.Refuse("components are nested too deeply")
		return
	}
	c := &component{
		name:     name,
		calendar: f.top().calendar,
		zone:     f.top().zone,
		begin:    len(f.spare),
	}
	if name == "VCALENDAR" || c.calendar == nil {
		c.calendar = &header{zones: map[string]*zoneRules{}, found: map[string]zone{}}
	}
	switch name {
	case "VEVENT":
		c.event = &event{calendar: c.calendar}
	case "VTIMEZONE":
		c.zone = &zoneRules{}
	case "STANDARD", "DAYLIGHT":
		c.isSeason = c.zone != nil
	}
	f.stack = append(f.stack, c)
}

// end closes a component with all components in it. It ignores one that isn't open.
func (f *file) end(name string) {
	i := len(f.stack) - 1
	for i >= 0 && f.stack[i].name != name {
		i--
	}
	if i >= 0 {
		f.closeFrom(i)
	}
}

// closeFrom closes the components from a position in the stack.
func (f *file) closeFrom(i int) {
	for len(f.stack) > i {
		f.pop()
	}
}

func (f *file) pop() {
	c := f.top()
	f.stack = f.stack[:len(f.stack)-1]
	lines := f.spare[c.begin:]
	switch {
	case c.event != nil:
		f.numbered++
		c.event.number, c.event.lines = f.numbered, lines
		switch {
		case f.isPast(c.event):
		case len(f.events) == maxKept:
			f.dropped++
		case f.budget.Memory(eventBytes + lineBytes*len(lines)):
			c.event.lines = slices.Clone(lines)
			f.events = append(f.events, c.event)
		}
	case c.isSeason:
		if len(c.zone.seasons) < maxSeasons && f.budget.Memory(lineBytes*len(lines)) {
			c.zone.seasons = append(c.zone.seasons, slices.Clone(lines))
		}
	case c.name == "VTIMEZONE" && f.rules < maxZones:
		f.rules++
		c.calendar.zones[zoneKey(c.zone.id)] = c.zone
	}
	f.spare = f.spare[:c.begin]
}

// isPast reports quickly whether an event is over: most events of old calendars are.
func (f *file) isPast(e *event) bool {
	last := ""
	for _, l := range e.lines {
		switch l.name {
		case "RRULE", "RDATE", "RECURRENCE-ID", "DURATION":
			return false
		case "DTSTART", "DTEND":
			if value := strings.TrimSpace(l.value); len(value) >= len("20060102") {
				last = max(last, value[:len("20060102")])
			}
		}
	}
	at, err := time.Parse("20060102", last)
	return err == nil && at.AddDate(0, 0, 3).Before(f.window.From)
}

func (f *file) property(l line) {
	switch c := f.top(); {
	case c.event != nil:
		if read[l.name] && len(f.spare)-c.begin < maxEventLines && !l.isAbsent() {
			switch l.name {
			case "RRULE", "EXRULE":
				l.value = modernRule(l.value)
			case "RDATE", "EXDATE":
				l.value = strings.ReplaceAll(l.value, ";", ",")
			}
			f.spare = append(f.spare, l)
		}
	case c.isSeason:
		switch l.name {
		case "DTSTART", "TZOFFSETFROM", "TZOFFSETTO", "RRULE", "RDATE":
			f.spare = append(f.spare, l)
		}
	case c.name == "VTIMEZONE":
		switch l.name {
		case "TZID":
			c.zone.id = unquote(l.value)
		case "X-LIC-LOCATION":
			c.zone.location = strings.TrimSpace(l.value)
		}
	case c.name == "VCALENDAR" && l.name == "X-WR-TIMEZONE":
		c.calendar.timezone = unquote(l.text())
	case c.name == "VCALENDAR" && l.name == "METHOD":
		c.calendar.cancels = strings.EqualFold(strings.TrimSpace(l.value), "CANCEL")
	case c.name == "VCALENDAR" && l.name == "TIMEZONE-ID":
		c.calendar.timezoneID = unquote(l.text())
	}
}
