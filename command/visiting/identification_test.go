package visiting

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/identity"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func sighting(key string, keys ...string) Sighting {
	return newSighting(collect.Observation{Key: key, Keys: keys}, nil)
}

// identified returns the sightings of a page with the happenings that they get.
func identified(
	t *testing.T, sightings []Sighting, known []Shown, details map[uuid.UUID][]happening.Details,
) []Sighting {
	t.Helper()
	return identifiedOn(t, false, sightings, known, details)
}

func identifiedOn(
	t *testing.T, partial bool, sightings []Sighting, known []Shown, details map[uuid.UUID][]happening.Details,
) []Sighting {
	t.Helper()
	var observations []collect.Observation
	for _, sighting := range sightings {
		observations = append(observations, sighting.Observation)
	}
	x, err := newIdentification(observations, time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	if err == nil {
		x.partial = partial
		asked := map[uuid.UUID]bool{}
		before := memory{marked: func([]uuid.UUID) ([]Shown, error) { return slices.Clone(known), nil }}
		before.detailsOf = func(ids []uuid.UUID) (map[uuid.UUID][]happening.Details, error) {
			some := map[uuid.UUID][]happening.Details{}
			for _, id := range ids {
				assert.True(t, !asked[id], "the details of %s are read again", id)
				if asked[id] = true; details[id] != nil {
					some[id] = details[id]
				}
			}
			return some, nil
		}
		err = x.resolve(known, before)
	}
	must.OK(t, err)
	return x.sightings
}

func TestIdentification(t *testing.T) {
	t.Parallel()
	known := sighting("url:a", "url:a", "id:1").Identity
	restored := Identity{Happening: happening.DeriveID("url:b"), Evidence: []uuid.UUID{happening.DeriveID("url:b")}}
	for name, tt := range map[string]struct {
		sightings []Sighting
		want      []string // keys of the expected ids
	}{
		"of its own key":        {[]Sighting{sighting("url:a", "url:a")}, []string{"url:a"}},
		"of other evidence":     {[]Sighting{sighting("id:1", "id:1")}, []string{"url:a"}},
		"of none that is known": {[]Sighting{sighting("id:2", "id:2", "url:c")}, []string{"id:2"}},
		"separate on a page, separate": {[]Sighting{sighting("url:a", "url:a"), sighting("id:1", "id:1")},
			[]string{"url:a", "id:1"}},
		"and the own key takes it": {[]Sighting{sighting("id:1", "id:1"), sighting("url:a", "url:a")},
			[]string{"id:1", "url:a"}},
		"of one known by its id alone": {[]Sighting{sighting("url:b", "url:b", "id:7")}, []string{"url:b"}},
		"the own key goes first":       {[]Sighting{sighting("url:b", "url:b", "id:1")}, []string{"url:b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := identified(t, tt.sightings, []Shown{{Identity: known}, {Identity: restored}}, nil)
			for i, key := range tt.want {
				if got := found[i]; got.Happening != happening.DeriveID(key) || happening.DeriveID(got.Key) != got.Happening {
					t.Errorf("sighting %d is of %s with key %s, want %s", i, got.Happening, got.Key, key)
				}
			}
		})
	}
}

// onStage returns a page's sighting of a concert on a day.
func onStage(key, title string, day int) Sighting {
	start := time.Date(2026, 12, day, 20, 0, 0, 0, time.UTC)
	id := happening.DeriveInstanceID(key, happening.OriginalStart(start))
	t := sighting(key, key)
	t.Observation.Details = happening.Details{Title: title,
		Instances: []happening.Instance{{ID: id, Occurrences: []happening.Occurrence{
			{ID: happening.DeriveOccurrenceID(id, 0), Start: start},
		}}}}
	return t
}

// in returns a sighting at a place.
func (t Sighting) in(place string) Sighting {
	if place != "" {
		t.Observation.Details.Location = &happening.Location{Venue: &happening.Venue{Name: place}, DisplayAddress: place}
	}
	return t
}

// was returns a happening as a source is known to show it, on some pages with the same dates.
func (t Sighting) was(pages int, here bool) Shown {
	x, _ := newIdentification([]collect.Observation{t.Observation}, time.Time{})
	known := x.sightings[0]
	return Shown{Identity: known.Identity, Dates: slices.Repeat([][]byte{known.Dates}, pages), Here: here}
}

// Of the happenings that a sighting may be of, the best one is taken, or none.
func TestIdentification_claims(t *testing.T) {
	t.Parallel()
	stage := func(key, title, place string) Sighting { return onStage(key, title, 5).in(place) }
	moved := onStage("id:1", "Krk Quartett", 6)
	two := sighting("id:3", "id:3", "id:1", "id:2")
	two.Observation.Details = stage("id:2", "Krk Quartett", "").Observation.Details
	addressed := sighting("id:a/1", "id:a/1", "url:a/1")
	addressed.Observation.Details = stage("id:a/1", "Pub quiz", "").Observation.Details
	other := sighting("id:a/1", "id:a/1", "url:a/1")
	other.Observation.Details = moved.Observation.Details
	// Earlier builds marked happenings with title and day.
	earlier := stage("id:1", "Krk Quartett", "Fox Inn").was(1, true)
	earlier.Evidence = []uuid.UUID{earlier.Happening, happening.DeriveID("programme:krk quartett|2026-12-05")}
	jazz := func(key, place string) Sighting { return stage(key, "Krk Quartett", place) }
	for name, tt := range map[string]struct {
		sightings []Sighting
		known     []Shown
		of        []Sighting // the known ones
		partial   bool
		want      string
	}{
		"the one with its dates": {[]Sighting{two}, []Shown{moved.was(1, false), jazz("id:2", "").was(1, false)},
			[]Sighting{moved, jazz("id:2", "")}, false, "[id:2]"},
		"an id that is an address": {[]Sighting{addressed}, []Shown{other.was(1, true)}, []Sighting{other}, false,
			"[id:a/1 (2)]"},
		"in its place": {[]Sighting{jazz("id:2", "Fox Inn")}, []Shown{jazz("id:1", "Fox Inn").was(1, true)},
			[]Sighting{jazz("id:1", "Fox Inn")}, false, "[id:1!]"},
		"in its place, as earlier builds knew it": {[]Sighting{jazz("id:2", "Fox Inn")}, []Shown{earlier},
			[]Sighting{jazz("id:1", "Fox Inn")}, false, "[id:1!]"},
		"a part of the page": {[]Sighting{jazz("id:2", "Fox Inn")}, []Shown{jazz("id:1", "Fox Inn").was(1, true)},
			[]Sighting{jazz("id:1", "Fox Inn")}, true, "[id:2]"},
		"elsewhere, the only one": {[]Sighting{jazz("id:2", "Owl Barn")}, []Shown{jazz("id:1", "Fox Inn").was(1, true)},
			[]Sighting{jazz("id:1", "Fox Inn")}, false, "[id:1!]"},
		"elsewhere, the one that is left": {[]Sighting{jazz("id:3", "Owl Barn"), jazz("id:4", "Elk Hall")},
			[]Shown{jazz("id:1", "Elk Hall").was(1, true), jazz("id:2", "Fox Inn").was(1, true)},
			[]Sighting{jazz("id:1", "Elk Hall"), jazz("id:2", "Fox Inn")}, false, "[id:2! id:1!]"},
		"elsewhere, one of two": {[]Sighting{jazz("id:3", "Owl Barn")}, []Shown{jazz("id:1", "Fox Inn").was(1, true),
			jazz("id:2", "Elk Hall").was(1, true)}, []Sighting{jazz("id:1", "Fox Inn"), jazz("id:2", "Elk Hall")}, false,
			"[id:3]"},
		"elsewhere, known from events": {[]Sighting{jazz("id:2", "Owl Barn")}, []Shown{jazz("id:1", "Fox Inn").was(0, true)},
			[]Sighting{jazz("id:1", "Fox Inn")}, false, "[id:2]"},
		"somewhere, the better one": {[]Sighting{jazz("id:3", ""), jazz("id:4", "Elk Hall")},
			[]Shown{jazz("id:1", "Elk Hall").was(1, true), jazz("id:2", "Fox Inn").was(1, true)},
			[]Sighting{jazz("id:1", "Elk Hall"), jazz("id:2", "Fox Inn")}, false, "[id:2! id:1!]"},
		"of two side by side, the one without a page": {[]Sighting{jazz("url:b", "Fox Inn")},
			[]Shown{jazz("id:1", "Fox Inn").was(2, false), jazz("id:2", "Fox Inn").was(1, false)},
			[]Sighting{jazz("id:1", "Fox Inn"), jazz("id:2", "Fox Inn")}, false, "[id:2]"},
		"of two, the one that a page shows there": {[]Sighting{jazz("id:3", "Fox Inn")},
			[]Shown{jazz("id:1", "").was(1, true), jazz("id:2", "").was(1, true)},
			[]Sighting{jazz("id:1", ""), jazz("id:2", ""), jazz("id:2", "Fox Inn"), jazz("id:2", "")}, false, "[id:2!]"},
		"of two, the one with its title": {[]Sighting{jazz("url:b", "Fox Inn")},
			[]Shown{stage("id:1", "Krk Quartett Zadar", "Fox Inn").was(1, false), jazz("id:2", "Fox Inn").was(1, false)},
			[]Sighting{stage("id:1", "Krk Quartett Zadar", "Fox Inn"), jazz("id:2", "Fox Inn")}, false, "[id:2]"},
		"known as two before": {[]Sighting{jazz("url:b", "Fox Inn")}, []Shown{jazz("url:a", "Fox Inn").was(1, false),
			jazz("url:b", "Fox Inn").was(1, true)}, []Sighting{jazz("url:a", "Fox Inn")}, false, "[url:b]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			details := map[uuid.UUID][]happening.Details{}
			for _, o := range tt.of {
				details[o.Happening] = append(details[o.Happening], o.Observation.Details)
			}
			var got []string
			for _, s := range identifiedOn(t, tt.partial, tt.sightings, tt.known, details) {
				if s.Rekeyed {
					s.Key += "!"
				}
				got = append(got, s.Key)
			}
			assert.True(t, fmt.Sprint(got) == tt.want, "got %v, want %s", got, tt.want)
		})
	}
}

