package retire //nolint:testpackage // the decision is not exported

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/retirement"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	event = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	feed  = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	alpha = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001") // destinations of two organizations
	beta  = uuid.MustParse("bbbbbbbb-0000-4000-8000-000000000002")
	one   = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	other = uuid.MustParse("44444444-4444-4444-8444-444444444444")
)

func attempted(number int, at time.Time, status delivery.Status, outcome delivery.Outcome) delivery.Attempted {
	return delivery.Attempted{
		Number:  number,
		Trigger: delivery.Automatic,
		At:      at,
		Status:  status,
		Outcome: outcome,
	}
}

var (
	taken   = delivery.Outcome{ResponseStatus: 200, DurationMicros: 1234}
	refused = delivery.Outcome{ResponseStatus: 500, FailureReason: "http_status", DurationMicros: 98_765}
)

// sent is an event with a delivery to each of two organizations.
func sent(toAlpha, toBeta []delivery.Event) *published {
	return &published{
		id: event,
		at: noon,
		dispatched: []dispatch.DeliveriesScheduled{{
			Publication: event,
			Event:       dispatch.Summary{Type: "news.item.added", FeedID: feed},
			Deliveries: []dispatch.Scheduled{
				{Destination: alpha, Organization: one},
				{Destination: beta, Organization: other},
			},
			At: noon,
		}},
		deliveries: map[uuid.UUID][]delivery.Event{
			dispatch.DeliveryID(event, alpha): toAlpha,
			dispatch.DeliveryID(event, beta):  toBeta,
		},
		deleted: map[uuid.UUID]struct{}{},
	}
}

