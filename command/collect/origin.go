package collect

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
	// PageHead is what a page says about itself as a whole.
	PageHead Syntax = "page"
)

// Field is a field of an observation that has an origin.
type Field string

// An observation says of each of these where its value was found.
const (
	FieldTitle            Field = "title"
	FieldDescription      Field = "description"
	FieldShortDescription Field = "shortDescription"
	FieldStart            Field = "start"
	FieldEnd              Field = "end"
	FieldRecurrence       Field = "recurrence"
	FieldStatus           Field = "status"
	FieldTimezone         Field = "timezone"
	FieldLocation         Field = "location"
	FieldCoordinates      Field = "coordinates"
	FieldOnline           Field = "online"
	FieldCapacity         Field = "capacity"
	FieldOrganizer        Field = "organizer"
	FieldImage            Field = "image"
	FieldURL              Field = "url"
	FieldPublished        Field = "publishedAt"
	FieldIdentity         Field = "identity"
)

// Fields lists all fields, in the order in which they are shown.
var Fields = []Field{
	FieldTitle, FieldDescription, FieldShortDescription, FieldStart, FieldEnd, FieldRecurrence, FieldStatus, FieldTimezone,
	FieldLocation, FieldCoordinates, FieldOnline, FieldCapacity, FieldOrganizer, FieldImage, FieldURL, FieldPublished,
	FieldIdentity,
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
