package items_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/items"
	"carillon/query"
)

// scores are the relevance of the items of a feed by title; others are left out.
func (f fixture) scores(t interface {
	Helper()
	Fatal(...any)
}, feed uuid.UUID,
) map[string]float64 {
	t.Helper()
	in := usual()
	in.Limit = 100
	page, err := f.Items(f.t.Context(), org, feed, in)
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		Title          string
		RelevanceScore *float64
	}
	if err := json.Unmarshal(page.Items, &list); err != nil {
		t.Fatal(err)
	}
	scores := map[string]float64{}
	for _, i := range list {
		if i.RelevanceScore != nil {
			scores[i.Title] = *i.RelevanceScore
		}
	}
	return scores
}

func named(name, description string) feed.Settings {
	return feed.Settings{Name: name, Description: description}
}

// newFeed is one more feed of the fixture's source.
func (f fixture) newFeed(owner uuid.UUID, s feed.Settings) uuid.UUID {
	id, made := uuid.New(), created(s)
	made.Organization = owner
	f.onFeed(id, made, attached(f.source))
	return id
}

var programme = []happening.Details{
	{Title: "Jazz night at the Blue Note", Description: "<p>An evening of <b>jazz</b> in Milan.</p>"},
	{Title: "Milan marathon", Description: "<p>42 km through the city.</p>"},
	{Title: "Jazzkonzert", Description: "<p>Die Konzerte finden im Rathaus von Mailand statt.</p>"},
	{Title: "Konzert im Park", ShortDescription: "Konzerte für Kinder"},
	{Title: "Concerti di musica barocca", Description: "<p>Concerto nella chiesa di Milano</p>"},
	{Title: "Вечер джаза", Description: "<p>Концерты в Москве</p>"},
	{Title: "ジャズの夜"},
	{
		Title:       "L'ÉTÉ À PARIS",
		Description: "Fête de l&#39;été &amp; concerts",
		Location: &happening.Location{
			Venue:          &happening.Venue{Name: "Olympia", Address: "Boulevard"},
			DisplayAddress: "Olympia, Paris",
		},
	},
	{Title: "Flea market", Description: strings.Repeat("jazz ", 400), Organizer: &happening.Organizer{Name: "Jazz Guild"}},
}

// The relevance of items in several languages for feeds in several languages, to the digit.
func TestRelevance(t *testing.T) {
	t.Parallel()
	f := open(t)
	described := map[string]feed.Settings{
		"english":        named("Jazz in Milan", "Concerts and club nights in and around the city of Milan"),
		"german":         named("Konzerte für Kinder", "Alles, was es im Rathaus und im Park zu hören gibt"),
		"italian":        named("Musica a Milano", "Concerti nelle chiese e nei teatri della città"),
		"russian":        named("Джаз в Москве", "Концерты и вечера, на которых играют джаз"),
		"french":         named("Été à Paris", "Les concerts et les fêtes de la ville"),
		"no stop words":  named("Jazz", "Marathon"),
		"nothing else":   named("The", "of and in"),
		"name says none": named("The", "Marathon of Milan"),
		"another script": named("ジャズの夜", "東京"),
	}
	feeds := map[string]uuid.UUID{}
	for name, settings := range described {
		feeds[name] = f.newFeed(org, settings)
	}
	for i, details := range programme {
		details.Instances = on("", time.Duration(i+1)*time.Hour).Instances
		id := uuid.New()
		f.onHappening(id, observed(f.source, details))
		for _, feedID := range feeds {
			f.addTo(feedID, id, now)
		}
	}
	f.Project()
	got := map[string]map[string]float64{}
	for name, id := range feeds {
		got[name] = f.scores(t, id)
	}
	assert.True(t, len(got["nothing else"]) == 0, "scored by stop words alone: %v", got["nothing else"])
	assert.True(t, len(got["name says none"]) == len(programme), "not all are scored: %v", got["name says none"])
	text := must.Get(json.MarshalIndent(got, "", "  "))(t)
	aggregatetest.GoldenFile(t, "relevance.json", text)

	in := usual()
	in.Legacy = true
	off := f
	off.Queries = &query.Queries{Pool: f.Pool, WithoutRelevance: true}
	assert.Equal(t, len(off.scores(t, feeds["english"])), 0, "switched off")
	page, err := f.Items(t.Context(), org, feeds["english"], in)
	assert.True(t, err == nil && !strings.Contains(string(page.Items), "relevance"),
		"legacy shape: %s, %v", page.Items, err)
}

