package collect_test

import (
	"testing"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/eventstore/storetest/assert"
)

func TestStored(t *testing.T) {
	t.Parallel()
	got := collect.Stored([]collect.Origin{
		{
			Field:  collect.FieldTitle,
			Page:   "https://example.org/1",
			Syntax: collect.JSONLD,
			Path:   "Event.name",
			Text:   "Concert",
		},
		{
			Field:  collect.FieldImage,
			Page:   "https://example.org/1",
			Syntax: collect.JSONLD,
			Path:   "Event.image[0]",
		},
		{
			Field:  collect.FieldImage,
			Page:   "https://example.org/1",
			Syntax: collect.JSONLD,
			Path:   "Event.image[1]",
		},
		{
			Field:  collect.FieldEnd,
			Page:   "https://example.org/1",
			Syntax: collect.Microdata,
			Path:   "Event.endDate",
		},
	})
	want := []happening.Origin{
		{Page: "https://example.org/1", Syntax: "json-ld", Paths: map[happening.Field]string{"title": "Event.name",
			"image": "Event.image[0]"}},
		{Page: "https://example.org/1", Syntax: "microdata", Paths: map[happening.Field]string{"end": "Event.endDate"}},
	}
	assert.Same(t, got, want)
}
