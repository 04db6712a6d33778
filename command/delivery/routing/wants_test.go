package routing

import (
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/subscription"
)

// Packed settings match like the settings, and are stored alike.
func TestWantsMatchAsSettingsDo(t *testing.T) {
	t.Parallel()
	kinds, types := rapid.SampledFrom(subscription.FeedTypes),
		rapid.SampledFrom([]string{"news.item.added", "news.item.updated", "event.item.added", "new"})
	feeds := rapid.Custom(func(t *rapid.T) uuid.UUID {
		return uuid.UUID{rapid.ByteMax(4).Draw(t, "feed"), 15: rapid.ByteMax(1).Draw(t, "last")}
	})
	rapid.Check(t, func(t *rapid.T) {
		s := subscription.Settings{
			EventTypes: rapid.SliceOfN(rapid.SampledFrom([]string{"*", "news.*", "news.item.added", "event.*",
				"none"}), 1, 4).Draw(t, "types"),
			ScopeKind: rapid.SampledFrom([]string{subscription.ScopeAll, subscription.ScopeFeedType,
				subscription.ScopeFeeds}).Draw(t, "scope"),
			FeedType: kinds.Draw(t, "kind"),
		}
		for range rapid.IntRange(0, 8).Draw(t, "pins") {
			s.Feeds = append(s.Feeds, subscription.Pin{FeedType: kinds.Draw(t, "pin kind"),
				FeedID: feeds.Draw(t, "pin")})
		}
		data, err := json.Marshal(wanted(s))
		var read wants
		if err == nil {
			err = json.Unmarshal(data, &read)
		}
		if err != nil || read != wanted(s) || !read.settings().Equal(s) {
			t.Fatalf("stored as %s, read as %+v, %v (%s)", data, read.settings(), err, cmp.Diff(s, read.settings()))
		}
		for range 8 {
			eventType, kind, feed := types.Draw(t, "type"), kinds.Draw(t, "of"), feeds.Draw(t, "from")
			if got, want := read.matches(eventType, kind, feed), s.Matches(eventType, kind, feed); got != want {
				t.Errorf("%s from %s %s: %t, want %t", eventType, kind, feed, got, want)
			}
			pinned := false
			for _, pin := range s.Feeds {
				pinned = pinned || pin.FeedID == feed
			}
			if got := read.PinsFeed(feed); got != pinned {
				t.Errorf("pins %s: %t, want %t", feed, got, pinned)
			}
		}
	})
}
