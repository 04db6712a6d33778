// Package calendar reads happenings out of iCalendar files, RFC 5545.
//
//	text ──▶ lines ──▶ components ──▶ series: an event with its overrides ──▶ candidates ──▶ observations
//	                       └──▶ zones                └── rules, within the window
//
// Calendars are written by many programs and by hand. Unreadable parts cost as little as possible: a line, an instance
// or an event, each with a note, but never the file. Only the window is expanded, and no event can use up the budget
// of the others.
package calendar

import (
	"net/url"
	"slices"
	"strings"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
)

// MediaType is the media type of calendars.
const MediaType = "text/calendar"

// Is reports whether a text is a calendar, whatever its media type.
func Is(text string) bool {
	const begin = "BEGIN:VCALENDAR"
	text = strings.TrimLeft(text, "\ufeff \t\r\n")
	return len(text) >= len(begin) && strings.EqualFold(text[:len(begin)], begin)
}

// Page is a calendar to read.
type Page struct {
	// URL is the address of the file.
	URL *url.URL
	// Text is the file in UTF-8, after [Unfold].
	Text string
	// Timezone is the source's configured zone. Optional.
	Timezone string
	Window   timing.Window
}

const (
	// maxEvents limits the happenings of one file, maxHoldings their instances.
	maxEvents   = 10_000
	maxHoldings = 80_000
)

// Candidates returns the events of a calendar within the window, and the page that they belong to, for callers that
// combine them with those of pages. The results are invalid if the budget has ended.
func Candidates(b *budget.Budget, p Page) (page candidate.Page, found []*candidate.Candidate, notes collect.Notes) {
	page = candidate.Page{
		URL:      p.URL,
		Timezone: p.Timezone,
		Window:   p.Window,
		Many:     true,
		Limit:    maxEvents,
	}
	found = candidates(b, &notes, p)
	return page, found, notes
}

func candidates(b *budget.Budget, notes *collect.Notes, p Page) []*candidate.Candidate {
	f := &file{
		budget: b,
		notes:  notes,
		page:   identity.Clean(p.URL),
		home:   p.Timezone,
		window: p.Window,
	}
	f.parse(p.Text)
	all := f.series()
	f.expandAll(all)
	var found []*candidate.Candidate
	left, busy := f.dropped, 0
	for _, s := range all {
		switch {
		case b.Err() != nil:
			return nil
		case len(s.holdings) == 0 && !s.cut:
			f.explain(s)
			continue
		case len(found) == maxEvents || len(s.holdings) == 0:
			left++
			continue
		case s.master.isBusy():
			busy++
			continue
		}
		f.explain(s)
		found = append(found, f.candidate(p.URL, s))
		s.holdings = nil
	}
	if busy > 0 {
		notes.Add(collect.NoteSkippedEvent, "%d entries were left out that only say busy or free", busy)
	}
	if left > 0 {
		notes.Add(collect.NoteTruncated, "the calendar shows %d events more than the %d that are read", left, len(found))
	}
	return found
}

// busyWords are the titles of entries that show no more than that a person has no time, or has.
var busyWords = strings.Split("busy|free|tentative|away|out of office|working elsewhere|private|unavailable|available|"+
	"blocked|private appointment|no title|beschäftigt|gebucht|frei|mit vorbehalt|abwesend|privat|privater termin|belegt|"+
	"occupé|occupée|libre|provisoire|absent|privé|ocupado|ocupada|provisional|fuera de la oficina|"+
	"occupato|libero|"+ //nolint:misspell // Italian
	"bezet|vrij|bezig|livre|optaget|ledig|opptatt|upptagen|varattu|vapaa|zajęty|wolny|zajęte|obsazeno|volno|foglalt|"+
	"занят|занято|свободен|meşgul|予定あり|忙碌|忙|空闲|바쁨|다른 용무 있음", "|")

// maxBusy is the length of the longest of these, in bytes.
const maxBusy = 32

// isBusy reports whether an event only says that a person has time or not: nothing describes it.
func (e *event) isBusy() bool {
	title := e.value("SUMMARY")
	return len(title) <= maxBusy && slices.Contains(busyWords, strings.ToLower(title)) && e.value("DESCRIPTION") == "" &&
		e.value("LOCATION") == "" && e.value("URL") == ""
}

// explain notes the parts of an event that were left out.
func (f *file) explain(s *series) {
	_, hasStart := s.master.first("DTSTART")
	start := s.master.value("DTSTART")
	switch {
	case s.unfinished:
		f.notes.Add(collect.NoteTruncated, "%q repeats by a rule that takes too much work, not all of it was followed",
			f.title(s.master))
	case s.cut:
		f.notes.Add(collect.NoteTruncated, "%q has more than %d instances, the rest was left out", f.title(s.master), s.limit)
	case len(s.holdings) == 0 && s.start.wall.IsZero() && hasStart:
		f.notes.Add(collect.NoteSkippedEvent, "%q was left out, for its date can't be read: %.40q", f.title(s.master), start)
	case len(s.holdings) == 0 && s.start.wall.IsZero():
		f.notes.Add(collect.NoteSkippedEvent, "%q was left out, for it has no date", f.title(s.master))
	}
}
