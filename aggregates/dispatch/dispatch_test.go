package dispatch_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
)

var (
	noon      = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	event     = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	scheduled = dispatch.DeliveriesScheduled{
		Publication: event,
		Event: dispatch.Summary{
			Type:     "news.item.added",
			Source:   "/feeds/news/5",
			Subject:  "item/7",
			Time:     noon,
			FeedType: "news",
			FeedID:   uuid.MustParse("22222222-2222-4222-8222-222222222222"),
		},
		Deliveries: []dispatch.Scheduled{{
			Destination:   uuid.MustParse("33333333-3333-4333-8333-333333333333"),
			Organization:  uuid.MustParse("44444444-4444-4444-8444-444444444444"),
			Subscriptions: []uuid.UUID{uuid.MustParse("55555555-5555-4555-8555-555555555555")},
			NotBefore:     noon.Add(time.Minute),
			Supersedes:    uuid.MustParse("66666666-6666-4666-8666-666666666666"),
			Worker:        7,
			LeasedUntil:   noon.Add(90 * time.Second),
		}},
		At: noon,
	}
)

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[dispatch.Event](t, dispatch.Events, scheduled)
}

func TestSchedule_oncePerDestination(t *testing.T) {
	t.Parallel()
	more, want := scheduled, scheduled
	late := dispatch.Scheduled{Destination: uuid.MustParse("77777777-7777-4777-8777-777777777777"),
		Organization: scheduled.Deliveries[0].Organization}
	more.Deliveries = append([]dispatch.Scheduled{late}, scheduled.Deliveries...)
	want.Deliveries = []dispatch.Scheduled{late}
	aggregatetest.Stream(t, dispatch.Aggregate).
		When(dispatch.Schedule{DeliveriesScheduled: scheduled}).Then(scheduled).
		When(dispatch.Schedule{DeliveriesScheduled: more}).Then(want)
}

func TestSchedule_noDeliveries(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, dispatch.Aggregate).When(dispatch.Schedule{}).Then()
}

func TestDeliveryID(t *testing.T) {
	t.Parallel()
	a, b := uuid.New(), uuid.New()
	id, again, other := dispatch.DeliveryID(a, b), dispatch.DeliveryID(a, b), dispatch.DeliveryID(b, a)
	assert.True(t, id == again && id != other, "delivery ids must be derived from event and destination, in this order")
}
