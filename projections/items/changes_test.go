package items_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/retirement"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/items"
	"carillon/projections/projecttest"
	"carillon/query"
)

var tables = []string{"items.items", "items.wanted", "items.occurrences", "items.shown", "items.attachments",
	"items.feedback"}

// An item shows the combined view of all sources, also of those that its feed doesn't have. Its location is of the
// feed's own sources.
func TestItemShowsWhatAllSourcesTell(t *testing.T) {
	t.Parallel()
	f := open(t)
	listing, post, foreign, id := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	f.onFeed(f.feed, attached(listing), attached(post))
	observe := func(source uuid.UUID, standing happening.Standing, title, description string) {
		t.Helper()
		details := on(title, day)
		details.Description = description
		f.onHappening(id, happening.Observed{
			SourceID: source,
			Details:  details,
			Source:   happening.Block{Type: "site", URL: title},
			At:       now,
			Standing: standing,
		})
		f.Project()
	}
	expect := func(title, description, from string) {
		t.Helper()
		f.expect(usual(), 1, title)
		in := usual()
		in.Source = true
		page := must.Get(f.Items(t.Context(), org, f.feed, in))(t)
		for _, want := range []string{`"title":"` + title + `"`, `"description":"` + description + `"`,
			`"source":{"type":"site","url":"` + from + `"}`} {
			assert.True(t, strings.Contains(string(page.Items), want), "no %s in %s", want, page.Items)
		}
	}
	observe(post, happening.FromPost, "post", "a long description by the post")
	f.addTo(f.feed, id, now)
	f.Project()
	expect("post", "a long description by the post", "post")
	observe(listing, happening.FromListing, "listing", "")
	expect("listing", "a long description by the post", "listing")
	observe(foreign, happening.FromOwnPage, "own page", "short")
	expect("own page", "short", "listing")
	observe(listing, happening.FromListing, "listing", "longer")
	expect("own page", "longer", "listing")
	f.onHappening(id, happening.WentStale{SourceID: foreign, At: now})
	f.Project()
	expect("listing", "longer", "listing")
	f.onHappening(id, happening.WentStale{SourceID: listing, At: now}, happening.WentStale{SourceID: post, At: now})
	f.Project()
	expect("own page", "longer", "listing") // removal from a page is no cancellation
	f.onFeed(f.feed, feed.SourceDetached{SourceID: listing, At: now})
	f.Project()
	expect("own page", "longer", "post")
}

func TestDetach(t *testing.T) {
	t.Parallel()
	f := open(t)
	other, both := uuid.New(), uuid.New()
	f.onFeed(f.feed, attached(other))
	only := f.add(uuid.New(), on("only here", day))
	f.onHappening(both, happening.Observed{
		SourceID: other,
		Details:  on("elsewhere too", 2*day),
		Source:   happening.Block{Type: "tiktok"},
		At:       now.Add(-time.Second),
	})
	f.add(both, on("here and elsewhere", 2*day))
	f.Project()
	f.expect(usual(), 2, "only here", "elsewhere too")

	f.onFeed(f.feed, feed.SourceDetached{SourceID: f.source, At: now})
	f.Project()
	f.expect(usual(), 1, "elsewhere too") // at once, before the removal is recorded
	assert.Is(t, assert.Err(f.Item(t.Context(), org, f.feed, only, false, now)), query.ErrNotFound,
		"item of a detached source")
	f.onItem(only, item.Removed{FeedID: f.feed, At: now})
	f.Project()
	f.expect(usual(), 1, "elsewhere too")
}

// The process manager may have added an item before it learnt that the source is gone.
func TestAnItemThatComesTooLateIsNotShown(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := uuid.New()
	f.onFeed(f.feed, feed.SourceDetached{SourceID: f.source, At: now})
	late := f.add(id, on("late", day))
	f.Project()
	f.expect(usual(), 0)
	f.onItem(late, item.Removed{FeedID: f.feed, HappeningID: id, At: now})
	f.onFeed(f.feed, attached(f.source))
	f.addTo(f.feed, id, now)
	f.Project()
	f.expect(usual(), 1, "late")
}

func TestRemoveAndAddAgain(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := uuid.New()
	itemID := f.add(id, on("Concert", day))
	f.Project()
	f.expect(usual(), 1, "Concert") // and kept in memory from now on
	f.onItem(itemID, item.Removed{FeedID: f.feed, HappeningID: id, At: now})
	f.onHappening(id, revised(f.source, on("Concerto", day)))
	f.Project()
	f.expect(usual(), 0)
	f.addTo(f.feed, id, now)
	f.onItem(itemID, item.Removed{FeedID: f.feed, HappeningID: id, At: now})
	f.addTo(f.feed, id, now)
	f.Project()
	f.expect(usual(), 1, "Concerto")
}

func TestDeletedFeedLeavesNothing(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.add(uuid.New(), on("Concert", day))
	given := item.FeedbackGiven{
		FeedID:       f.feed,
		FeedbackID:   uuid.New(),
		Organization: org,
		Rating:       item.Positive,
		Comment:      "good",
		At:           now,
	}
	f.onItem(id, given)
	f.Project()
	rows := f.Dump("items.feedback")
	for _, field := range []string{
		`"id": "` + given.FeedbackID.String(), `"item_id": "` + id.String(), `"feed_id": "` + f.feed.String(),
		`"organization": "` + org.String(),
		`"rating": "positive"`, `"comment": "good"`, `"given_at": "2026-11-21T12:00:00`,
	} {
		assert.True(t, strings.Contains(rows, field), "feedback: %s, want %s", rows, field)
	}
	f.onFeed(f.feed, feed.Deleted{At: now})
	f.Project()
	assert.Is(t, assert.Err(f.Items(t.Context(), org, f.feed, usual())), query.ErrNotFound, "items of a deleted feed")
	for _, table := range []string{"items.items", "items.occurrences", "items.attachments", "items.feedback",
		"items.feeds", "items.wanted"} {
		f.Holds(table)
	}
}

