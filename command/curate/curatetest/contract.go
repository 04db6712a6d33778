package curatetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/command/collect/match"
	"carillon/command/curate"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Run tests an implementation against the contract. open returns an empty one.
func Run(t *testing.T, open func(*testing.T) (curate.Memory, curate.Likeness)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		m, _ := open(t)
		remembers(t, m)
	})
	t.Run("likeness", func(t *testing.T) {
		t.Parallel()
		_, l := open(t)
		finds(t, l)
	})
}

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func id(n byte) uuid.UUID { return uuid.UUID{15: n} }

// known returns a happening that a source shows at an hour.
func known(source uuid.UUID, hour int, feeds ...uuid.UUID) *curate.Known {
	k := curate.NewKnown()
	k.Sources[source] = curate.SourceDates{FirstSeen: noon, Last: noon.Add(time.Duration(hour) * time.Hour)}
	for _, feed := range feeds {
		k.Feeds[feed] = true
	}
	return k
}

func remembers(t *testing.T, m curate.Memory) {
	t.Helper()
	ctx, page, site, feed := t.Context(), id(100), id(101), id(102)
	keep := func(changed map[uuid.UUID]*curate.Known) {
		t.Helper()
		must.OK(t, m.Keep(ctx, changed, nil))
	}
	expect := func(want map[uuid.UUID]*curate.Known) {
		t.Helper()
		got, err := m.Recall(ctx, []uuid.UUID{id(1), id(2), id(3), id(9)})
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("recalled (-want +got):\n%s%v", diff, err)
		}
	}
	// carried lists what a source carries. Each page is changed before the next one is read.
	carried := func(which curate.Carried) (list []byte) {
		t.Helper()
		for after := (curate.Mark{}); ; {
			some, last, err := m.Carried(ctx, which, after)
			must.OK(t, err)
			if len(some) == 0 {
				slices.Sort(list)
				return list
			}
			for happening, k := range some {
				list, k.Feeds = append(list, happening[15]), map[uuid.UUID]bool{}
			}
			keep(some)
			after = last
		}
	}
	expect(map[uuid.UUID]*curate.Known{})
	first, merged := known(page, 3, feed), known(page, 1, feed)
	merged.Merged = true
	merged.Sources[site] = curate.SourceDates{FirstSeen: noon, Published: noon.Add(time.Microsecond)}
	keep(map[uuid.UUID]*curate.Known{id(1): first, id(2): merged, id(3): known(page, 2)})
	expect(map[uuid.UUID]*curate.Known{id(1): first, id(2): merged, id(3): known(page, 2)})
	assert.Slices(t, carried(curate.Carried{Source: page, ItemsOf: feed}), []byte{1, 2}, "it carries the items")
	if got := carried(curate.Carried{Source: page, ItemsOf: feed}); len(got) > 0 {
		t.Errorf("it carries the former items %v", got)
	}
	assert.Slices(t, carried(curate.Carried{Source: page}), []byte{1, 2, 3}, "it carries")
	since := noon.Add(2 * time.Hour)
	assert.Slices(t, carried(curate.Carried{Source: page, Since: since}), []byte{1, 3}, "since %s it carries", since)
	merged = known(site, 3)
	merged.Dropped = []uuid.UUID{page}
	keep(map[uuid.UUID]*curate.Known{id(2): merged})
	must.OK(t, m.Forget(ctx, []uuid.UUID{id(1), id(9)}, nil))
	expect(map[uuid.UUID]*curate.Known{id(2): known(site, 3), id(3): known(page, 2)})
	assert.Slices(t, carried(curate.Carried{Source: page}), []byte{3}, "in the end it carries")
}

func finds(t *testing.T, l curate.Likeness) {
	t.Helper()
	mark := func(kind match.Kind, of string, after time.Duration) match.Mark {
		m := match.Mark{Of: of, Kind: kind}
		if kind != match.Key {
			m.Day = noon.Format(time.DateOnly)
		}
		if after > 0 {
			m.At = noon.Add(after)
		}
		return m
	}
	const soon, later = time.Hour, time.Hour + match.Together + time.Minute
	next := byte(0)
	pair := func(what string, alike bool, one, other []match.Mark) {
		t.Helper()
		next += 2
		a, b := id(next), id(next+1)
		note := func(id uuid.UUID, marks []match.Mark) (map[uuid.UUID][]uuid.UUID, error) {
			return l.Note(t.Context(), map[uuid.UUID][]match.Mark{id: marks}, noon)
		}
		must.Get(note(a, one))(t)
		found, err := note(b, other)
		if got := slices.Equal(found[b], []uuid.UUID{a}); err != nil || got != alike ||
			!alike && len(found) > 0 {
			t.Errorf("%s: found %v, %v", what, found, err)
		}
		for _, id := range []uuid.UUID{a, b} { // and is found no more
			if found, err := note(id, nil); err != nil || len(found) > 0 {
				t.Errorf("%s: without marks found %v, %v", what, found, err)
			}
		}
	}
	list := func(marks ...match.Mark) []match.Mark { return marks }
	pair("a key", true, list(mark(match.Key, "1", 0)), list(mark(match.Key, "1", 0)))
	pair("another key", false, list(mark(match.Key, "1", 0)), list(mark(match.Key, "2", 0)))
	pair("a place at one time", true, list(mark(match.Place, "3", soon)), list(mark(match.Place, "3", soon)))
	pair("a place at about one time", true, list(mark(match.Place, "3", later-time.Minute)),
		list(mark(match.Place, "3", soon)))
	pair("a place on one day", false, list(mark(match.Place, "3", soon)), list(mark(match.Place, "3", later)))
	pair("a title whose time is unknown", true, list(mark(match.Title, "4", soon)), list(mark(match.Title, "4", 0)))
	pair("place and title on one day", true, list(mark(match.Place, "3", soon), mark(match.Title, "4", soon)),
		list(mark(match.Place, "3", later), mark(match.Title, "4", later)))
}
