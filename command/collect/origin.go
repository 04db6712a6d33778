package collect

import "carillon/aggregates/happening"

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
