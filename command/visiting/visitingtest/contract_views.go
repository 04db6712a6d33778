package visitingtest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/visiting"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func changes(t *testing.T, s Subject) {
	c := of(t, s).root(collect.Page{}, "a", "b")
	c.read("a", sight("jazz", "Jazz")).waits("Jazz")
	c.read("b", sight("jazz", "Jazz, too"), sight("quiz", "Quiz")).waits("Jazz + Jazz, too", "Quiz")
	c.ends()
	c.root(collect.Page{}, "a", "b").read("a", sight("jazz", "Jazz")).waits()
	moved := sight("quiz", "Quiz")
	moved.Dates, moved.Observation.Details.Description = []byte("other dates"), "later"
	c.read("b", sight("jazz", "Jazz!"), moved)
	for _, v := range c.ends("Jazz + Jazz!", "Quiz") {
		for _, seen := range v.Sightings {
			if other := seen.Observation.Details.Description != ""; other != seen.DatedAt.After(seen.Since) || v.Digest == nil {
				t.Errorf("the digest of %s is %q, first shown %s, its dates since %s", seen.Observation.Details.Title, v.Digest,
					seen.Since, seen.DatedAt)
			}
		}
	}
}

func dropped(t *testing.T, s Subject) {
	c := of(t, s).root(collect.Page{}, "a")
	c.read("a", sight("jazz", "Jazz"), sight("quiz", "Quiz")).waits("Jazz", "Quiz")
	for _, kept := range []struct {
		page collect.Page
		err  error
	}{{page: collect.Page{Partial: true}}, {page: collect.Page{Unchanged: true}}, {err: collect.ErrTimeout}} {
		c.ends()
		c.root(collect.Page{}, "a").record("a", kept.page, kept.err).waits()
	}
	c.ends()
	c.root(collect.Page{}, "a").read("a", sight("jazz", "Jazz")).waits("gone")
	c.ends()
	c.root(collect.Page{}, "a").record("a", collect.Page{}, &collect.StatusError{Code: 404}).waits("gone")
	c.ends()
	c.root(collect.Page{}, "a", "b").read("a", sight("jazz", "Jazz")).waits("Jazz") // a new one again
	c.read("b", sight("quiz", "Quiz")).ends("Quiz")
	c.root(collect.Page{}, "a", "b").read("a").waits() // it may have moved to b
	c.read("b", sight("quiz", "Quiz")).ends("gone")
}

func pageAhead(t *testing.T, s Subject) {
	const own = "https://example.org/jazz"
	jazz := func(text string) visiting.Sighting { return sight("jazz", text, visiting.PageEvidence(own)) }
	c := of(t, s).begin(collect.Link{Address: "root", List: true})
	c.record("root", collect.Page{Links: []collect.Link{{Address: own}}}, nil, jazz("Jazz"), sight("quiz", "Quiz"))
	c.waits("Quiz")
	c.read(own, jazz("Jazz night")).ends("Jazz + Jazz night")
	c.begin(collect.Link{Address: "root", List: true})
	c.record("root", collect.Page{Links: []collect.Link{{Address: own}}}, nil, jazz("Jazz!"), sight("quiz", "Quiz"))
	c.waits()
	c.read(own, jazz("Jazz night")).ends("Jazz night + Jazz!")
}

