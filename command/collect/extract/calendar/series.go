package calendar

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/markup"
	"carillon/command/collect/extract/recurrence"
	"carillon/command/collect/extract/timing"
)

// series is an event with all its instances.
type series struct {
	// master has the shared properties of the instances. If a calendar has single instances only, it is the first of
	// them.
	master *event
	// alone marks a series without a real master.
	alone     bool
	overrides []*event
	// off marks a series that another calendar of the file cancels.
	off      bool
	holdings []candidate.Holding
	zone     zone
	// start is the start of the first instance.
	start     moment
	recurring bool
	// unfinished marks rules that take too much work, cut too many instances, late the omission of instances before this
	// month.
	unfinished, cut, late bool
	limit                 int
}

// series groups the events of one UID in one calendar. Of a repeated master or instance the last version counts.
// Without a sign of versions, masters that begin at different times are dates of one event.
func (f *file) series() []*series {
	type key struct {
		calendar *header
		uid      string
	}
	byUID := map[key]*versions{}
	all := make([]*versions, 0, len(f.events))
	for _, e := range f.events {
		if !f.budget.Work(20) {
			return nil
		}
		uid := e.value("UID")
		t := byUID[key{e.calendar, uid}]
		if t == nil || uid == "" {
			t = &versions{}
			byUID[key{e.calendar, uid}] = t
			all = append(all, t)
		}
		if _, isOverride := e.first("RECURRENCE-ID"); isOverride && len(e.lines) > 0 {
			t.overrides = append(t.overrides, e)
		} else {
			t.masters = append(t.masters, e)
		}
	}
	found := make([]*series, 0, len(all))
	for _, t := range all {
		found = f.seriesOf(found, t)
	}
	return cancelled(found)
}

// cancelled applies the calendars that cancel to the events of the others in the file. Events without a counterpart
// are returned as cancelled ones.
func cancelled(all []*series) []*series {
	if !slices.ContainsFunc(all, func(s *series) bool { return s.master.calendar.cancels }) {
		return all
	}
	byUID := map[string][]*series{}
	for _, s := range all {
		if uid := s.master.value("UID"); uid != "" && !s.master.calendar.cancels {
			byUID[uid] = append(byUID[uid], s)
		}
	}
	return slices.DeleteFunc(all, func(s *series) bool {
		of := byUID[s.master.value("UID")]
		if len(of) == 0 || !s.master.calendar.cancels {
			return false
		}
		for _, one := range s.dateOf(of) {
			one.overrides = append(one.overrides, s.overrides...)
			one.off = one.off || !s.alone && sequence(s.master) >= sequence(one.master)
		}
		return true
	})
}

// dateOf returns which dates of an event are cancelled: the one with the start, or else all; for a single instance the
// last.
func (s *series) dateOf(all []*series) []*series {
	start := s.master.value("DTSTART")
	if s.alone {
		start = s.master.value("RECURRENCE-ID")
	}
	i := slices.IndexFunc(all, func(of *series) bool { return of.master.value("DTSTART") == start })
	switch {
	case i >= 0:
		return all[i : i+1]
	case s.alone:
		return all[len(all)-1:]
	}
	return all
}

// versions are the events of a calendar with one UID.
type versions struct{ masters, overrides []*event }

func (f *file) seriesOf(found []*series, t *versions) []*series {
	if len(t.masters) == 0 {
		return append(found, &series{master: t.overrides[0], alone: true, overrides: t.overrides})
	}
	versions := len(t.overrides) > 0 || slices.ContainsFunc(t.masters, func(e *event) bool {
		return e.value("SEQUENCE") != ""
	})
	first, byStart := len(found), map[string]*series{}
	for _, e := range t.masters {
		start := ""
		if !versions {
			start = e.value("DTSTART")
		}
		switch s := byStart[start]; {
		case s == nil:
			byStart[start] = &series{master: e, overrides: t.overrides}
			found = append(found, byStart[start])
		case !older(e, s.master):
			s.master = e
		}
	}
	if n := len(found) - first; n > 1 {
		f.notes.Add(collect.NoteSeveralDates, "%q is there %d times under one UID: entries with one title are read as "+
			"dates of one event",
			f.title(t.masters[0]), n)
	}
	return found
}