// Of many that share a word with a sighting some are compared, first those that share a rare one.
func TestIdentification_manyAlike(t *testing.T) {
	t.Parallel()
	var known []Shown
	details := map[uuid.UUID][]happening.Details{}
	for n := range 4 * maxAlike {
		s := onStage(fmt.Sprint("id:", n), fmt.Sprintf("Krk no%d", n), 5).in("Fox Inn")
		known, details[s.Happening] = append(known, s.was(1, true)), []happening.Details{s.Observation.Details}
	}
	s := onStage("id:new", "Krk no99 Anna", 5).in("Fox Inn")
	x, err := newIdentification([]collect.Observation{s.Observation}, time.Time{})
	must.OK(t, err)
	read := 0
	err = x.resolve(known, memory{detailsOf: func(ids []uuid.UUID) (map[uuid.UUID][]happening.Details, error) {
		read += len(ids)
		return details, nil
	}})
	if got := x.sightings[0].Key; err != nil || got != "id:99" || read > maxAlike+maxSuccessors {
		t.Errorf("got %s, %v, having read %d", got, err, read)
	}
}

// A page address gives the next happening if title and start are both new, and the same one to every reader of the
// earlier details.
func TestIdentification_reusedPage(t *testing.T) {
	t.Parallel()
	const address, second, third = "url:a/1", "url:a/1 (2)", "url:a/1 (3)"
	jazz, quiz := onStage(address, "Anna Schmidt Quartett", 5), onStage(address, "Pub quiz", 7)
	details := func(sightings ...Sighting) (all []happening.Details) {
		for _, t := range sightings {
			all = append(all, t.Observation.Details)
		}
		return all
	}
	id := happening.DeriveID
	shown := func(key, stored string) Shown {
		return Shown{Identity: Identity{Happening: id(key), Key: stored, Evidence: []uuid.UUID{id(address), id(key)}}}
	}
	both := map[uuid.UUID][]happening.Details{id(address): details(jazz), id(second): details(quiz)}
	numbered := onStage("id:7", "Pub quiz", 7)
	numberedWas := numbered.was(1, true)
	numberedWas.Happening, numberedWas.Key = id(second), second
	for name, tt := range map[string]struct {
		sightings []Sighting
		known     []Shown
		details   map[uuid.UUID][]happening.Details
		want      []string
	}{
		"nothing is known": {[]Sighting{quiz}, nil, nil, []string{address}},
		"another source showed it before": {[]Sighting{quiz}, nil,
			map[uuid.UUID][]happening.Details{id(address): details(jazz)}, []string{second}},
		"and of this one, too": {[]Sighting{quiz}, nil, both, []string{second}},
		"back to the first": {[]Sighting{onStage(address, "Anna Schmidt Quartett", 20)},
			[]Shown{shown(second, second)}, both, []string{address}},
		"a third": {[]Sighting{onStage(address, "Hamlet", 9)}, []Shown{shown(second, second)}, both,
			[]string{third}},
		"another one of the page is the second": {[]Sighting{numbered, quiz}, []Shown{numberedWas}, both, []string{second,
			third}},
		"its key was lost": {[]Sighting{quiz},
			[]Shown{{Identity: Identity{Happening: id(second), Evidence: []uuid.UUID{id(second)}}}}, both, []string{second}},
		"some show the one, some the other": {
			[]Sighting{quiz}, []Shown{shown(address, address)}, map[uuid.UUID][]happening.Details{id(address): details(jazz,
				quiz)}, []string{address},
		},
		"one title, the same hour": {[]Sighting{onStage(address, "Whatever", 5)}, []Shown{shown(address, address)}, both,
			[]string{address}},
		"with an identifier": {[]Sighting{onStage("id:a|7", "Whatever", 9)}, []Shown{shown("id:a|7", "id:a|7")},
			map[uuid.UUID][]happening.Details{id("id:a|7"): details(jazz)}, []string{"id:a|7"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, got := range identified(t, tt.sightings, tt.known, tt.details) {
				if got.Happening != id(tt.want[i]) || got.Key != tt.want[i] {
					t.Errorf("got %s by key %q, want %q", got.Happening, got.Key, tt.want[i])
				}
				first := tt.sightings[i].Observation.Details.Instances[0]
				if got.Key == second && got.Observation.Key == address && got.Observation.Details.Instances[0].ID == first.ID {
					t.Error("its instances are those of the first")
				}
			}
		})
	}
	many := map[uuid.UUID][]happening.Details{id(address): details(jazz)}
	for n := 2; n <= maxSuccessors; n++ {
		many[id(fmt.Sprintf("%s (%d)", address, n))] = details(jazz)
	}
	if got := identified(t, []Sighting{quiz}, nil, many)[0]; got.Key != "url:a/1 (pub quiz)" ||
		got.Happening != id(got.Key) {
		t.Errorf("after many others it has key %q", got.Key)
	}
}