func TestOver(t *testing.T) {
	t.Parallel()
	arrived := []delivery.Event{attempted(1, noon, delivery.StatusSucceeded, taken)}
	gaveUp := attempted(1, noon, delivery.StatusFailed, refused)
	replay := delivery.ReplayRequested{Replay: uuid.New(), At: noon}
	before := noon.Add(time.Hour)
	for name, c := range map[string]struct {
		toBeta []delivery.Event
		before time.Time
		change func(p *published)
		want   bool
	}{
		"all ended":       {toBeta: []delivery.Event{gaveUp}, want: true},
		"not attempted":   {},
		"to be retried":   {toBeta: []delivery.Event{attempted(1, noon, delivery.StatusPending, refused)}},
		"to be replayed":  {toBeta: []delivery.Event{gaveUp, replay}},
		"replay dropped":  {toBeta: []delivery.Event{gaveUp, replay, delivery.ReplayDropped{At: noon}}, want: true},
		"superseded":      {toBeta: []delivery.Event{delivery.Superseded{At: noon}}, want: true},
		"discarded":       {toBeta: []delivery.Event{delivery.Discarded{At: noon}}, want: true},
		"pending again":   {toBeta: []delivery.Event{delivery.Discarded{At: noon}, delivery.Reinstated{At: noon}}},
		"replayed lately": {toBeta: []delivery.Event{gaveUp, attempted(2, before, delivery.StatusFailed, refused)}},
		"its destination is deleted": {
			change: func(p *published) { p.deleted[beta] = struct{}{} },
			want:   true,
		},
		"published lately": {toBeta: arrived, change: func(p *published) { p.at = before }},
		"backfilled lately": {
			toBeta: arrived,
			change: func(p *published) { p.dispatched[0].At = before },
		},
		"nobody wanted it": {change: func(p *published) { p.dispatched = nil }, want: true},
	} {
		p := sent(arrived, c.toBeta)
		if c.change != nil {
			c.change(p)
		}
		assert.Equal(t, p.over(before), c.want, "%s: over", name)
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	b := newBatch(noon.AddDate(1, 0, 0))
	failedTwice := []delivery.Event{
		attempted(1, noon, delivery.StatusPending, refused),
		attempted(2, noon.Add(time.Minute), delivery.StatusPending, refused),
		attempted(3, noon.AddDate(0, 0, 1), delivery.StatusSucceeded, taken),
	}
	must.True(t, b.add(sent([]delivery.Event{attempted(1, noon, delivery.StatusSucceeded, taken)}, failedTwice)),
		"there was no room")
	if !b.add(sent([]delivery.Event{attempted(1, noon, delivery.StatusFailed, refused)},
		[]delivery.Event{delivery.Superseded{At: noon}})) {
		t.Fatal("there was no room for another one")
	}
	want := retirement.Retired{
		Batch:        b.retired.Batch,
		Before:       noon.AddDate(1, 0, 0),
		Publications: []retirement.Publication{{ID: event, To: []int{0, 1}}, {ID: event, To: []int{0, 1}}},
		Destinations: []retirement.Destination{{ID: alpha, Organization: one}, {ID: beta, Organization: other}},
		Outcomes: []retirement.Outcomes{
			{
				To:        0,
				Day:       "2026-11-21",
				Type:      "news.item.added",
				FeedID:    feed,
				Succeeded: 1,
				Failed:    1,
			},
			{
				To:         1,
				Day:        "2026-11-21",
				Type:       "news.item.added",
				FeedID:     feed,
				Succeeded:  1,
				Superseded: 1,
			},
		},
		Attempts: []retirement.Attempts{
			{
				To:             0,
				Day:            "2026-11-21",
				ResponseStatus: 200,
				DurationMicros: 1200,
				Count:          1,
			},
			{
				To:             1,
				Day:            "2026-11-21",
				FailureReason:  "http_status",
				ResponseStatus: 500,
				DurationMicros: 99_000,
				Count:          2,
				Deliveries:     1,
				LastAt:         noon.Add(time.Minute),
			},
			{
				To:             1,
				Day:            "2026-11-22",
				ResponseStatus: 200,
				DurationMicros: 1200,
				Count:          1,
			},
			{
				To:             0,
				Day:            "2026-11-21",
				FailureReason:  "http_status",
				ResponseStatus: 500,
				DurationMicros: 99_000,
				Count:          1,
				Deliveries:     1,
				LastAt:         noon,
			},
		},
	}
	if diff := cmp.Diff(want, b.retired); diff != "" || b.retired.Batch == uuid.Nil {
		t.Errorf("batch (-want +got):\n%s", diff)
	}
}

// However many deliveries events have, what is recorded of them fits into an append, or the event stays.
func TestBatchFitsAppend(t *testing.T) {
	t.Parallel()
	for deliveries, most := range map[int]int{1: 1000, 100: 20, 500: 4, 5000: 0} {
		b, fits := newBatch(noon.AddDate(100, 0, 0)), 0
		for ; fits <= most && b.add(sentTo(deliveries, fits)); fits++ { //nolint:revive // until it is full
		}
		_, data, err := retirement.Events.Encode(b.retired)
		if err != nil || len(data) > 1<<20 || fits > most || fits == 0 && most > 0 {
			t.Errorf("%d events of %d deliveries take %d bytes, %v", fits, deliveries, len(data), err)
		}
	}
}

// sentTo is an event with deliveries to other destinations than any other one.
func sentTo(deliveries, number int) *published {
	p := sent(nil, nil)
	p.dispatched[0].Deliveries = nil
	for i := range deliveries {
		to := uuid.NewSHA1(feed, fmt.Append(nil, number, i))
		scheduled := dispatch.Scheduled{Destination: to, Organization: one}
		p.dispatched[0].Deliveries = append(p.dispatched[0].Deliveries, scheduled)
		p.deliveries[dispatch.DeliveryID(event, to)] = []delivery.Event{
			attempted(1, noon.AddDate(0, 0, i), delivery.StatusPending, refused),
			attempted(2, noon.AddDate(0, 0, i), delivery.StatusFailed, refused),
		}
	}
	return p
}

func TestHappeningBatch(t *testing.T) {
	t.Parallel()
	root, member := uuid.New(), uuid.New()
	site, page := uuid.New(), uuid.New()
	sightings := func(keys ...happening.SightingKey) happening.State {
		s := happening.State{Sightings: map[happening.SightingKey]happening.Sighting{}}
		for _, from := range keys {
			s.Sightings[from] = happening.Sighting{}
		}
		return s
	}
	given := func(by uuid.UUID) item.FeedbackGiven {
		return item.FeedbackGiven{
			FeedID:       feed,
			Organization: by,
			Rating:       item.Positive,
			At:           noon,
		}
	}
	counted := func(by uuid.UUID, n int64) retirement.Feedback {
		return retirement.Feedback{
			Organization: by,
			Day:          "2026-11-21",
			Rating:       item.Positive,
			Count:        n,
		}
	}
	g := group{
		{
			id:    root,
			state: sightings(happening.SightingKey{Source: site}, happening.SightingKey{Source: page, Of: member}),
			items: []itemStream{{feed, []item.Event{
				item.Added{FeedID: feed, SourceID: site, Backfill: true},
				given(one),
				given(one),
				given(other),
			}}},
		},
		{
			id:    member,
			state: sightings(happening.SightingKey{Source: page}, happening.SightingKey{Source: site}),
			items: []itemStream{{feed, []item.Event{
				item.Added{FeedID: feed, SourceID: page},
				item.Removed{},
				item.Added{FeedID: feed, SourceID: site, Backfill: true},
			}}},
		},
	}
	b := newHappeningBatch(noon.AddDate(1, 0, 0))
	for range 2 { // the second time it is another sighting of it
		must.True(t, b.add(g), "there was no room")
	}
	want := retirement.HappeningsRetired{
		Batch:      b.retired.Batch,
		Before:     noon.AddDate(1, 0, 0),
		Happenings: []retirement.Happening{{ID: root, In: []int{0}}, {ID: member, In: []int{0}}},
		Feeds:      []uuid.UUID{feed},
		Shown:      []retirement.Shown{{SourceID: site, Happenings: 2}, {SourceID: page, Happenings: 1}},
		Feedback: []retirement.Feedback{
			counted(one, 2),
			counted(other, 1),
		},
	}
	if diff := cmp.Diff(want, b.retired); diff != "" || b.retired.Batch == uuid.Nil {
		t.Errorf("batch (-want +got):\n%s", diff)
	}
	assert.Same(t, b.filled, []retirement.Filled{{Feed: feed, Source: site}})
}

// However much was merged, what is recorded of it fits into an append, or it stays.
func TestHappeningBatchFitsAppend(t *testing.T) {
	t.Parallel()
	b := newHappeningBatch(noon)
	for len(b.retired.Happenings) < 100_000 {
		id := uuid.New()
		g := group{{id: id, items: []itemStream{{uuid.New(), []item.Event{
			item.Added{FeedID: uuid.New(), SourceID: uuid.New(), Backfill: true},
			item.FeedbackGiven{Organization: uuid.New(), Rating: item.Negative, At: noon},
		}}}, state: happening.State{Sightings: map[happening.SightingKey]happening.Sighting{{Source: uuid.New()}: {}}}}}
		if !b.add(g) {
			break
		}
	}
	for _, f := range b.filled {
		b.retired.Backfills = append(b.retired.Backfills, retirement.Backfill{
			In:         100_000,
			SourceID:   f.Source,
			AttachedAt: noon.Add(123456),
			Added:      100_000,
		})
	}
	_, data, err := retirement.Events.Encode(b.retired)
	assert.True(t, err == nil && len(data) <= 1<<20 && len(data) >= 1<<19,
		"%d happenings take %d bytes, %v", len(b.retired.Happenings), len(data), err)
}
