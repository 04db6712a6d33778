package structured

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
)

// when sets the holdings of a candidate. Sub-events have precedence over the dates of the whole event, and a schedule
// over a mere start.
func (m *mapper) when(c *candidate.Candidate, it *item, parts []*item) {
	c.Recurring = len(parts) > 0 || it.is("EventSeries")
	status := m.status(it)
	if status != "" {
		m.says(c, collect.FieldStatus, it, "eventStatus")
	}
	for _, part := range parts {
		s := m.status(part)
		if s == "" {
			s = status // a cancelled series is cancelled in all its parts
		}
		c.Holdings = append(c.Holdings, m.holdings(part, s)...)
	}
	if len(c.Holdings) > 0 {
		m.saysWhen(c, parts[0])
		m.says(c, collect.FieldRecurrence, it, "subEvent")
		return
	}
	if len(it.values("eventSchedule")) > 0 {
		c.Recurring = true
		m.says(c, collect.FieldRecurrence, it, "eventSchedule")
	}
	c.Holdings = m.holdings(it, status)
	m.saysWhen(c, it)
}

func (m *mapper) saysWhen(c *candidate.Candidate, it *item) {
	from := it
	if schedules := m.things(it, "eventSchedule"); len(schedules) > 0 && it.one("startDate") == "" {
		from = schedules[0]
	}
	m.says(c, collect.FieldStart, from, firstKnown(from, "startDate", "previousStartDate")...)
	m.says(c, collect.FieldEnd, from, firstKnown(from, "endDate", "duration")...)
}

func (m *mapper) holdings(it *item, status happening.Status) []candidate.Holding {
	found := m.schedules(it)
	if len(found) == 0 {
		for _, r := range m.ranges(it) {
			found = append(found, candidate.Holding{When: r})
		}
	}
	original := m.stamp(it.one("previousStartDate"))
	for i := range found {
		found[i].Status = status
		if len(found) == 1 && original != nil {
			found[i].Original = original
		}
	}
	return found
}

// maxDate limits how much of a date is read, in bytes.
const maxDate = 200

// stamp parses a date; nil for other texts.
func (m *mapper) stamp(text string) *timing.Stamp {
	if text = cut(text, maxDate); text == "" || !m.budget.Work(40) {
		return nil
	}
	s, err := timing.Parse(text, m.monthFirst)
	if err != nil {
		return nil
	}
	return &s
}

// ranges reads startDate, endDate and duration. Several starts pair with the ends at their positions.
func (m *mapper) ranges(it *item) []timing.Range {
	starts, ends := it.raw("startDate"), it.raw("endDate")
	if len(starts) == 0 {
		// Google keeps the old date in startDate; schema.org moves it if the new one isn't known.
		starts = it.raw("previousStartDate")
	}
	if len(starts) != len(ends) { // some pages repeat one
		starts, ends = m.distinct(starts), m.distinct(ends)
	}
	length, _ := timing.ParseLength(it.one("duration"))
	var found []timing.Range
	for i, text := range starts {
		from, to, isInterval := strings.Cut(text, "/")
		r := timing.Range{Length: length}
		start := m.stamp(text)
		if isInterval {
			// An ISO 8601 interval, unless the slashes belong to a date.
			if a, b := m.stamp(from), m.stamp(to); a != nil && b != nil {
				start, r.End = a, b
			}
		}
		if start == nil {
			continue
		}
		r.Start = *start
		if len(ends) == len(starts) || i == 0 && len(starts) == 1 && len(ends) > 0 {
			r.End = m.stamp(ends[i])
		}
		found = append(found, r)
	}
	return found
}

// distinct returns the texts of different instants.
func (m *mapper) distinct(texts []string) []string {
	if len(texts) < 2 {
		return texts
	}
	seen := map[timing.Stamp]bool{}
	return slices.DeleteFunc(texts, func(text string) bool {
		s := m.stamp(text)
		if s == nil {
			return false
		}
		if s.HasOffset {
			s.Wall, s.Offset = s.In(time.UTC), 0
		}
		again := seen[*s]
		seen[*s] = true
		return again
	})
}

