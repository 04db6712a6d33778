package structured_test

import (
	"testing"

	"carillon/aggregates/happening"
)

// A page has a higher standing for the event that it is about.
func TestStanding(t *testing.T) {
	t.Parallel()
	const (
		jazz = `{"@type":"Event","name":"Jazz night","startDate":"2026-12-05T20:00","location":"Kajhallen","url":"/e/jazz"}`
		quiz = `{"@type":"Event","name":"Quiz","startDate":"2026-12-06T20:00","location":"Kajhallen"}`
	)
	ld := func(heading, events string) string {
		return "<title>" + heading + "</title><h1>" + heading + `</h1><script type="application/ld+json">` + events +
			"</script>"
	}
	for name, tt := range map[string]struct {
		address, page string
		want          []happening.Standing
	}{
		"its only event": {"/x", `<script type="application/ld+json">` + quiz + "</script>",
			[]happening.Standing{happening.FromOwnPage}},
		"its heading": {"/x", ld("Jazz night at Kajhallen", jazz),
			[]happening.Standing{happening.FromOwnPage}},
		"its heading, beside others": {"/x", ld("Jazz night", "["+jazz+","+quiz+"]"),
			[]happening.Standing{happening.FromOwnPage, happening.FromListing}},
		"its address alone": {"/e/jazz", ld("Welcome", jazz), []happening.Standing{happening.FromOwnPage}},
		"its address, beside others": {"/e/jazz", ld("Welcome", "["+jazz+","+quiz+"]"),
			[]happening.Standing{happening.FromOwnPage, happening.FromListing}},
		"a listing": {"/x", ld("Programme", "["+jazz+","+quiz+"]"),
			[]happening.Standing{happening.FromListing, happening.FromListing}},
		"a listing with one event": {"/x", ld("Programme", jazz), []happening.Standing{happening.FromListing}},
		"several that it is about": {"/x", ld("Jazz night and Quiz", "["+jazz+","+quiz+"]"),
			[]happening.Standing{happening.FromListing, happening.FromListing}},
		"performances of one show": {"/x",
			ld("Quiz", "["+quiz+`,{"@type":"Event","name":"Quiz","startDate":"2026-12-13T20:00","location":"Kajhallen"}]`),
			[]happening.Standing{happening.FromOwnPage}},
		"an address that others have": {"/e/jazz",
			ld("Programme", "["+jazz+`,{"@type":"Event","name":"Jam","startDate":"2026-12-07T20:00","url":"/e/jazz"}]`),
			[]happening.Standing{happening.FromListing, happening.FromListing}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := read(t, "https://example.org"+tt.address, "Europe/Copenhagen", tt.page).Observations
			if len(found) != len(tt.want) {
				t.Fatalf("%d observations:\n%s", len(found), outline(found))
			}
			for i, o := range found {
				if o.Standing != tt.want[i] {
					t.Errorf("%s has standing %d, want %d", o.Details.Title, o.Standing, tt.want[i])
				}
			}
		})
	}
}