// A sighting with a date ahead is not of a retired happening, but of the next one of its evidence.
func TestIdentification_retired(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	second := happening.DeriveID(identity.Successor("id:1", 2))
	ahead, first, page := now.AddDate(0, 0, 9), happening.DeriveID("id:1"), happening.DeriveID("url:a")
	for name, c := range map[string]struct {
		start          time.Time
		known, retired []uuid.UUID
		want           string
		asked          bool
		dated          bool // the known ones have its dates
	}{
		"an old date": {
			start:   now.AddDate(0, 0, -9),
			retired: []uuid.UUID{first},
			want:    "id:1",
		},
		"a new date": {
			start:   ahead,
			retired: []uuid.UUID{first},
			want:    identity.Successor("id:1", 2),
			asked:   true,
		},
		"the second one too": {
			start:   ahead,
			retired: []uuid.UUID{first, second},
			want:    identity.Successor("id:1", 3),
			asked:   true,
		},
		"a known one": {
			start:   ahead,
			known:   []uuid.UUID{first},
			retired: []uuid.UUID{first},
			want:    identity.Successor("id:1", 2),
			asked:   true,
		},
		"not retired": {start: ahead, want: "id:1", asked: true},
		"with its dates": {
			start: ahead,
			known: []uuid.UUID{first},
			dated: true,
			want:  "id:1",
		},
		"retired by other evidence": {
			start:   ahead,
			known:   []uuid.UUID{page},
			retired: []uuid.UUID{page},
			want:    "id:1",
			asked:   true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sighting := sighting("id:1", "id:1", "url:a")
			sighting.Observation.Details.Instances = []happening.Instance{{
				Occurrences: []happening.Occurrence{{Start: c.start}},
			}}
			x := must.Get(newIdentification([]collect.Observation{sighting.Observation}, now))(t)
			asked := false
			var known []Shown
			for _, id := range c.known {
				k := Shown{Identity: Identity{Happening: id, Evidence: []uuid.UUID{id}}}
				if c.dated {
					k.Dates = [][]byte{x.sightings[0].Dates}
				}
				known = append(known, k)
			}
			must.OK(t, x.resolve(known, memory{
				detailsOf: func([]uuid.UUID) (map[uuid.UUID][]happening.Details, error) { return nil, nil },
				retired: func(ids []uuid.UUID) (map[uuid.UUID]bool, error) {
					asked = true
					found := map[uuid.UUID]bool{}
					for _, id := range ids {
						found[id] = slices.Contains(c.retired, id)
					}
					return found, nil
				},
			}))
			if got := x.sightings[0]; got.Happening != happening.DeriveID(c.want) || asked != c.asked {
				t.Errorf("%s, asked %v; want %s", got.Key, asked, c.want)
			}
		})
	}
}
