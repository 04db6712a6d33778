package subscriptions_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/subscription"
	"carillon/projections/projecttest"
	"carillon/projections/subscriptions"
)

var (
	org   = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	alpha = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001") // destinations
	beta  = uuid.MustParse("bbbbbbbb-0000-4000-8000-000000000002")
	one   = uuid.MustParse("00000000-0000-4000-8000-000000000001") // subscriptions
	two   = uuid.MustParse("00000000-0000-4000-8000-000000000002")
	city  = uuid.MustParse("66666666-6666-4666-8666-666666666666") // feeds
	town  = uuid.MustParse("77777777-7777-4777-8777-777777777777")
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

func pins(feeds ...uuid.UUID) subscription.Settings {
	d := subscription.Settings{
		ExternalID: "all-news",
		EventTypes: []string{"news.*", `a "quoted", {type}`},
		ScopeKind:  subscription.ScopeFeeds,
	}
	for _, id := range feeds {
		d.Feeds = append(d.Feeds, subscription.Pin{FeedType: "news", FeedID: id})
	}
	return d
}

func pin(feed, subscription uuid.UUID) string {
	return fmt.Sprintf(`{"feed_id": "%s", "feed_type": "news", "subscription": "%s"}`, feed, subscription)
}

func TestRows(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, subscriptions.ReadModel)
	happens := projecttest.Stream(log, subscription.Aggregate, one, noon)
	happens(subscription.Created{
		Organization: org,
		Destination:  alpha,
		Settings:     pins(town, city),
		At:           noon,
	},
		subscription.Deactivated{Reason: "the feed is not shared any more", At: noon.Add(time.Minute)})
	log.Project()
	log.Holds("subscriptions.subscriptions", `{"id": "00000000-0000-4000-8000-000000000001", `+
		`"feeds": [{"feedId": "77777777-7777-4777-8777-777777777777", `+
		`"feedType": "news"}, `+
		`{"feedId": "66666666-6666-4666-8666-666666666666", "feedType": "news"}], "active": false, `+
		`"reason": "the feed is not shared any more", "revision": 1, `+
		`"feed_type": null, `+
		`"created_at": "2026-11-21T12:00:00+00:00", "scope_kind": "feeds", "updated_at": "2026-11-21T12:01:00+00:00", `+
		`"destination": "aaaaaaaa-0000-4000-8000-000000000001", "event_types": ["news.*", "a \"quoted\", {type}"], `+
		`"external_id": "all-news", `+
		`"organization": "11111111-1111-4111-8111-111111111111"}`)
	log.Holds("subscriptions.pins", pin(city, one), pin(town, one))

	happens(subscription.Revised{Settings: pins(town), At: noon}, subscription.Activated{At: noon})
	log.Project()
	log.Holds("subscriptions.pins", pin(town, one))
	happens(subscription.Revised{
		Settings: subscription.Settings{EventTypes: []string{"*"}, ScopeKind: subscription.ScopeFeedType, FeedType: "event"},
		At:       noon,
	})
	log.Project()
	log.Holds("subscriptions.pins")
	log.Holds("subscriptions.subscriptions", `{"id": "00000000-0000-4000-8000-000000000001", `+
		`"feeds": [], "active": true, "reason": null, "revision": 4, `+
		`"feed_type": "event", `+
		`"created_at": "2026-11-21T12:00:00+00:00", "scope_kind": "feed_type", "updated_at": "2026-11-21T12:00:00+00:00", `+
		`"destination": "aaaaaaaa-0000-4000-8000-000000000001", "event_types": ["*"], "external_id": null, `+
		`"organization": "11111111-1111-4111-8111-111111111111"}`)
	for _, size := range []int{2, 3, 500} {
		log.SameInBatches(t, subscriptions.ReadModel, []int{size}, "subscriptions.subscriptions", "subscriptions.pins")
	}
}

func TestDeleted(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, subscriptions.ReadModel)
	for id, of := range map[uuid.UUID]uuid.UUID{one: alpha, two: beta} {
		projecttest.Stream(log, subscription.Aggregate, id, noon)(subscription.Created{
			Organization: org,
			Destination:  of,
			Settings:     pins(city),
			At:           noon,
		})
	}
	log.Project()
	projecttest.Stream(log, subscription.Aggregate, one, noon)(subscription.Deleted{At: noon})
	log.Project()
	log.Holds("subscriptions.pins", pin(city, two))
	projecttest.Stream(log, destination.Aggregate, beta, noon)(destination.Deleted{At: noon})
	projecttest.Stream(log, subscription.Aggregate, two, noon)(subscription.Deleted{At: noon}) // with its destination
	for _, size := range []int{1, 2, 500} {
		log.ProjectInBatches(subscriptions.ReadModel, size)
		log.Holds("subscriptions.subscriptions")
		log.Holds("subscriptions.pins")
	}
}