func evidence(t *testing.T, s Subject) {
	c, other, third := of(t, s).root(collect.Page{}, "a", "b"), uuid.New(), uuid.New()
	expect := func(page string, by uuid.UUID, want ...visiting.Shown) {
		t.Helper()
		known := collect.Known{Link: collect.Link{Address: page}}
		got, err := c.walk.Identify(t.Context(), known, []uuid.UUID{uuid.New(), by})
		if diff := cmp.Diff(want, got, same); diff != "" || err != nil {
			t.Errorf("found (-want +got):\n%s%v", diff, err)
		}
	}
	jazz := sight("jazz", "Jazz", other)
	c.read("a", jazz).waits("Jazz")
	shown := visiting.Shown{Identity: jazz.Identity, Dates: [][]byte{jazz.Dates}, Here: true}
	expect("a", other, shown)
	expect("a", jazz.Happening, shown)
	expect("a", third)
	shown.Here = false
	expect("b", other, shown)
	jazz = sight("jazz", "Jazz", third) // by other evidence in place of what it had
	jazz.Observation.Details.Description, jazz.Rekeyed = "again", true
	c.read("a", jazz).waits("Jazz")
	expect("a", other)
	jazz = sight("jazz", "Jazz", other) // and by more
	c.read("b", jazz).waits("Jazz + Jazz")
	for _, by := range []uuid.UUID{other, third} {
		if got, err := c.walk.Identify(t.Context(), collect.Known{}, []uuid.UUID{by}); err != nil || len(got) != 1 ||
			len(got[0].Dates) != 2 || len(got[0].Evidence) != 3 {
			t.Errorf("found %+v, %v", got, err)
		}
	}
}

func details(t *testing.T, s Subject) {
	c := of(t, s).root(collect.Page{}, "a")
	jazz, quiz := sight("jazz", "Jazz"), sight("quiz", "Quiz")
	c.read("a", jazz).waits("Jazz")
	for _, of := range []visiting.Sighting{jazz, quiz} {
		s.Happening(t, of.Happening, happening.Observed{
			SourceID: uuid.New(),
			Key:      of.Key,
			Details:  happening.Details{Title: of.Observation.Details.Title + ", recorded"},
			Source:   of.Observation.Source,
			At:       time.Now().UTC(),
		})
	}
	got, err := c.walk.DetailsOf(t.Context(), []uuid.UUID{jazz.Happening, quiz.Happening, uuid.New()})
	titles := map[uuid.UUID][]string{}
	for id, all := range got {
		for _, d := range all {
			titles[id] = append(titles[id], d.Title)
		}
	}
	want := map[uuid.UUID][]string{jazz.Happening: {"Jazz", "Jazz, recorded"}, quiz.Happening: {"Quiz, recorded"}}
	if diff := cmp.Diff(want, titles); diff != "" || err != nil {
		t.Errorf("details (-want +got):\n%s%v", diff, err)
	}
	assert.Equal(t, len(must.Get(c.walk.DetailsOf(t.Context(), []uuid.UUID{quiz.Happening}))(t)), 1, "details of one")
}

func unlisted(t *testing.T, s Subject) {
	c := of(t, s).root(collect.Page{}, "a", "b")
	c.read("a", sight("jazz", "Jazz")).waits("Jazz")
	c.read("b", sight("quiz", "Quiz")).ends("Quiz")
	c.root(collect.Page{Partial: true}, "a").read("a", sight("jazz", "Jazz")).ends()
	c.root(collect.Page{}, "a").read("a", sight("jazz", "Jazz")).ends("gone")
	c.root(collect.Page{}, "a", "b").read("b", sight("quiz", "Quiz")).ends("Quiz")
}

// recall records happenings of the source, one of which went stale, and loses the memory.
func recall(t *testing.T, s Subject) (c *script, digest []byte) {
	t.Helper()
	c = of(t, s).root(collect.Page{})
	c.ends()
	for _, name := range []string{"jazz", "quiz", "over"} {
		o, id := observed(name, name), happening.DeriveID("id:"+name)
		s.Happening(t, id, happening.Observed{
			SourceID: c.id,
			Key:      o.Key,
			Details:  o.Details,
			Source:   o.Source,
			At:       time.Now().UTC(),
		})
		if name == "over" {
			s.Happening(t, id, happening.WentStale{SourceID: c.id, At: time.Now().UTC()})
		}
		c.seen[id] = name != "over"
	}
	o := observed("jazz", "jazz")
	digest, err := happening.Digest(o.Details, o.Source, o.Standing)
	c.do(err)
	s.Lose(t)
	return c, digest
}

