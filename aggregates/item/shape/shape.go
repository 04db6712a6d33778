// Package shape renders items as JSON of the interface: in the current shape, and as the data of published events.
//
// The current shape is rendered once and stored, and lists add the parts that depend on the query. Therefore it is an
// object without its closing brace. Package query derives the legacy shape from it on request.
package shape

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/eventstore/instant"
)

// maxPublished limits the occurrences in published data: those of an endless series would not fit into a webhook.
const maxPublished = 500

// Item has the data of all shapes.
type Item struct {
	ID      uuid.UUID // of the item
	EventID uuid.UUID // of the happening
	AddedAt time.Time
	Details happening.Details
}

// always has the members of every shape.
type always struct {
	ID               uuid.UUID               `json:"id"`
	EventID          uuid.UUID               `json:"eventId"`
	Title            string                  `json:"title"`
	Description      string                  `json:"description"`
	AddedToFeedAt    instant.Stamp           `json:"addedToFeedAt"`
	SupportingImages []string                `json:"supportingImages"`
	URLs             []string                `json:"urls"`
	GeoLocations     []happening.GeoLocation `json:"geoLocations"`
}

// current omits unknown members.
type current struct {
	always
	ShortDescription string               `json:"shortDescription,omitempty"`
	Time             *happening.Time      `json:"time,omitempty"`
	Location         *happening.Location  `json:"location,omitempty"`
	Capacity         *happening.Capacity  `json:"capacity,omitempty"`
	Organizer        *happening.Organizer `json:"organizer,omitempty"`
	PrimaryImage     string               `json:"primaryImage,omitempty"`
	PrimaryURL       string               `json:"primaryUrl,omitempty"`
}

// published adds the occurrences, because there is no query to select among them.
type published struct {
	current
	Occurrences []occurrence `json:"occurrences"`
}

type occurrence struct {
	ID            uuid.UUID        `json:"id"`
	InstanceID    uuid.UUID        `json:"instanceId"`
	StartDateTime instant.Stamp    `json:"startDateTime"`
	EndDateTime   *instant.Stamp   `json:"endDateTime"`
	Status        happening.Status `json:"status"`
}

// Current returns the item in the current shape, without its closing brace.
func Current(i Item) ([]byte, error) { return open(currentOf(i)) }

// Published returns the data of an event about the item: the current shape with its occurrences instead of a range of
// them.
func Published(i Item) ([]byte, error) {
	p := published{current: currentOf(i), Occurrences: []occurrence{}}
	for _, instance := range i.Details.Instances {
		for _, o := range instance.Occurrences {
			if len(p.Occurrences) == maxPublished {
				return marshal(p)
			}
			p.Occurrences = append(p.Occurrences, occurrence{
				ID:            o.ID,
				InstanceID:    instance.ID,
				StartDateTime: instant.Stamp(o.Start),
				EndDateTime:   instant.Stamped(o.End),
				Status:        cmp.Or(o.Status, happening.Scheduled),
			})
		}
	}
	return marshal(p)
}

// changed is a changed occurrence.
type changed struct {
	ID                    uuid.UUID        `json:"id"`
	EventID               uuid.UUID        `json:"eventId"`
	Title                 string           `json:"title,omitempty"`
	Occurrence            occurrence       `json:"occurrence"`
	PreviousStatus        happening.Status `json:"previousStatus,omitempty"`
	PreviousStartDateTime *instant.Stamp   `json:"previousStartDateTime,omitempty"`
}

// Changed returns the data of an event about an occurrence of an item: its current form, with the earlier status or
// start.
func Changed(item, event uuid.UUID, c happening.OccurrenceChanged) ([]byte, error) {
	return marshal(changed{
		ID:      item,
		EventID: event,
		Title:   c.Title,
		Occurrence: occurrence{
			ID:            c.OccurrenceID,
			InstanceID:    c.InstanceID,
			StartDateTime: instant.Stamp(c.Start),
			EndDateTime:   instant.Stamped(c.End),
			Status:        cmp.Or(c.Status, happening.Scheduled),
		},
		PreviousStatus:        c.PreviousStatus,
		PreviousStartDateTime: instant.Stamped(c.PreviousStart),
	})
}

func currentOf(i Item) current {
	d := i.Details
	c := current{
		always: always{
			ID:               i.ID,
			EventID:          i.EventID,
			Title:            d.Title,
			Description:      d.Description,
			AddedToFeedAt:    instant.Stamp(i.AddedAt),
			SupportingImages: orEmpty(d.SupportingImages),
			URLs:             orEmpty(d.URLs),
			GeoLocations:     orEmpty(d.GeoLocations),
		},
		ShortDescription: unlessBlank(d.ShortDescription),
		Location:         Located(d.Location),
		Capacity:         d.Capacity,
		Organizer:        d.Organizer,
		PrimaryImage:     unlessBlank(d.PrimaryImage),
		PrimaryURL:       unlessBlank(d.PrimaryURL),
	}
	if d.Time != (happening.Time{}) {
		c.Time = &d.Time
	}
	return c
}

func unlessBlank(s string) string {
	if strings.TrimSpace(s) == "" {
		return ""
	}
	return s
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// open marshals an object without its closing brace.
func open(v any) ([]byte, error) {
	data, err := marshal(v)
	return bytes.TrimSuffix(data, []byte("}")), err
}

// marshal does not escape "<" and "&": the results are for API clients, not parts of a page.
func marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	encoder := json.NewEncoder(&buf)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("render item: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// Source renders the source block. It removes the query of the stored address, which may have a token.
func Source(block happening.Block) ([]byte, error) {
	block.URL, _, _ = strings.Cut(block.URL, "?")
	return marshal(block)
}

// Located returns a location for display, which always has an address to read; nil for an unknown one.
func Located(l *happening.Location) *happening.Location {
	if l == nil || strings.TrimSpace(l.DisplayAddress) != "" {
		return l
	}
	shown := *l
	switch {
	case l.Venue != nil && strings.TrimSpace(l.Venue.Name+l.Venue.Address) != "":
		shown.DisplayAddress = strings.Trim(l.Venue.Name+", "+l.Venue.Address, ", ")
	case l.Coordinates != nil:
		shown.DisplayAddress = fmt.Sprintf("%.6f, %.6f", l.Coordinates.Lat, l.Coordinates.Lng)
	case l.Online != nil:
		shown.DisplayAddress = "Online"
	default:
		return nil
	}
	return &shown
}