// retiredTables are those that retirements change.
var retiredTables = []string{"items.items", "items.occurrences", "items.shown", "items.feedback", "items.merged",
	"items.former", "items.retired_feedback", "items.retirement"}

// retiring records happenings, of which all but one are retired. lost leaves out what the store has lost then.
func retiring(t *testing.T, lost bool) fixture {
	t.Helper()
	f := open(t)
	f.feed, f.source = uuid.NewSHA1(uuid.Nil, []byte("feed")), uuid.NewSHA1(uuid.Nil, []byte("source"))
	gone, merged, stays := uuid.NewSHA1(uuid.Nil, []byte("a")), uuid.NewSHA1(uuid.Nil, []byte("b")),
		uuid.NewSHA1(uuid.Nil, []byte("c"))
	deleted := uuid.NewSHA1(uuid.Nil, []byte("deleted"))
	for _, id := range []uuid.UUID{f.feed, deleted} {
		f.onFeed(id, created(feed.Settings{Name: "Concerts", Description: "In town"}), attached(f.source))
	}
	for _, id := range []uuid.UUID{gone, merged, stays} {
		if lost && id != stays {
			continue
		}
		itemID := f.add(id, on("Concert", day))
		f.onItem(itemID, feedbackOn(f.feed, id, "1"), feedbackOn(f.feed, id, "2"))
		f.onItem(f.addTo(deleted, id, now), feedbackOn(deleted, id, "3"))
	}
	if !lost {
		f.onHappening(merged, happening.Merged{Into: gone, At: now})
		f.onItem(item.ID(f.feed, merged), item.Removed{FeedID: f.feed, HappeningID: merged, At: now})
	}
	f.onFeed(deleted, feed.Deleted{At: now})
	projecttest.Stream(f.Log, retirement.Aggregate, retirement.HappeningsLogID, now)(retirement.HappeningsRetired{
		Batch:      uuid.NewSHA1(uuid.Nil, []byte("batch")),
		Before:     now,
		Happenings: []retirement.Happening{{ID: gone, In: []int{0, 1}}, {ID: merged, In: []int{0, 1}}},
		Feeds:      []uuid.UUID{f.feed, deleted},
		Feedback: []retirement.Feedback{
			counted(0, 4),
			counted(1, 2),
		},
		At: now,
	})
	f.Project()
	return f
}

func counted(in int, n int64) retirement.Feedback {
	return retirement.Feedback{
		In:           in,
		Organization: org,
		Day:          "2026-11-21",
		Rating:       item.Positive,
		Count:        n,
	}
}

func feedbackOn(of, happening uuid.UUID, n string) item.FeedbackGiven {
	return item.FeedbackGiven{
		FeedID:       of,
		FeedbackID:   uuid.NewSHA1(happening, []byte(n)),
		Organization: org,
		Rating:       item.Positive,
		At:           now,
	}
}

// Whether the events of retired happenings are still in the log or not, and however it is cut into batches, the read
// model is the same.
func TestRetired(t *testing.T) {
	t.Parallel()
	f := retiring(t, false)
	for table, want := range map[string]int{
		"items": 1, "shown": 1, "merged": 0, "occurrences": 1, "feedback": 2, "retired_feedback": 1, "former": 1,
	} {
		var n int
		err := f.Pool.QueryRow(t.Context(), "SELECT count(*) FROM items."+table).Scan(&n)
		assert.True(t, err == nil && n == want, "%d rows of %s, want %d; %v", n, table, want, err)
	}
	whole := f.Dump(retiredTables...)
	for _, sizes := range [][]int{{1}, {2, 5, 3}} {
		f.ProjectInBatches(items.ReadModel, sizes...)
		assert.Alike(t, f.Dump(retiredTables...), whole, "in batches of %v", sizes)
	}
	assert.Same(t, projecttest.Placeless(retiring(t, true).Dump(retiredTables...)), projecttest.Placeless(whole))
}

// The happenings that have ended are found in the order of their ends.
func TestEnded(t *testing.T) {
	t.Parallel()
	f := open(t)
	first, second, coming, undated := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	for id, starts := range map[uuid.UUID][]time.Duration{
		first:   {-9 * day},
		second:  {-8 * day},
		coming:  {-9 * day, day},
		undated: nil,
	} {
		seen := observed(f.source, on("Concert", starts...))
		seen.At = now.Add(-10 * day)
		f.onHappening(id, seen)
	}
	f.onHappening(undated, happening.WentStale{SourceID: f.source, At: now.Add(-7 * day)})
	f.Project()
	page, revision, err := f.Ended(t.Context(), now.Add(-day), retirement.Old{}, 10)
	var ids []uuid.UUID
	for _, p := range page {
		ids = append(ids, p.ID)
	}
	if diff := cmp.Diff([]uuid.UUID{first, second, undated}, ids); diff != "" || revision != -1 || err != nil {
		t.Errorf("ended (-want +got), revision %d, %v:\n%s", revision, err, diff)
	}
	page, _, err = f.Ended(t.Context(), now.Add(-day), page[0], 1)
	assert.True(t, len(page) == 1 && page[0].ID == second && err == nil, "after the first: %v, %v", page, err)
}