// schedules expands the event's schedules.
func (m *mapper) schedules(it *item) []candidate.Holding {
	var found []candidate.Holding
	for _, s := range m.things(it, "eventSchedule") {
		x, ok := m.expanded[scheduled{it, s}]
		if !ok && len(m.expanded) < maxSchedules {
			rule, clock := m.schedule(it, s)
			x = expansion{rule.Expand(m.budget, m.page.Window), clock}
			if clock != nil && rule.Start == nil && len(x.ranges) > 0 {
				clock.Wall = x.ranges[0].Start.Wall
			}
			m.expanded[scheduled{it, s}] = x
		}
		for _, r := range x.ranges {
			found = append(found, candidate.Holding{When: r, Clock: x.clock})
		}
	}
	return found
}

// schedule reads a Schedule, completed by the event itself. clock is the start with the offset of its clock. Optional.
func (m *mapper) schedule(event, s *item) (rule timing.Schedule, clock *timing.Stamp) {
	start := m.stamp(cmp.Or(s.one("startDate"), event.one("startDate")))
	if start != nil {
		date := timing.Midnight(start.Wall)
		rule.Start = &date
	}
	if end := m.stamp(cmp.Or(s.one("endDate"), event.one("endDate"))); end != nil && (rule.Start == nil ||
		end.Wall.After(*rule.Start)) {
		date := timing.Midnight(end.Wall)
		// The end of the event's first evening isn't that of its schedule.
		if s.one("endDate") != "" || rule.Start == nil || date.Sub(*rule.Start) > 48*time.Hour {
			rule.End = &date
		}
	}
	rule.Every, _ = timing.ParseFrequency(s.one("repeatFrequency"))
	rule.Count, _ = strconv.Atoi(s.one("repeatCount"))
	for _, text := range s.each("byDay") {
		if d, ok := timing.ParseWeekday(text); ok {
			rule.ByDay = append(rule.ByDay, d)
		}
	}
	rule.ByMonth, rule.ByMonthDay, rule.ByMonthWeek = s.numbers("byMonth"), s.numbers("byMonthDay"),
		s.numbers("byMonthWeek")
	var offset *int
	rule.Opens, offset = timeOfDay(s.one("startTime"))
	rule.Closes, _ = timeOfDay(s.one("endTime"))
	if rule.Opens == nil && start != nil && start.HasTime {
		opens := start.Wall.Sub(timing.Midnight(start.Wall))
		if rule.Opens = &opens; start.HasOffset {
			offset = &start.Offset
		}
	}
	if rule.Opens != nil && offset == nil {
		offset = m.offset(event, s, *rule.Opens)
	}
	if offset != nil {
		clock = &timing.Stamp{HasTime: true, HasOffset: true, Offset: *offset}
		if rule.Start != nil {
			clock.Wall = rule.Start.Add(*rule.Opens)
		}
	}
	rule.Length, _ = timing.ParseLength(cmp.Or(s.one("duration"), event.one("duration")))
	for _, text := range s.each("exceptDate") {
		if x := m.stamp(text); x != nil {
			rule.Except = append(rule.Except, *x)
			if clock != nil && x.HasTime && x.HasOffset && x.Offset != clock.Offset {
				x.Wall = x.Wall.Add(time.Duration(clock.Offset-x.Offset) * time.Second)
				rule.Except = append(rule.Except, *x)
			}
		}
	}
	return rule, clock
}

// offset returns the offset of a schedule whose times have none: that of its own start, else of its event's. UTC,
// which programs write for any zone, counts if the start has the time of day of the schedule.
func (m *mapper) offset(event, s *item, opens time.Duration) *int {
	if cmp.Or(s.one("scheduleTimezone"), event.one("scheduleTimezone"), event.one("timezone"),
		event.one("timeZone")) != "" {
		return nil
	}
	for _, text := range []string{s.one("startDate"), event.one("startDate")} {
		start := m.stamp(text)
		if start == nil || !start.HasTime || !start.HasOffset {
			continue
		}
		if !start.IsUTC() || start.Wall.Sub(timing.Midnight(start.Wall)) == opens {
			return &start.Offset
		}
	}
	return nil
}

// local marks times without an offset as UTC if their elements show another time to people, and both are the same
// instant in the zone of the event: some programs write UTC and show the local time.
func (m *mapper) local(c *candidate.Candidate, it *item) {
	if it.node == nil || len(c.Holdings) == 0 {
		return
	}
	loc := c.Location(m.page.Timezone)
	if loc == nil {
		return
	}
	for i := range c.Holdings {
		when := &c.Holdings[i].When
		if !when.Start.HasTime || when.Start.HasOffset {
			continue
		}
		shown, contrary := m.shownLocal(it, "startDate", when.Start, loc)
		if when.End != nil && when.End.HasTime && !when.End.HasOffset && !shown && !contrary {
			shown, _ = m.shownLocal(it, "endDate", *when.End, loc)
		}
		when.Start.HasOffset = shown
	}
}

