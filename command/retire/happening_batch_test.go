package retire //nolint:testpackage // the decision is not exported

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/retirement"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

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