// older reports whether a version precedes another one.
func older(a, b *event) bool {
	changed := func(e *event) string { return cmp.Or(e.value("LAST-MODIFIED"), e.value("DTSTAMP")) }
	return cmp.Or(cmp.Compare(sequence(a), sequence(b)), strings.Compare(changed(a), changed(b))) < 0
}

// sequence returns the version of an event, as its organizer counts.
func sequence(e *event) int {
	n, err := strconv.Atoi(e.value("SEQUENCE"))
	if err != nil {
		return 0
	}
	return n
}

// maxInstances limits the instances of one event, so that it fits into a stored event.
const maxInstances = 1000

// expand sets the holdings of a series within the window, up to a limit. steps limits the cost of its rules. Of a
// series with more instances, those of this month and later come first.
func (f *file) expand(s *series, steps *recurrence.Allowance, limit int) {
	s.limit, s.late = limit, false
	f.expandOnce(s, steps)
	if s.cut && f.window == timing.WindowAt(f.thisMonth()) {
		s.late = true
		f.expandOnce(s, steps)
		s.cut = true
	}
}

// thisMonth returns the month in which the usual window is used, not the day, so that the same file leads to the same
// instances all month.
func (f *file) thisMonth() time.Time { return f.window.From.AddDate(0, 1, 0) }

func (f *file) expandOnce(s *series, steps *recurrence.Allowance) {
	s.cut, s.unfinished = false, false
	s.holdings = f.spareHoldings[:0]
	defer func() { f.spareHoldings, s.holdings = s.holdings, slices.Clone(s.holdings) }()
	first, ok := f.instanceOf(s.master, nil, f.masterClock(s))
	if !ok {
		return
	}
	s.zone, s.start = first.start.zone, first.start
	status := f.status(s.master)
	if s.off {
		status = happening.Cancelled
	}
	if s.alone {
		s.recurring = true
		f.addOverrides(s, first, nil, status)
		return
	}
	changed := f.overrides(s)
	starts := f.starts(s, first.first(), steps)
	changed.forget(s.master, starts)
	s.recurring = s.recurring || len(s.overrides) > 0
	for _, start := range starts {
		if changed.one[start.start.wall] != nil {
			continue
		}
		h := candidate.Holding{Status: status}
		if ranged := changed.rangeAt(start.start.wall); ranged != nil {
			moved := start.shifted(ranged)
			original := start.start.stamp(s.zone)
			h.Original = &original
			h.Status = cmp.Or(f.status(ranged.event), status)
			start = moved
		}
		if !f.within(start, s.recurring) {
			continue
		}
		if len(s.holdings) >= s.limit {
			s.cut = true
			break
		}
		h.When = start.shown(s.zone)
		s.holdings = append(s.holdings, h)
	}
	f.addOverrides(s, first, changed.all, status)
}

// masterClock returns the clock of a master that does not state one: an instance in place of the master uses that of
// the date it replaces.
func (f *file) masterClock(s *series) *zone {
	l, ok := s.master.first("RECURRENCE-ID")
	if tzid := l.param("TZID"); ok && tzid != "" {
		z := f.zone(s.master.calendar, tzid)
		return &z
	}
	return nil
}

// clock returns a moment on the clock of the master; for a date without a time, if the event has times, the start of
// that day.
func (s *series) clock(m moment) time.Time {
	wall := m.in(s.zone).wall
	if s.zone.floats && !m.zone.utc {
		wall = m.wall // only this moment has a zone
	}
	switch {
	case m.hasTime && !s.start.hasTime && !m.zone.utc:
		return timing.Midnight(m.wall) // the date as written
	case m.hasTime && !s.start.hasTime:
		return s.dayOf(m.wall)
	case !m.hasTime && s.start.hasTime:
		return wall.Add(s.start.wall.Sub(timing.Midnight(s.start.wall)))
	}
	return wall
}

