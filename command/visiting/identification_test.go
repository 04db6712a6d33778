package visiting

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/identity"
)

func told(key string, keys ...string) Telling {
	return newTelling(collect.Observation{Key: key, Keys: keys}, nil)
}

// identified returns the keys of the happenings that a page's tellings get.
func identified(t *testing.T, tellings []Telling, known []Shown, told map[uuid.UUID][]happening.Details) []Telling {
	t.Helper()
	var observations []collect.Observation
	for _, telling := range tellings {
		observations = append(observations, telling.Observation)
	}
	x, err := newIdentification(observations, time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	if err == nil {
		err = x.resolve(known, memory{told: func([]uuid.UUID) (map[uuid.UUID][]happening.Details, error) {
			return told, nil
		}})
	}
	if err != nil {
		t.Fatal(err)
	}
	return x.tellings
}

func TestIdentification(t *testing.T) {
	t.Parallel()
	known := told("url:a", "url:a", "id:1").Identity
	restored := Identity{Happening: happening.DeriveID("url:b"), Evidence: []uuid.UUID{happening.DeriveID("url:b")}}
	for name, tt := range map[string]struct {
		tellings []Telling
		want     []string // keys of the expected ids
	}{
		"of its own key":        {[]Telling{told("url:a", "url:a")}, []string{"url:a"}},
		"of other evidence":     {[]Telling{told("id:1", "id:1")}, []string{"url:a"}},
		"of none that is known": {[]Telling{told("id:2", "id:2", "url:c")}, []string{"id:2"}},
		"separate on a page, separate": {[]Telling{told("url:a", "url:a"), told("id:1", "id:1")},
			[]string{"url:a", "id:1"}},
		"and the own key takes it": {[]Telling{told("id:1", "id:1"), told("url:a", "url:a")},
			[]string{"id:1", "url:a"}},
		"of one known by its id alone": {[]Telling{told("url:b", "url:b", "id:7")}, []string{"url:b"}},
		"the own key goes first":       {[]Telling{told("url:b", "url:b", "id:1")}, []string{"url:b"}},
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

// onStage returns a page's telling of a concert on a day.
func onStage(key, title string, day int) Telling {
	start := time.Date(2026, 12, day, 20, 0, 0, 0, time.UTC)
	id := happening.DeriveInstanceID(key, happening.OriginalStart(start))
	t := told(key, key)
	t.Observation.Details = happening.Details{Title: title,
		Instances: []happening.Instance{{ID: id, Occurrences: []happening.Occurrence{
			{ID: happening.DeriveOccurrenceID(id, 0), Start: start},
		}}}}
	return t
}

// A page address gives the next happening if title and start are both new, and the same one to every reader of the
// earlier details.
func TestIdentification_reusedPage(t *testing.T) {
	t.Parallel()
	const address, second, third = "url:a/1", "url:a/1 (2)", "url:a/1 (3)"
	jazz, quiz := onStage(address, "Anna Schmidt Quartett", 5), onStage(address, "Pub quiz", 7)
	details := func(tellings ...Telling) (all []happening.Details) {
		for _, t := range tellings {
			all = append(all, t.Observation.Details)
		}
		return all
	}
	id := happening.DeriveID
	shown := func(key, stored string) Shown {
		return Shown{Identity: Identity{Happening: id(key), Key: stored, Evidence: []uuid.UUID{id(address), id(key)}}}
	}
	both := map[uuid.UUID][]happening.Details{id(address): details(jazz), id(second): details(quiz)}
	for name, tt := range map[string]struct {
		tells []Telling
		known []Shown
		told  map[uuid.UUID][]happening.Details
		want  []string
	}{
		"nothing is known": {[]Telling{quiz}, nil, nil, []string{address}},
		"another source showed it before": {[]Telling{quiz}, nil,
			map[uuid.UUID][]happening.Details{id(address): details(jazz)}, []string{second}},
		"and of this one, too": {[]Telling{quiz}, nil, both, []string{second}},
		"back to the first": {[]Telling{onStage(address, "Anna Schmidt Quartett", 20)},
			[]Shown{shown(second, second)}, both, []string{address}},
		"a third": {[]Telling{onStage(address, "Hamlet", 9)}, []Shown{shown(second, second)}, both,
			[]string{third}},
		"its key was lost": {[]Telling{quiz},
			[]Shown{{Identity: Identity{Happening: id(second), Evidence: []uuid.UUID{id(second)}}}}, both, []string{second}},
		"some show the one, some the other": {
			[]Telling{quiz}, []Shown{shown(address, address)}, map[uuid.UUID][]happening.Details{id(address): details(jazz,
				quiz)}, []string{address},
		},
		"one title, the same hour": {[]Telling{onStage(address, "Whatever", 5)}, []Shown{shown(address, address)}, both,
			[]string{address}},
		"with an identifier": {[]Telling{onStage("id:a|7", "Whatever", 9)}, []Shown{shown("id:a|7", "id:a|7")},
			map[uuid.UUID][]happening.Details{id("id:a|7"): details(jazz)}, []string{"id:a|7"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, got := range identified(t, tt.tells, tt.known, tt.told) {
				if got.Happening != id(tt.want[i]) || got.Key != tt.want[i] {
					t.Errorf("got %s by key %q, want %q", got.Happening, got.Key, tt.want[i])
				}
				if got.Key == second && got.Observation.Details.Instances[0].ID == tt.tells[i].Observation.Details.Instances[0].ID {
					t.Error("its instances are those of the first")
				}
			}
		})
	}
	many := map[uuid.UUID][]happening.Details{id(address): details(jazz)}
	for n := 2; n <= maxSuccessors; n++ {
		many[id(fmt.Sprintf("%s (%d)", address, n))] = details(jazz)
	}
	if got := identified(t, []Telling{quiz}, nil, many)[0]; got.Key != "url:a/1 (pub quiz)" ||
		got.Happening != id(got.Key) {
		t.Errorf("after many others it has key %q", got.Key)
	}
}

// A telling with a date ahead is not of a retired happening, but of the next one of its evidence.
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
		"not retired": {start: ahead, want: "id:1", asked: true},
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
			telling := told("id:1", "id:1", "url:a")
			telling.Observation.Details.Instances = []happening.Instance{{
				Occurrences: []happening.Occurrence{{Start: c.start}},
			}}
			x, err := newIdentification([]collect.Observation{telling.Observation}, now)
			if err != nil {
				t.Fatal(err)
			}
			asked := false
			var known []Shown
			for _, id := range c.known {
				known = append(known, Shown{Identity: Identity{Happening: id, Evidence: []uuid.UUID{id}}})
			}
			err = x.resolve(known, memory{
				told: func([]uuid.UUID) (map[uuid.UUID][]happening.Details, error) { return nil, nil },
				retired: func([]uuid.UUID) (map[uuid.UUID]bool, error) {
					asked = true
					found := map[uuid.UUID]bool{}
					for _, id := range c.retired {
						found[id] = true
					}
					return found, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := x.tellings[0]; got.Happening != happening.DeriveID(c.want) || asked != c.asked {
				t.Errorf("%s, asked %v; want %s", got.Key, asked, c.want)
			}
		})
	}
}