func restored(t *testing.T, s Subject) {
	c, digest := recall(t, s)
	c.root(collect.Page{}, "a")
	all, err := c.walk.Restored(t.Context())
	if err != nil || len(all) != 2 || !all[0].Here || len(all[0].Dates) > 0 || len(all[0].Evidence) != 1 {
		t.Errorf("restored: %+v, %v", all, err)
	}
	c.read("a", sight("jazz", "Jazz")).waits()
	if all, err = c.walk.Restored(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("restored: %+v, %v", all, err)
	}
	for _, v := range c.ends("Jazz", "gone") {
		if len(v.Sightings) > 0 && (!slices.Equal(v.Digest, digest) || v.Key != "id:jazz") {
			t.Errorf("%q has the digest %x, want %x", v.Key, v.Digest, digest)
		}
	}
}

func restoredLater(t *testing.T, s Subject) {
	c, _ := recall(t, s)
	c.root(collect.Page{}, "a", "b").record("b", collect.Page{}, collect.ErrTimeout)
	c.read("a", sight("jazz", "Jazz")).ends()
	s.Age(t, 25*time.Hour)
	c.root(collect.Page{}, "a", "b").record("b", collect.Page{}, collect.ErrTimeout)
	c.read("a", sight("jazz", "Jazz")).ends("Jazz")
	s.Age(t, 25*time.Hour)
	c.root(collect.Page{}, "a", "b").record("a", collect.Page{Unchanged: true}, nil).read("b").ends("gone")
}

func result(t *testing.T, s Subject) {
	c := of(t, s).root(collect.Page{}, "a")
	expect := func(want visiting.Result) {
		t.Helper()
		if got, err := c.walk.Result(t.Context()); err != nil || !cmp.Equal(got, want, same) {
			t.Errorf("the result is %+v, %v, want %+v", got, err, want)
		}
	}
	expect(visiting.Result{Empty: true})
	c.read("a", sight("jazz", "Jazz"), sight("quiz", "Quiz")).waits("Jazz", "Quiz")
	expect(visiting.Result{Observed: 2})
	c.ends()
	scripts := collect.Note{Code: collect.NoteNeedsJavaScript, Text: "scripts only"}
	c.root(collect.Page{}, "a").record("a", collect.Page{Partial: true, Notes: collect.Notes{scripts}}, nil)
	expect(visiting.Result{
		Observed: 2,
		Empty:    true,
		Notes:    []source.Note{{Code: string(scripts.Code), Text: scripts.Text}},
	})
}

func cutOff(t *testing.T, s Subject) {
	c := of(t, s).root(collect.Page{}, "a")
	c.read("a", sight("over", "over")).waits("over")
	c.ends()
	c.root(collect.Page{}, "a")
	all := make([]visiting.Sighting, visiting.MaxWaiting+10)
	for i := range all {
		all[i] = sight(uuid.NewString(), "new")
	}
	c.read("a", all...)
	views := must.Get(c.walk.Waiting(t.Context()))(t)
	must.Equal(t, len(views), visiting.MaxWaiting, "wait")
	s.Age(t, time.Minute) // it was killed
	if c.take(); c.turn.Fresh || c.turn.Tally.New == 0 {
		t.Errorf("turn: %+v", c.turn)
	}
	left := map[uuid.UUID]bool{}
	for more := visiting.MaxWaiting; more == visiting.MaxWaiting; {
		views, err := c.walk.Waiting(t.Context())
		c.do(err)
		more = len(views)
		settled := make([]visiting.Settled, len(views))
		for i, v := range views {
			left[v.Happening] = true
			settled[i] = visiting.Settled{Happening: v.Happening, Digest: []byte("x"), Gone: len(v.Sightings) == 0}
			if v.Digest != nil && !settled[i].Gone {
				t.Error("it is not known whether it is recorded")
			}
		}
		c.do(c.walk.Settle(t.Context(), settled, visiting.Tally{}))
	}
	assert.Equal(t, len(left), len(all)+1, "are left")
	c.waits()
}

func twice(t *testing.T, s Subject) {
	c := of(t, s).root(collect.Page{}, "a")
	c.read("a", sight("jazz", "Jazz"), sight("jazz", "Another")).waits("Jazz")
}
