package collection

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command/collect"
)

func told(key string, keys ...string) Telling {
	o := collect.Observation{Key: key, Keys: keys}
	return Telling{Identity: identityOf(o), Observation: o}
}

// identified is which happenings a page's tellings are of, by what is known and what was told.
func identified(t *testing.T, tellings []Telling, known []Shown, told map[uuid.UUID][]happening.Details) []Telling {
	t.Helper()
	var observations []collect.Observation
	for _, telling := range tellings {
		observations = append(observations, telling.Observation)
	}
	x, err := newIdentification(observations, time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	if err == nil {
		err = x.resolve(known, func([]uuid.UUID) (map[uuid.UUID][]happening.Details, error) { return told, nil })
	}
	if err != nil {
		t.Fatal(err)
	}
	return x.tellings
}

func TestWhichHappeningAPageTellsOf(t *testing.T) {
	t.Parallel()
	known := told("url:a", "url:a", "id:1").Identity
	restored := Identity{Happening: happening.DeriveID("url:b"), Evidence: []uuid.UUID{happening.DeriveID("url:b")}}
	for name, tt := range map[string]struct {
		tellings []Telling
		want     []string // the keys that the ids are of
	}{
		"of its own key":                   {[]Telling{told("url:a", "url:a")}, []string{"url:a"}},
		"of other evidence":                {[]Telling{told("id:1", "id:1")}, []string{"url:a"}},
		"of none that is known":            {[]Telling{told("id:2", "id:2", "url:c")}, []string{"id:2"}},
		"what a page tells apart is apart": {[]Telling{told("url:a", "url:a"), told("id:1", "id:1")}, []string{"url:a", "id:1"}},
		"and the own key takes it":         {[]Telling{told("id:1", "id:1"), told("url:a", "url:a")}, []string{"id:1", "url:a"}},
		"of one known by its id alone":     {[]Telling{told("url:b", "url:b", "id:7")}, []string{"url:b"}},
		"the own key goes first":           {[]Telling{told("url:b", "url:b", "id:1")}, []string{"url:b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := identified(t, tt.tellings, []Shown{{Identity: known}, {Identity: restored}}, nil)
			for i, key := range tt.want {
				if got := found[i]; got.Happening != happening.DeriveID(key) || happening.DeriveID(got.Key) != got.Happening {
					t.Errorf("telling %d is of %s with key %s, want %s", i, got.Happening, got.Key, key)
				}
			}
		})
	}
}
