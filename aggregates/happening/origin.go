package happening

// Field is a field of a happening that has an origin. The values are stored.
type Field string

// Of each of these it is known where its value was found.
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

// Origin says which fields a page gave in one syntax, and the path that leads to each within it, as in
// "Event.location.name" or "VEVENT.DTSTART". It is stored inside events, so its JSON names are fixed.
type Origin struct {
	Page   string           `json:"page,omitempty"`
	Syntax string           `json:"syntax"`
	Paths  map[Field]string `json:"paths"`
}

// only gives the origins of one field.
func only(origins []Origin, field Field) []Origin {
	var of []Origin
	for _, o := range origins {
		if path, ok := o.Paths[field]; ok {
			of = append(of, Origin{Page: o.Page, Syntax: o.Syntax, Paths: map[Field]string{field: path}})
		}
	}
	return of
}

// AddOrigins groups origins by page and syntax, in the order in which they come. Of several paths to one field the first
// stays.
func AddOrigins(all []Origin, more ...Origin) []Origin {
next:
	for _, o := range more {
		for i := range all {
			if all[i].Page == o.Page && all[i].Syntax == o.Syntax {
				for field, path := range o.Paths {
					if _, known := all[i].Paths[field]; !known {
						all[i].Paths[field] = path
					}
				}
				continue next
			}
		}
		paths := make(map[Field]string, len(o.Paths))
		for field, path := range o.Paths {
			paths[field] = path
		}
		all = append(all, Origin{Page: o.Page, Syntax: o.Syntax, Paths: paths})
	}
	return all
}