// Items are ranked again when their feed is described again, and when they are revised; each feed ranks for itself. A
// rebuild comes to the same.
func TestRelevanceFollowsBothTexts(t *testing.T) {
	t.Parallel()
	f := open(t)
	mine, theirs := f.newFeed(org, named("Jazz", "Concerts")), f.newFeed(org, named("Marathon", "Running"))
	soon := func(d happening.Details) happening.Details {
		d.Instances = on("", time.Hour).Instances
		return d
	}
	id := uuid.New()
	f.onHappening(id, observed(f.source, soon(happening.Details{Title: "Jazz concert"})))
	f.addTo(mine, id, now)
	f.addTo(theirs, id, now)
	expect := func(what string, mineWant, theirsWant bool) {
		t.Helper()
		f.Project()
		for _, tt := range []struct {
			feed uuid.UUID
			want bool
		}{{mine, mineWant}, {theirs, theirsWant}} {
			for title, score := range f.scores(t, tt.feed) {
				assert.Equal(t, score > 0, tt.want, "%s: %q scores %v", what, title, score)
			}
		}
	}
	expect("added", true, false)
	f.onFeed(theirs, feed.Revised{Settings: named("Marathon", "Running and jazz"), At: now})
	expect("the other feed's description changed", true, true)
	f.onFeed(mine, feed.Revised{Settings: named("Theatre", "Plays"), At: now})
	expect("the feed's description changed", false, true)
	f.onHappening(id, revised(f.source, soon(happening.Details{Title: "Plays in the old theatre"})))
	expect("the item is revised", true, false)
	f.onFeed(mine, feed.Revised{Settings: named("The", "of"), At: now})
	f.Project()
	assert.Equal(t, len(f.scores(t, mine)), 0, "scored by stop words alone")
	f.onFeed(mine, feed.Revised{Settings: named("Theatre", "Plays"), At: now})
	expect("described once more", true, false)
	whole := f.Dump(tables...)
	for _, sizes := range [][]int{{1}, {1000}} {
		f.ProjectInBatches(items.ReadModel, sizes...)
		assert.Alike(t, f.Dump(tables...), whole, "in batches of %v", sizes)
	}
}

// Whatever texts there are, each item is scored from 0 to 1, and the same whichever of feed and item came last.
func TestRelevanceOfAnything(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it has one goroutine, and much to do: it is run without the race detector")
	}
	f := open(t)
	words := rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom([]string{
		"jazz", "the", "JAZZ", "' & !(a | b):*", `\'`, `\\`, "a\x00b", "<b>jazz</b>", "<", "&amp;", "&#0;",
		"example.org/a?b=1&c='d'", "me@example.org",
		"\u200b", "İstanbul", "ﬁne", "日本", "-1.5e300", "''", `"`, "$1", "%s", strings.Repeat("x", 3000),
		strings.Repeat("é ", 70_000),
	}), rapid.String()), 0, 12)
	text := rapid.Custom(func(t *rapid.T) string { return strings.Join(words.Draw(t, "words"), " ") })
	rapid.Check(t, func(t *rapid.T) {
		sent := strings.NewReplacer("\x00", "") // no request has it
		settings := named(sent.Replace(text.Draw(t, "name")), sent.Replace(text.Draw(t, "description")))
		details := happening.Details{
			Title:            text.Draw(t, "title"),
			Description:      text.Draw(t, "body"),
			ShortDescription: text.Draw(t, "summary"),
			Location:         &happening.Location{Venue: &happening.Venue{Name: text.Draw(t, "venue")}},
			Organizer:        &happening.Organizer{Name: text.Draw(t, "organizer")},
			Instances:        on("", time.Hour).Instances,
		}
		feedID, id := f.newFeed(org, settings), uuid.New()
		f.onHappening(id, observed(f.source, details))
		f.addTo(feedID, id, now)
		f.Project()
		first := f.scores(t, feedID)
		for _, score := range first {
			if score < 0 || score > 1 {
				t.Fatalf("score %v", score)
			}
		}
		f.onFeed(feedID, feed.Revised{Settings: named("zebra", "giraffe"), At: now}, feed.Revised{
			Settings: settings,
			At:       now,
		})
		f.Project()
		if diff := cmp.Diff(first, f.scores(t, feedID)); diff != "" {
			t.Fatalf("feed first (-), item first (+):\n%s", diff)
		}
	})
}

// A single item shows the score of the list.
func TestRelevanceOfOneItem(t *testing.T) {
	t.Parallel()
	f := open(t)
	feedID, id := f.newFeed(org, named("Jazz", "Concerts")), uuid.New()
	f.onHappening(id, observed(f.source, on("Jazz", time.Hour)))
	f.addTo(feedID, id, now)
	f.Project()
	single, err := f.Item(t.Context(), org, feedID, item.ID(feedID, id), false, now)
	must.OK(t, err)
	var got struct{ RelevanceScore float64 }
	if err := json.Unmarshal(single, &got); err != nil || got.RelevanceScore == 0 ||
		got.RelevanceScore != f.scores(t, feedID)["Jazz"] {
		t.Errorf("%s, %v", single, err)
	}
	off := query.Queries{Pool: f.Pool, WithoutRelevance: true}
	single, err = off.Item(t.Context(), org, feedID, item.ID(feedID, id), false, now)
	assert.True(t, err == nil && !strings.Contains(string(single), "relevance"), "switched off: %s, %v", single, err)
}
