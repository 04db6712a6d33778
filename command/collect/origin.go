package collect

import "carillon/aggregates/happening"

// Syntax is one of the ways in which pages write down events.
type Syntax string

// The syntaxes, in the order in which they count where several tell of one event and none tells more than the other.
const (
	JSONLD       Syntax = "json-ld"
	Microdata    Syntax = "microdata"
	RDFa         Syntax = "rdfa"
	Microformats Syntax = "microformats"
	HCalendar    Syntax = "hcalendar"
	ICalendar    Syntax = "icalendar"
	// PlatformEvent is an event that a platform holds as such, PostText what someone wrote there.
	PlatformEvent Syntax = "platform-event"
	PostText      Syntax = "post"
	// PageHead is what a page says about itself as a whole.
	PageHead Syntax = "page"
)

// Field is a field of an observation that has an origin.
type Field = happening.Field

// An observation says of each of these where its value was found.
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

// Fields lists all fields, in the order in which they are shown.
var Fields = happening.Fields

// Stored is what is kept of origins when an observation is recorded: which page gave which fields, and by which paths.
func Stored(origins []Origin) []happening.Origin {
	var all []happening.Origin
	for _, o := range origins {
		all = happening.AddOrigins(all, happening.Origin{
			Page: o.Page, Syntax: string(o.Syntax), Paths: map[Field]string{o.Field: o.Path},
		})
	}
	return all
}

// Origin says what gave a field of an observation. When, and at which source, is known to those who record it.
type Origin struct {
	Field  Field  `json:"field"`
	Page   string `json:"page,omitempty"`
	Syntax Syntax `json:"syntax"`
	// Path leads to the value within its syntax, as in "Event.location.name" or "VEVENT.DTSTART".
	Path string `json:"path,omitempty"`
	// Element is where that stands in the page, as in "script[2]" or "div#programme > article.event > time".
	Element string `json:"element,omitempty"`
	// Text is the beginning of what is written there.
	Text string `json:"text,omitempty"`
}
