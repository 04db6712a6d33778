package happening

import (
	"strings"
	"time"
)

// Field is a field of a happening that has an origin. The values are stored.
type Field string

// Fields whose values have an origin.
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

// Fields lists all fields in display order.
var Fields = []Field{
	FieldTitle, FieldDescription, FieldShortDescription, FieldStart, FieldEnd, FieldRecurrence, FieldStatus, FieldTimezone,
	FieldLocation, FieldCoordinates, FieldOnline, FieldCapacity, FieldOrganizer, FieldImage, FieldURL, FieldPublished,
	FieldIdentity,
}

// Origin maps the fields that a page gave in one syntax to their paths within it, such as "Event.location.name" or
// "VEVENT.DTSTART". It is stored inside events, so its JSON names are fixed.
type Origin struct {
	Page   string           `json:"page,omitempty"`
	Syntax string           `json:"syntax"`
	Paths  map[Field]string `json:"paths"`
}

// only returns the origins of one field.
func only(origins []Origin, field Field) []Origin {
	var of []Origin
	for _, o := range origins {
		if path, ok := o.Paths[field]; ok {
			of = append(of, Origin{Page: o.Page, Syntax: o.Syntax, Paths: map[Field]string{field: path}})
		}
	}
	return of
}

// AddOrigins groups origins by page and syntax, in the order of their first appearance. The first path to a field
// counts.
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

// Value returns the value of a field; nil if it has none. For dates and statuses it is a list with an element for each
// occurrence.
func (d *Details) Value(field Field) any {
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	switch field {
	case FieldTitle:
		return text(d.Title)
	case FieldDescription:
		return text(d.Description)
	case FieldShortDescription:
		return text(d.ShortDescription)
	case FieldStart, FieldEnd, FieldStatus:
		return d.dates(field)
	case FieldRecurrence:
		return text(string(d.Time.TemporalPattern))
	case FieldTimezone:
		return text(d.Time.Timezone)
	case FieldLocation:
		if d.Location == nil {
			return nil
		}
		return Location{Venue: d.Location.Venue, DisplayAddress: d.Location.DisplayAddress}
	case FieldCoordinates:
		if d.Location == nil || d.Location.Coordinates == nil {
			return nil
		}
		return *d.Location.Coordinates
	case FieldOnline:
		if d.Location == nil || d.Location.Online == nil {
			return nil
		}
		return *d.Location.Online
	case FieldCapacity:
		if d.Capacity == nil {
			return nil
		}
		return *d.Capacity
	case FieldOrganizer:
		if d.Organizer == nil {
			return nil
		}
		return *d.Organizer
	case FieldImage:
		if d.PrimaryImage == "" {
			return nil
		}
		return append([]string{d.PrimaryImage}, d.SupportingImages...)
	case FieldURL:
		if len(d.URLs) == 0 {
			return text(d.PrimaryURL)
		}
		return d.URLs
	case FieldPublished, FieldIdentity: // not part of the details
	}
	return nil
}

func (d *Details) dates(field Field) any {
	var all []string
	for _, instance := range d.Instances {
		for _, o := range instance.Occurrences {
			form := time.RFC3339
			if o.AllDay {
				form = time.DateOnly
			}
			switch {
			case field == FieldStart:
				all = append(all, d.local(o.Start).Format(form))
			case field == FieldStatus:
				all = append(all, string(o.Status))
			case o.End == nil:
				all = append(all, "")
			default:
				all = append(all, d.local(*o.End).Format(form))
			}
		}
	}
	if strings.Join(all, "") == "" {
		return nil
	}
	return all
}

// local returns a time in the happening's zone.
func (d *Details) local(t time.Time) time.Time {
	if zone, err := time.LoadLocation(d.Time.Timezone); err == nil {
		return t.In(zone)
	}
	return t.UTC()
}
