package subscriptions_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/destination"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
	"carillon/projections"
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

func pinned(t *testing.T, log *projecttest.Log, want ...string) {
	t.Helper()
	dump := "# subscriptions.pins\n"
	for _, line := range want {
		dump += line + "\n"
	}
	if diff := cmp.Diff(dump, log.Dump("subscriptions.pins")); diff != "" {
		t.Errorf("pins (-want +got):\n%s", diff)
	}
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
	want := `# subscriptions.subscriptions
{"id": "00000000-0000-4000-8000-000000000001", "feeds": [{"feedId": "77777777-7777-4777-8777-777777777777", ` +
		`"feedType": "news"}, ` +
		`{"feedId": "66666666-6666-4666-8666-666666666666", "feedType": "news"}], "active": false, ` +
		`"reason": "the feed is not shared any more", "revision": 1, ` +
		`"feed_type": null, ` +
		`"created_at": "2026-11-21T12:00:00+00:00", "scope_kind": "feeds", "updated_at": "2026-11-21T12:01:00+00:00", ` +
		`"destination": "aaaaaaaa-0000-4000-8000-000000000001", "event_types": ["news.*", "a \"quoted\", {type}"], ` +
		`"external_id": "all-news", ` +
		`"organization": "11111111-1111-4111-8111-111111111111"}
`
	if diff := cmp.Diff(want, log.Dump("subscriptions.subscriptions")); diff != "" {
		t.Errorf("subscription (-want +got):\n%s", diff)
	}
	pinned(t, log, pin(city, one), pin(town, one))

	happens(subscription.Revised{Settings: pins(town), At: noon}, subscription.Activated{At: noon})
	log.Project()
	pinned(t, log, pin(town, one))
	happens(subscription.Revised{
		Settings: subscription.Settings{EventTypes: []string{"*"}, ScopeKind: subscription.ScopeFeedType, FeedType: "event"},
		At:       noon,
	})
	log.Project()
	pinned(t, log)
	want = `# subscriptions.subscriptions
{"id": "00000000-0000-4000-8000-000000000001", "feeds": [], "active": true, "reason": null, "revision": 4, ` +
		`"feed_type": "event", ` +
		`"created_at": "2026-11-21T12:00:00+00:00", "scope_kind": "feed_type", "updated_at": "2026-11-21T12:00:00+00:00", ` +
		`"destination": "aaaaaaaa-0000-4000-8000-000000000001", "event_types": ["*"], "external_id": null, ` +
		`"organization": "11111111-1111-4111-8111-111111111111"}
`
	if diff := cmp.Diff(want, log.Dump("subscriptions.subscriptions")); diff != "" {
		t.Errorf("revised subscription (-want +got):\n%s", diff)
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
	pinned(t, log, pin(city, two))
	projecttest.Stream(log, destination.Aggregate, beta, noon)(destination.Deleted{At: noon})
	projecttest.Stream(log, subscription.Aggregate, two, noon)(subscription.Deleted{At: noon}) // with its destination
	for _, size := range []int{1, 2, 500} {
		log.ProjectInBatches(subscriptions.ReadModel, size)
		if diff := cmp.Diff("# subscriptions.subscriptions\n# subscriptions.pins\n", log.Dump("subscriptions.subscriptions",
			"subscriptions.pins")); diff != "" {
			t.Errorf("in batches of %d (-want +got):\n%s", size, diff)
		}
	}
}

// TestHoweverTheEventsAreBatched holds the fold against the same events one by one.
func TestHoweverTheEventsAreBatched(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, subscriptions.ReadModel)
	tables := []string{"subscriptions.subscriptions", "subscriptions.pins"}
	rapid.Check(t, func(r *rapid.T) {
		log.Clear()
		states := map[uuid.UUID]subscription.State{}
		for range rapid.IntRange(2, 25).Draw(r, "commands") {
			id := rapid.SampledFrom([]uuid.UUID{one, two, city}).Draw(r, "subscription")
			of := rapid.SampledFrom([]uuid.UUID{alpha, beta}).Draw(r, "destination")
			var command subscription.Command
			switch rapid.IntRange(0, 6).Draw(r, "command") {
			case 0, 1, 2:
				command = subscription.Create{
					Organization: org,
					Destination:  of,
					Settings:     validPins(r),
					At:           noon,
				}
			case 3, 4:
				d := validPins(r)
				command = subscription.Revise{
					Organization: org,
					Destination:  of,
					Feeds:        &d.Feeds,
					Active:       new(rapid.Bool().Draw(r, "active")),
					At:           noon,
				}
			case 5:
				command = subscription.Deactivate{Reason: "not shared any more", At: noon}
			case 6:
				if rapid.IntRange(0, 3).Draw(r, "which") == 0 {
					projecttest.Stream(log, destination.Aggregate, of, noon)(destination.Deleted{At: noon})
					continue
				}
				command = subscription.Delete{Organization: org, Destination: of, At: noon}
			}
			events, err := subscription.Aggregate.Decide(states[id], command)
			if err != nil {
				continue // refused
			}
			for _, event := range events {
				states[id] = subscription.Aggregate.Evolve(states[id], event)
			}
			projecttest.Stream(log, subscription.Aggregate, id, noon)(events...)
		}
		log.ProjectInBatches(subscriptions.ReadModel, 1)
		want := log.Dump(tables...)
		log.ProjectInBatches(subscriptions.ReadModel, rapid.SliceOfN(rapid.IntRange(1, 20), 1, 3).Draw(r, "batch sizes")...)
		if diff := cmp.Diff(want, log.Dump(tables...)); diff != "" {
			r.Fatalf("in batches (+) it comes out otherwise than one by one (-):\n%s", diff)
		}
	})
}

func validPins(r *rapid.T) subscription.Settings {
	d := pins(rapid.SliceOfNDistinct(rapid.SampledFrom([]uuid.UUID{city, town, alpha}), 1, 3, rapid.ID).Draw(r,
		"feeds")...)
	d.EventTypes = []string{"news.*"}
	return d
}

func TestUnknownEventStops(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, subscriptions.ReadModel)
	for _, stream := range []string{"subscription-", "destination-"} {
		err := log.ProjectError(subscriptions.ReadModel, eventstore.Recorded{
			Stream: stream + one.String(),
			Type:   "subscription.paused.v1",
			Data:   []byte("{}"),
		})
		if !errors.Is(err, eventstore.ErrUndecodable) {
			t.Errorf("%s: error = %v, want one that is ErrUndecodable", stream, err)
		}
	}
}

// BenchmarkRebuild applies creations with three pins and a revision each.
func BenchmarkRebuild(b *testing.B) {
	const size = 20_000
	log := projecttest.New(b, subscriptions.ReadModel)
	for range size / 2 {
		projecttest.Stream(log, subscription.Aggregate, uuid.New(), noon)(
			subscription.Created{
				Organization: org,
				Destination:  alpha,
				Settings:     pins(city, town, uuid.New()),
				At:           noon,
			},
			subscription.Revised{Settings: pins(city, town), At: noon})
	}
	for b.Loop() {
		log.ProjectInBatches(subscriptions.ReadModel, projections.MaxBatch)
	}
	b.ReportMetric(size*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
