package delivery

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/subscription"
	"carillon/eventstore"
)

// BenchmarkSubscriptionsInMemory measures what subscriptions cost the dispatcher and the cascade of deletions,
// which each keep all of them. Its figure is MB.
func BenchmarkSubscriptionsInMemory(b *testing.B) {
	large := func(distinct int) func(n int) subscription.Settings {
		return func(n int) (s subscription.Settings) {
			s.ScopeKind = subscription.ScopeFeeds
			for i := range subscription.MaxEventTypes {
				s.EventTypes = append(s.EventTypes, fmt.Sprintf("news.kind%d_%d.*", i, n%distinct))
			}
			for i := range subscription.MaxPins {
				feed := uuid.NewSHA1(uuid.NameSpaceOID, fmt.Appendf(nil, "%d/%d", i, n%distinct))
				s.Feeds = append(s.Feeds, subscription.Pin{FeedType: "news", FeedID: feed})
			}
			return s
		}
	}
	for _, bench := range []struct {
		name     string
		count    int
		settings func(n int) subscription.Settings
	}{
		{"100000 plain", 100_000, func(n int) subscription.Settings {
			return subscription.Settings{ExternalID: fmt.Sprintf("sub-%d", n), EventTypes: []string{"news.*"},
				ScopeKind: subscription.ScopeAll}
		}},
		{"5000 of the largest, equal", 5000, large(1)},
		{"300 of the largest, distinct", 300, large(300)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				dispatcher, cascade := NewRoutes(&eventstore.ProcessState{}), NewRoutes(&eventstore.ProcessState{})
				for n := range bench.count {
					id := uuid.New()
					created := subscription.Created{
						Organization: alice,
						Destination:  uuid.New(),
						Settings:     bench.settings(n),
						At:           noon,
					}
					event := stored(b, subscription.Aggregate, id, subscription.Event(created))
					for _, routes := range []*Routes{dispatcher, cascade} {
						if err := routes.Apply(event); err != nil {
							b.Fatal(err)
						}
					}
				}
				b.ReportMetric(float64(heap()-before)/1e6, "MB")
				runtime.KeepAlive(dispatcher)
				runtime.KeepAlive(cascade)
			}
		})
	}
}

// heap returns the bytes in use after a collection.
func heap() uint64 {
	var stats runtime.MemStats
	for range 2 { // memory freed by a cleanup takes two
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
