package query_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item/shape"
	"carillon/eventstore/instant"
	"carillon/query"
)

// legacy is the legacy shape as a struct.
type legacy struct {
	ID               uuid.UUID               `json:"id"`
	EventID          uuid.UUID               `json:"eventId"`
	Title            string                  `json:"title"`
	Description      string                  `json:"description"`
	AddedToFeedAt    instant.Stamp           `json:"addedToFeedAt"`
	SupportingImages []string                `json:"supportingImages"`
	URLs             []string                `json:"urls"`
	GeoLocations     []happening.GeoLocation `json:"geoLocations"`
	SourceType       string                  `json:"sourceType"`
	PublishedAt      *instant.Stamp          `json:"publishedAt"`
	ShortDescription *string                 `json:"shortDescription"`
	Time             *happening.Time         `json:"time"`
	Location         *happening.Location     `json:"location"`
	Capacity         *happening.Capacity     `json:"capacity"`
	Organizer        *happening.Organizer    `json:"organizer"`
	PrimaryImage     *string                 `json:"primaryImage"`
	PrimaryURL       *string                 `json:"primaryUrl"`
}

// legacyOf decodes the current shape into the legacy shape.
func legacyOf(t interface{ Fatal(...any) }, i shape.Item, from happening.Block) string {
	current, err := shape.Current(i)
	if err != nil {
		t.Fatal(err)
	}
	block, err := shape.Source(from)
	if err != nil {
		t.Fatal(err)
	}
	return string(query.AppendLegacy(nil, current, block)) + "}\n"
}

func known[T any](v T, is bool) *T {
	if !is {
		return nil
	}
	return &v
}

// TestLegacy_matchesStruct compares the legacy shape of any item with that of the struct, byte by byte.
func TestLegacy_matchesStruct(t *testing.T) {
	t.Parallel()
	id, event, noon := uuid.New(), uuid.New(), time.Date(2026, 11, 21, 13, 0, 0, 0, time.FixedZone("CET", 3600))
	text := rapid.OneOf(rapid.String(), rapid.StringMatching(`["\\\\{}\[\],:<&\x{2028} ]{0,12}`), rapid.Just(""),
		rapid.Just(`\`), rapid.Just(`a"`))
	texts := func(t *rapid.T) []string {
		return append([]string{}, rapid.SliceOfN(text, 0, 3).Draw(t, "texts")...)
	}
	rapid.Check(t, func(r *rapid.T) {
		d := happening.Details{
			Title:            text.Draw(r, "title"),
			Description:      text.Draw(r, "description"),
			ShortDescription: text.Draw(r, "short"),
			PrimaryImage:     text.Draw(r, "image"),
			PrimaryURL:       text.Draw(r, "url"),
			SupportingImages: texts(r),
			URLs:             texts(r),
			GeoLocations:     []happening.GeoLocation{},
		}
		if rapid.Bool().Draw(r, "geo") {
			d.GeoLocations = append(d.GeoLocations, happening.GeoLocation{ID: id, Description: text.Draw(r, "place"), Score: 7})
		}
		if rapid.Bool().Draw(r, "time") {
			d.Time = happening.Time{TemporalPattern: happening.Singular, DisplayText: text.Draw(r, "time")}
		}
		if rapid.Bool().Draw(r, "location") {
			d.Location = &happening.Location{
				DisplayAddress: "Main St",
				Venue:          &happening.Venue{Name: text.Draw(r, "venue")},
				Coordinates:    &happening.Coordinates{Lat: -1.5},
			}
		}
		if rapid.Bool().Draw(r, "capacity") {
			d.Capacity = &happening.Capacity{Total: known(3, true)}
		}
		if rapid.Bool().Draw(r, "organizer") {
			d.Organizer = &happening.Organizer{Name: text.Draw(r, "organizer")}
		}
		from := happening.Block{Type: text.Draw(r, "type"), URL: text.Draw(r, "source")}
		blank := func(s string) bool { return strings.TrimSpace(s) == "" }
		var want bytes.Buffer
		encoder := json.NewEncoder(&want)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(legacy{
			ID:               id,
			EventID:          event,
			Title:            d.Title,
			Description:      d.Description,
			AddedToFeedAt:    instant.Stamp(noon.UTC()),
			SupportingImages: d.SupportingImages,
			URLs:             d.URLs,
			GeoLocations:     d.GeoLocations,
			SourceType:       from.Type,
			ShortDescription: known(d.ShortDescription, !blank(d.ShortDescription)),
			Time:             known(d.Time, d.Time != happening.Time{}),
			Location:         d.Location,
			Capacity:         d.Capacity,
			Organizer:        d.Organizer,
			PrimaryImage:     known(d.PrimaryImage, !blank(d.PrimaryImage)),
			PrimaryURL:       known(d.PrimaryURL, !blank(d.PrimaryURL)),
		}); err != nil {
			r.Fatal(err)
		}
		got := legacyOf(r, shape.Item{
			ID:      id,
			EventID: event,
			AddedAt: noon,
			Details: d,
		}, from)
		if diff := cmp.Diff(want.String(), got); diff != "" {
			r.Fatalf("legacy (-struct +appended):\n%s", diff)
		}
	})
}
