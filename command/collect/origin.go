package collect

import (
	"fmt"
	"slices"

	"carillon/aggregates/happening"
)

// Syntax is a form of events on pages.
type Syntax string

// Syntaxes in their order of precedence between equally detailed events.
const (
	// Selected is an element that the selectors of a source name.
	Selected     Syntax = "selectors"
	JSONLD       Syntax = "json-ld"
	Microdata    Syntax = "microdata"
	RDFa         Syntax = "rdfa"
	Microformats Syntax = "microformats"
	HCalendar    Syntax = "hcalendar"
	ICalendar    Syntax = "icalendar"
	// AppData is an object of a page's own data, CalendarLink a link that adds an event to a calendar, TimeElement an
	// entry of a list with a time element, FeedEntry one of a feed.
	AppData      Syntax = "app-data"
	CalendarLink Syntax = "calendar-link"
	TimeElement  Syntax = "time"
	FeedEntry    Syntax = "feed"
	// PlatformEvent is an event object of a platform, PostText a text written there.
	PlatformEvent Syntax = "platform-event"
	PostText      Syntax = "post"
	// List is an entry of a list or table without any markup.
	List Syntax = "list"
	// PageHead is the metadata of the page as a whole.
	PageHead Syntax = "page"
)

// Field is a field of an observation that has an origin.
type Field = happening.Field

// Fields whose values have an origin.
const (
	FieldTitle            = happening.FieldTitle
	FieldDescription      = happening.FieldDescription
	FieldShortDescription = happening.FieldShortDescription
	FieldStart            = happening.FieldStart
	FieldEnd              = happening.FieldEnd
	FieldRecurrence       = happening.FieldRecurrence
	FieldStatus           = happening.FieldStatus
	FieldTimezone         = happening.FieldTimezone
	FieldLocation         = happening.FieldLocation
	FieldCoordinates      = happening.FieldCoordinates
	FieldOnline           = happening.FieldOnline
	FieldCapacity         = happening.FieldCapacity
	FieldOrganizer        = happening.FieldOrganizer
	FieldImage            = happening.FieldImage
	FieldURL              = happening.FieldURL
	FieldPublished        = happening.FieldPublished
	FieldIdentity         = happening.FieldIdentity
)

// Fields lists all fields in display order.
var Fields = happening.Fields

// Stored returns the origins to record with an observation: which page gave which fields, by which paths.
func Stored(origins []Origin) []happening.Origin {
	var all []happening.Origin
	for _, o := range origins {
		all = happening.AddOrigins(all, happening.Origin{
			Page: o.Page, Syntax: string(o.Syntax), Paths: map[Field]string{o.Field: o.Path},
		})
	}
	return all
}

// Origin is the origin of a field of an observation. Time and source are known to the callers that record it.
type Origin struct {
	Field  Field  `json:"field"`
	Page   string `json:"page,omitempty"`
	Syntax Syntax `json:"syntax"`
	// Path leads to the value within its syntax, such as "Event.location.name" or "VEVENT.DTSTART".
	Path string `json:"path,omitempty"`
	// Element is its position in the page, such as "script[2]" or "div#programme > article.event > time".
	Element string `json:"element,omitempty"`
	// Text is the beginning of the original text.
	Text string `json:"text,omitempty"`
}

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
