package items_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
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
		page, err := f.Items(t.Context(), org, f.feed, in)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{`"title":"` + title + `"`, `"description":"` + description + `"`,
			`"source":{"type":"site","url":"` + from + `"}`} {
			if !strings.Contains(string(page.Items), want) {
				t.Errorf("no %s in %s", want, page.Items)
			}
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
	if _, err := f.Item(t.Context(), org, f.feed, only, false, now); !errors.Is(err, query.ErrNotFound) {
		t.Errorf("item of a detached source: %v, want not found", err)
	}
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
		if !strings.Contains(rows, field) {
			t.Errorf("feedback: %s, want %s", rows, field)
		}
	}
	f.onFeed(f.feed, feed.Deleted{At: now})
	f.Project()
	if _, err := f.Items(t.Context(), org, f.feed, usual()); !errors.Is(err, query.ErrNotFound) {
		t.Errorf("items of a deleted feed: %v, want not found", err)
	}
	for _, table := range []string{"items.items", "items.occurrences", "items.attachments", "items.feedback",
		"items.feeds", "items.wanted"} {
		f.Holds(table)
	}
}
