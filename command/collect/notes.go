package collect

import (
	"fmt"
	"slices"
)

// Note is a remark on a collection that an operator can act upon.
type Note struct {
	Code NoteCode `json:"code"`
	// Text is one sentence for people. It never holds credentials.
	Text string `json:"text"`
}

// Notes are the notes on one page. They end where nobody would read on.
type Notes []Note

// maxNotes is as many as anyone would read.
const maxNotes = 20

// Add appends a note, of which a page has 20 at most.
func (n *Notes) Add(code NoteCode, format string, args ...any) {
	if len(*n) < maxNotes {
		*n = append(*n, Note{Code: code, Text: fmt.Sprintf(format, args...)})
	}
}

// Has says that one of the notes has a code.
func (n Notes) Has(code NoteCode) bool {
	return slices.ContainsFunc(n, func(note Note) bool { return note.Code == code })
}

// Partial says that more may be on show than was read.
func (n Notes) Partial() bool {
	for _, note := range n {
		switch note.Code {
		case NoteTruncated, NoteBrokenMarkup, NoteNeedsJavaScript, NotePageFailed:
			return true
		case NoteNoEvents, NoteSkippedEvent, NoteAssumedTimezone, NoteLeftOut, NoteSeveralDates:
		}
	}
	return false
}

// NoteCode is the stable name of a kind of note.
type NoteCode string

// Operators see these codes with a sentence each.
const (
	// NoteNoEvents: the page holds no events in a form that is read.
	NoteNoEvents NoteCode = "no-events"
	// NoteNeedsJavaScript: the page is empty until scripts have run.
	NoteNeedsJavaScript NoteCode = "needs-javascript"
	// NoteSkippedEvent: an event was left out, for want of a title or a date.
	NoteSkippedEvent NoteCode = "skipped-event"
	// NoteBrokenMarkup: a block of structured data could not be read.
	NoteBrokenMarkup NoteCode = "broken-markup"
	// NoteAssumedTimezone: a time without a zone was read as UTC, since neither the event nor the source names one.
	NoteAssumedTimezone NoteCode = "assumed-timezone"
	// NoteSeveralDates: events of one identifier begin at different times, and nothing says that they are versions.
	NoteSeveralDates NoteCode = "several-dates"
	// NotePageFailed: a page or calendar that belongs to the source could not be had, so that what it shows is not
	// known.
	NotePageFailed NoteCode = "page-failed"
	// NoteLeftOut: addresses that a page names were left out, for they belong to no page of the site.
	NoteLeftOut NoteCode = "left-out"
	// NoteTruncated: a limit was reached and the rest left out.
	NoteTruncated NoteCode = "truncated"
)
