package collect

import (
	"fmt"
	"slices"
)

// Note is a remark on a collection that an operator can act upon.
type Note struct {
	Code NoteCode `json:"code"`
	// Text is one sentence for people. It never contains credentials.
	Text string `json:"text"`
}

// Notes are the notes on one page, at most maxNotes.
type Notes []Note

// maxNotes limits the notes on a page.
const maxNotes = 20

// Add appends a note, unless the page has maxNotes.
func (n *Notes) Add(code NoteCode, format string, args ...any) {
	if len(*n) < maxNotes {
		*n = append(*n, Note{Code: code, Text: fmt.Sprintf(format, args...)})
	}
}

// guessed is the text of a NoteGuessed.
const guessed = "%d events are a guess from a list without markup, which --event %q --title %q name"

// Guessed notes events of a list without any markup, with selectors that name it.
func (n *Notes) Guessed(events int, event, title string) {
	n.Add(NoteGuessed, guessed, events, event, title)
}

// Guess returns the selectors that the first NoteGuessed names, "" if there is none.
func (n Notes) Guess() (event, title string) {
	for _, note := range n {
		var events int
		if _, err := fmt.Sscanf(note.Text, guessed, &events, &event, &title); err == nil {
			return event, title
		}
	}
	return "", ""
}

// Has reports whether one of the notes has a code.
func (n Notes) Has(code NoteCode) bool {
	return slices.ContainsFunc(n, func(note Note) bool { return note.Code == code })
}

// Partial reports whether the page may show more than was read.
func (n Notes) Partial() bool {
	for _, note := range n {
		switch note.Code {
		case NoteTruncated, NoteBrokenMarkup, NoteNeedsJavaScript, NotePageFailed:
			return true
		case NoteNoEvents, NoteSkippedEvent, NoteAssumedTimezone, NoteLeftOut, NoteSeveralDates, NoteGuessed:
		}
	}
	return false
}

// NoteCode is the stable name of a kind of note.
type NoteCode string

// Codes of notes. Operators see them with a sentence each.
const (
	// NoteNoEvents reports a page without events in a known form.
	NoteNoEvents NoteCode = "no-events"
	// NoteNeedsJavaScript reports a page that is empty until scripts have run.
	NoteNeedsJavaScript NoteCode = "needs-javascript"
	// NoteSkippedEvent reports an event that was left out for lack of a title or a date.
	NoteSkippedEvent NoteCode = "skipped-event"
	// NoteBrokenMarkup reports an unreadable block of structured data.
	NoteBrokenMarkup NoteCode = "broken-markup"
	// NoteAssumedTimezone reports a time that was read as UTC, because neither the event nor the source names a zone.
	NoteAssumedTimezone NoteCode = "assumed-timezone"
	// NoteSeveralDates reports events of one identifier with different starts that are not marked as versions.
	NoteSeveralDates NoteCode = "several-dates"
	// NoteGuessed reports events of a list without any markup, with selectors that name it.
	NoteGuessed NoteCode = "guessed-list"
	// NotePageFailed reports an unavailable page or calendar of the source, whose contents are unknown.
	NotePageFailed NoteCode = "page-failed"
	// NoteLeftOut reports addresses on a page that were left out because they belong to no page of the site.
	NoteLeftOut NoteCode = "left-out"
	// NoteTruncated reports that a limit was reached and the rest left out.
	NoteTruncated NoteCode = "truncated"
)
