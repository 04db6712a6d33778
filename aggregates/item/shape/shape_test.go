package shape_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item/shape"
	"carillon/command/catalog"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	id    = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	event = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	noon  = time.Date(2026, 11, 21, 13, 0, 0, 0, time.FixedZone("CET", 3600))
)

func bare() shape.Item {
	return shape.Item{
		ID:      id,
		EventID: event,
		AddedAt: noon,
		Details: happening.Details{
			Title: "A & B <live>", ShortDescription: "\t", PrimaryImage: " ",
		},
	}
}

func rendered(t *testing.T, render func(shape.Item) ([]byte, error), i shape.Item) string {
	t.Helper()
	data := must.Get(render(i))(t)
	return string(data)
}

const always = `"id":"11111111-1111-4111-8111-111111111111","eventId":"22222222-2222-4222-8222-222222222222",` +
	`"title":"A & B <live>","description":"","addedToFeedAt":"2026-11-21T12:00:00.000000Z","supportingImages":[],` +
	`"urls":[],"geoLocations":[]`

func TestCurrent_unknownFields(t *testing.T) {
	t.Parallel()
	assert.Same(t, rendered(t, shape.Current, bare()), `{`+always)
}

func TestSource(t *testing.T) {
	t.Parallel()
	data, err := shape.Source(happening.Block{Type: "site", URL: "https://example.org/a&b"})
	want := `{"type":"site","url":"https://example.org/a&b"}`
	assert.True(t, err == nil && string(data) == want, "source = %s, %v; want %s", data, err, want)
}

func TestPublishedMatchesCatalog(t *testing.T) {
	t.Parallel()
	types := must.Get(catalog.New())(t)
	end := noon.Add(time.Hour)
	i := bare()
	i.Details.Time = happening.Time{TemporalPattern: happening.Recurring, Timezone: "Europe/Rome"}
	i.Details.Location = &happening.Location{Online: &happening.Online{Platform: "zoom", URL: "https://zoom.example/1"}}
	i.Details.Instances = []happening.Instance{{ID: event, Occurrences: []happening.Occurrence{
		{
			ID:     id,
			Start:  noon,
			End:    &end,
			Status: happening.Scheduled,
		}, {ID: event, Start: noon, Status: happening.Cancelled},
	}}}
	data := rendered(t, shape.Published, i)
	assert.Equal(t, len(must.Get(types.Check("event.item.added", []byte(data)))(t)), 0, "problems … in %s", data)
	var got struct {
		Occurrences []map[string]any
	}
	must.OK(t, json.Unmarshal([]byte(data), &got))
	want := []map[string]any{
		{"id": id.String(), "instanceId": event.String(), "startDateTime": "2026-11-21T12:00:00.000000Z",
			"endDateTime": "2026-11-21T13:00:00.000000Z", "status": "scheduled"},
		{"id": event.String(), "instanceId": event.String(), "startDateTime": "2026-11-21T12:00:00.000000Z",
			"endDateTime": nil, "status": "cancelled"},
	}
	assert.Same(t, got.Occurrences, want)
}

func TestPublishedIsBounded(t *testing.T) {
	t.Parallel()
	i := bare()
	for range 100 {
		i.Details.Instances = append(i.Details.Instances, happening.Instance{Occurrences: make([]happening.Occurrence, 9)})
	}
	assert.Equal(t, strings.Count(rendered(t, shape.Published, i), `"instanceId"`), 500, "occurrences are published")
}

func TestChangedOccurrence(t *testing.T) {
	t.Parallel()
	types := must.Get(catalog.New())(t)
	end := noon.Add(time.Hour)
	for want, c := range map[string]happening.OccurrenceChanged{
		`{"id":"11111111-1111-4111-8111-111111111111","eventId":"22222222-2222-4222-8222-222222222222","title":"Concert",` +
			`"occurrence":` +
			`{"id":"11111111-1111-4111-8111-111111111111","instanceId":"22222222-2222-4222-8222-222222222222",` +
			`"startDateTime":"2026-11-21T12:00:00.000000Z","endDateTime":"2026-11-21T13:00:00.000000Z","status":"cancelled"},` +
			`"previousStatus":"scheduled"}`: {
			Title:          "Concert",
			OccurrenceID:   id,
			InstanceID:     event,
			Start:          noon,
			End:            &end,
			Status:         happening.Cancelled,
			PreviousStatus: happening.Scheduled,
		},
		`{"id":"11111111-1111-4111-8111-111111111111","eventId":"22222222-2222-4222-8222-222222222222","occurrence":` +
			`{"id":"11111111-1111-4111-8111-111111111111","instanceId":"22222222-2222-4222-8222-222222222222",` +
			`"startDateTime":"2026-11-21T12:00:00.000000Z","endDateTime":null,"status":"scheduled"},` +
			`"previousStartDateTime":"2026-11-21T13:00:00.000000Z"}`: {
			OccurrenceID:  id,
			InstanceID:    event,
			Start:         noon,
			PreviousStart: &end,
		},
	} {
		data := must.Get(shape.Changed(id, event, c))(t)
		assert.Same(t, string(data), want)
		must.Get(types.Check("event.occurrence.changed", data))(t)
	}
}

// A location always has an address to read, whatever is known of it.
func TestLocationHasDisplayAddress(t *testing.T) {
	t.Parallel()
	for want, location := range map[string]*happening.Location{
		"":                     nil,
		"-":                    {},
		"Main St 1":            {DisplayAddress: "Main St 1", Venue: &happening.Venue{Name: "Hall"}},
		"Hall":                 {Venue: &happening.Venue{Name: "Hall"}},
		"Hall, Main St 2":      {Venue: &happening.Venue{Name: "Hall", Address: "Main St 2"}},
		"45.500000, -9.250000": {Coordinates: &happening.Coordinates{Lat: 45.5, Lng: -9.25}},
		"Online":               {Online: &happening.Online{URL: "https://example.org"}, DisplayAddress: " "},
	} {
		data := must.Get(shape.Current(shape.Item{Details: happening.Details{Location: location}}))(t)
		var shown struct {
			Location *struct{ DisplayAddress string }
		}
		must.OK(t, json.Unmarshal(append(data, '}'), &shown))
		if none := want == "" || want == "-"; none != (shown.Location == nil) ||
			!none && shown.Location.DisplayAddress != want {
			t.Errorf("want %q: %s", want, data)
		}
	}
}

// A source that was stored with its query is rendered without it, because it may have a token.
func TestSourceIsShownWithoutItsQuery(t *testing.T) {
	t.Parallel()
	data, err := shape.Source(happening.Block{Type: "site", URL: "https://example.org/events?token=s3cret"})
	assert.True(t, err == nil && string(data) == `{"type":"site","url":"https://example.org/events"}`, "%s, %v", data, err)
}