// dayOf returns the date that an instant in UTC means in a series of whole days: the one that begins or ends with it on
// the clock of the master or in UTC. Without a zone it is the nearest.
func (s *series) dayOf(utc time.Time) time.Time {
	wall := timing.WallOf(utc.In(s.zone.loc))
	for _, t := range []time.Time{wall, utc} {
		if clock := t.Sub(timing.Midnight(t)); clock == 0 || clock == 24*time.Hour-time.Second {
			return timing.Midnight(t)
		}
	}
	if s.zone.floats {
		return timing.Midnight(wall.Add(12 * time.Hour))
	}
	return timing.Midnight(wall)
}

// starts returns the instances of rules and lists of dates, without the excepted ones. They are valid until the next
// call.
func (f *file) starts(s *series, first instance, steps *recurrence.Allowance) []instance {
	except := f.excepted(s, first, steps)
	all := f.spareStarts[:0]
	defer func() { f.spareStarts = all }()
	add := func(in instance) {
		if !except.has(in.start.wall) {
			all = append(all, in)
		}
	}
	span := f.span(s, first)
	ruled, given := false, 0
	for _, l := range s.master.lines {
		switch l.name {
		case "RRULE":
			rule, err := recurrence.ParseRule(l.value)
			if err != nil {
				f.notes.Add(collect.NoteBrokenMarkup, "%q repeats by a rule that can't be read: %.80q", f.title(s.master), l.value)
				continue
			}
			ruled, s.recurring = true, true
			if rule.Until.UTC && !first.start.hasTime {
				rule.Until = recurrence.Until{Wall: s.dayOf(rule.Until.Wall)}
			}
			rule.Until = rule.Until.In(first.start.zone.loc)
			given := 0
			err = recurrence.Walk(steps, rule, first.start.wall, !first.start.hasTime, span, func(wall time.Time) bool {
				given++
				add(first.at(wall))
				return given <= s.limit+margin
			})
			s.unfinished = s.unfinished || errors.Is(err, recurrence.ErrSteps)
			s.cut = s.cut || given > s.limit+margin
		case "RDATE":
			s.recurring = true
			f.dates(s, l, first, func(in instance) {
				if given++; given <= 2*maxInstances {
					add(in)
				} else {
					s.cut = true
				}
			})
		}
	}
	if !ruled {
		add(first)
	}
	slices.SortStableFunc(all, func(a, b instance) int { return a.start.wall.Compare(b.start.wall) })
	return slices.CompactFunc(all, func(a, b instance) bool { return a.start.wall.Equal(b.start.wall) })
}

// margin is the number of starts in a span beside those within the window.
const margin = 10

// span returns the span of starts whose instances may be within the window.
func (f *file) span(s *series, first instance) recurrence.Span {
	from := f.window.From
	if s.late {
		from = f.thisMonth()
	}
	from = timing.WallOf(from.In(first.start.zone.loc))
	if !first.start.hasTime {
		from = timing.Midnight(from)
	}
	if first.end != nil {
		from = from.Add(-min(max(first.end.wall.Sub(first.start.wall), 0), 366*24*time.Hour))
	}
	return recurrence.Span{From: from, To: timing.WallOf(f.window.To.In(first.start.zone.loc))}
}

// dates reads an RDATE: dates, or periods with ends.
func (f *file) dates(s *series, l line, first instance, add func(instance)) {
	for value := range strings.SplitSeq(l.value, ",") {
		if !f.budget.Work(10) {
			return
		}
		from, to, isPeriod := strings.Cut(value, "/")
		m, ok := f.parseMoment(s.master.calendar, l, from, &s.zone)
		if !ok {
			if strings.TrimSpace(value) != "" {
				f.notes.Add(collect.NoteBrokenMarkup, "%q has a date that can't be read: %.40q", f.title(s.master), value)
			}
			continue
		}
		in := first.at(s.clock(m))
		if isPeriod {
			if !m.hasTime {
				in = first.at(m.wall)
			}
			if length, ok := parseLength(to); ok {
				end := in.start.later(length)
				in.end = &end
			} else if end, ok := f.parseMoment(s.master.calendar, l, to, &s.zone); ok {
				end = end.in(s.zone)
				in.end = &end
			}
		}
		if f.within(in, true) {
			add(in)
		}
	}
}