// shownLocal reports whether an element with the stamp shows the local time of it as a time in UTC, and whether it
// shows the time unchanged.
func (m *mapper) shownLocal(it *item, prop string, s timing.Stamp, loc *time.Location) (shown, contrary bool) {
	for _, v := range it.values(prop) {
		if v.node == nil {
			continue
		}
		date := m.stamp(v.text)
		text := m.shown(v.node, maxDate)
		clock, ok := timing.FirstShown(text)
		if date == nil || !date.Wall.Equal(s.Wall) || !ok {
			continue
		}
		if clock.Is(s.Wall) {
			return false, true
		}
		utc := s
		utc.HasOffset, utc.Offset = true, 0
		local := timing.WallOf(utc.In(loc))
		if day := m.stamp(text); clock.Is(local) && (day == nil || timing.Midnight(day.Wall).Equal(timing.Midnight(local))) {
			return true, false
		}
	}
	return false, false
}

// each returns the texts of a property, splitting those with commas.
func (it *item) each(prop string) []string {
	var found []string
	for _, text := range it.raw(prop) {
		if !it.graph.budget.Work(1+len(text)/8) || !it.graph.budget.Memory(16*(2+strings.Count(text, ","))) {
			return nil
		}
		found = append(found, strings.FieldsFunc(text, func(r rune) bool { return r == ',' })...)
	}
	for _, v := range it.values(prop) {
		if v.item != nil && v.item.id != "" && v.item.naming() == "" {
			found = append(found, v.item.id)
		}
	}
	return found
}

func (it *item) numbers(prop string) []int {
	var found []int
	for _, text := range it.each(prop) {
		if n, err := strconv.Atoi(text); err == nil {
			found = append(found, n)
		}
	}
	return found
}

// timeOfDay parses a time of day and its offset.
func timeOfDay(text string) (sinceMidnight *time.Duration, offset *int) {
	// Some pages have a whole date in place of a time.
	if s, err := timing.Parse(text, false); err == nil && s.HasTime {
		c := s.Wall.Sub(timing.Midnight(s.Wall))
		if s.HasOffset {
			offset = &s.Offset
		}
		return &c, offset
	}
	c, offset, ok := timing.ParseTime(text)
	if !ok {
		return nil, nil
	}
	return &c, offset
}

// status reads eventStatus. It is "" without a statement, and for "scheduled", which many programs write for every
// event.
func (m *mapper) status(it *item) happening.Status {
	names := m.names(it, "eventStatus")
	for _, s := range []struct {
		name   string
		status happening.Status
	}{
		{"cancelled", happening.Cancelled}, {"canceled", happening.Cancelled},
		{"postponed", happening.Postponed}, {"rescheduled", happening.Rescheduled},
	} {
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(name, s.name) }) {
			return s.status
		}
	}
	for _, text := range it.raw("eventStatus") {
		if remark := identity.ReadRemark(text); remark.Status != "" {
			return remark.Status
		}
	}
	return ""
}

// names returns the local names, in lower case, of a property's enumeration values.
func (m *mapper) names(it *item, prop string) []string {
	values := it.values(prop)
	found := make([]string, 0, len(values))
	for _, v := range values {
		text := v.text
		if v.item != nil {
			text = cmp.Or(v.item.id, v.item.naming())
		}
		found = append(found, strings.ToLower(localName(text)))
	}
	return found
}

// zone sets the timezone that an event states.
func (m *mapper) zone(c *candidate.Candidate, it *item) {
	for _, prop := range []string{"timezone", "timeZone", "scheduleTimezone"} {
		if c.Zone = it.one(prop); c.Zone != "" {
			m.says(c, collect.FieldTimezone, it, prop)
			return
		}
	}
	for _, s := range m.things(it, "eventSchedule") {
		if c.Zone = s.one("scheduleTimezone"); c.Zone != "" {
			m.says(c, collect.FieldTimezone, s, "scheduleTimezone")
			return
		}
	}
}
