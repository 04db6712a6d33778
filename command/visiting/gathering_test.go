package visiting_test

import (
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/visiting"
)

// Sightings of one happening are combined, whichever evidence its pages use.
func TestGathering(t *testing.T) {
	t.Parallel()
	see := func(title, description string, standing happening.Standing, key string, keys ...string) collect.Observation {
		id := happening.DeriveInstanceID(key, "2026-12-05T20:00:00")
		return collect.Observation{
			Key:      key,
			Keys:     keys,
			Standing: standing,
			Details: happening.Details{
				Title: title, Description: description,
				Instances: []happening.Instance{{ID: id, Occurrences: []happening.Occurrence{{
					ID: happening.DeriveOccurrenceID(id, 0), Start: time.Date(2026, 12, 5, 20, 0, 0, 0, time.UTC),
				}}}},
			},
		}
	}
	var g visiting.Gathering
	add := func(page string, observations []collect.Observation) {
		t.Helper()
		if err := g.Add(page, observations, time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)); err != nil {
			t.Fatal(err)
		}
	}
	if all := g.Together(); len(all) != 0 {
		t.Fatalf("got %+v", all)
	}
	add("/list", []collect.Observation{see("Jazz", "", happening.FromListing, "url:a/jazz"),
		see("Quiz", "", happening.FromListing, "url:a/quiz")})
	add("/e/jazz", []collect.Observation{see("Jazz night", "All of it.", happening.FromOwnPage, "url:a/jazz",
		"url:a/jazz", "id:1")})
	add("/e/1", []collect.Observation{see("Jazz again", "", happening.FromListing, "id:1", "id:1")})
	all := g.Together()
	if len(all) != 2 || all[0].Details.Title != "Jazz night" || all[0].Details.Description != "All of it." ||
		all[0].Key != "url:a/jazz" || all[0].Standing != happening.FromOwnPage {
		t.Fatalf("got %+v", all)
	}
	if n := len(all[0].Details.Instances); n != 1 || all[1].Details.Title != "Quiz" {
		t.Errorf("%d instances, then %s", n, all[1].Details.Title)
	}
}