// maxExcepted limits the excepted starts of one event.
const maxExcepted = 50_000

// excepted has the starts that are left out.
type excepted struct {
	times map[time.Time]bool
	days  map[time.Time]bool
}

func (x excepted) has(wall time.Time) bool {
	return x.times[wall] || len(x.days) > 0 && x.days[timing.Midnight(wall)]
}

func (f *file) excepted(s *series, first instance, steps recurrence.Steps) excepted {
	var x excepted
	for _, l := range s.master.lines {
		if x.times == nil && (l.name == "EXRULE" || l.name == "EXDATE") {
			x = excepted{times: map[time.Time]bool{}, days: map[time.Time]bool{}}
		}
		if l.name == "EXRULE" {
			f.except(x, l, first, steps)
		}
		if l.name != "EXDATE" {
			continue
		}
		for value := range strings.SplitSeq(l.value, ",") {
			if !f.budget.Work(20) {
				return x
			}
			m, ok := f.parseMoment(s.master.calendar, l, value, &s.zone)
			switch {
			case !ok:
			case len(x.times)+len(x.days) >= maxExcepted:
				return x
			case m.hasTime:
				x.times[s.clock(m)] = true
			default:
				x.days[m.wall] = true
			}
		}
	}
	return x
}

// except adds the starts of an EXRULE, a property of RFC 2445.
func (f *file) except(x excepted, l line, first instance, steps recurrence.Steps) {
	rule, err := recurrence.ParseRule(l.value)
	if err != nil {
		return
	}
	rule.Until = rule.Until.In(first.start.zone.loc)
	_ = recurrence.Walk(steps, rule, first.start.wall, !first.start.hasTime, f.span(&series{}, first),
		func(wall time.Time) bool {
			x.times[wall] = true
			return len(x.times) < maxExcepted
		})
}

// status returns the status of an event or its calendar. CONFIRMED and TENTATIVE are the default.
func (f *file) status(e *event) happening.Status {
	if e.calendar.cancels || strings.EqualFold(e.value("STATUS"), "CANCELLED") || strings.EqualFold(e.value("STATUS"),
		"CANCELED") {
		return happening.Cancelled
	}
	return ""
}

func (f *file) title(e *event) string {
	l, _ := e.first("SUMMARY")
	return markup.Shorten(markup.Plain(l.text()), 80)
}

const (
	// maxSteps limits the cost of all rules of a file, minSteps is the first share of each: a daily one in the window.
	maxSteps = 8_000_000
	minSteps = 600
)

// expandAll expands all series. Those with rules share steps and room; series that need more steps are repeated with
// the rest.
func (f *file) expandAll(all []*series) {
	ruled := make([]*series, 0, len(all))
	room, shown := maxHoldings, 0
	for _, s := range all {
		if _, ok := s.master.first("RRULE"); ok {
			ruled = append(ruled, s)
			continue
		}
		if shown == maxEvents {
			s.cut = true // it would not be shown
			continue
		}
		f.expand(s, &recurrence.Allowance{Of: f.budget}, min(room, maxInstances))
		if room -= len(s.holdings); len(s.holdings) > 0 {
			shown++
		}
	}
	if len(ruled) > maxEvents {
		for _, s := range ruled[maxEvents:] {
			s.cut = true
		}
		ruled = ruled[:maxEvents]
	}
	left := maxSteps
	for range 2 {
		var again []*series
		for i, s := range ruled {
			share := max(left/(len(ruled)-i), minSteps)
			allowance := &recurrence.Allowance{Of: f.budget, Left: share}
			room += len(s.holdings)
			f.expand(s, allowance, min(max(room, 0)/(len(ruled)-i), maxInstances))
			room -= len(s.holdings)
			left -= share - max(allowance.Left, 0)
			if s.unfinished && f.budget.Err() == nil {
				again = append(again, s)
			}
		}
		ruled = again
	}
}
