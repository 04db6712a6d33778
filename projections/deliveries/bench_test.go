package deliveries_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/projections"
	"carillon/projections/deliveries"
	"carillon/projections/projecttest"
)

// BenchmarkRebuild applies a history of succeeded deliveries in full batches.
//
//	fan-out  deliveries of each published event
//	lag      events between the scheduling of a delivery and its attempt: within a batch, or beyond it
func BenchmarkRebuild(b *testing.B) {
	for _, fanOut := range []int{1, 10} {
		for _, lag := range []int{20, 2000} {
			b.Run(fmt.Sprintf("fan-out=%d/lag=%d", fanOut, lag), func(b *testing.B) {
				const size = 40_000
				log := projecttest.New(b, deliveries.ReadModel)
				steadyHistory(log, size, fanOut, lag)
				for b.Loop() {
					log.ProjectInBatches(deliveries.ReadModel, projections.MaxBatch)
				}
				b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
				made := size - size/(fanOut+1)
				b.ReportMetric(float64(made)*float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
			})
		}
	}
}

// steadyHistory records events of 10 destinations (or as many as the fan-out), each attempted with success.
func steadyHistory(log *projecttest.Log, size, fanOut, lag int) { // until the log has that size
	destinations, subscription, feed := make([]uuid.UUID, max(10, fanOut)), uuid.New(), uuid.New()
	for i := range destinations {
		destinations[i] = uuid.New()
	}
	type sent struct{ id, destination uuid.UUID }
	var (
		waiting []sent
		at      = noon
	)
	for published := 0; len(log.Events()) < size; published++ {
		at = at.Add(100 * time.Microsecond)
		if len(waiting) >= lag || len(log.Events())+len(waiting) >= size {
			next := waiting[0]
			waiting = waiting[1:]
			projecttest.Stream(log, delivery.Aggregate, next.id, at)(delivery.Attempted{
				Organization: org,
				Destination:  next.destination,
				Number:       1,
				Trigger:      delivery.Automatic,
				Status:       delivery.StatusSucceeded,
				Outcome:      delivery.Outcome{ResponseStatus: 200, ResponseBody: make([]byte, 40), DurationMicros: 1800},
				At:           at,
			})
			continue
		}
		event := uuid.New()
		scheduled := dispatch.DeliveriesScheduled{
			Publication: event, At: at,
			Event: dispatch.Summary{
				Type:     "news.item.added",
				Source:   "https://example.org/feeds/city",
				Subject:  "item/" + event.String(),
				Time:     at,
				FeedType: "news",
				FeedID:   feed,
			},
		}
		for i := range fanOut {
			destination := destinations[(published+i)%len(destinations)]
			scheduled.Deliveries = append(scheduled.Deliveries, dispatch.Scheduled{
				Destination:   destination,
				Organization:  org,
				Subscriptions: []uuid.UUID{subscription},
				Worker:        1,
				LeasedUntil:   at.Add(time.Minute),
			})
			waiting = append(waiting, sent{dispatch.DeliveryID(event, destination), destination})
		}
		projecttest.Stream(log, dispatch.Aggregate, event, at)(scheduled)
	}
}
