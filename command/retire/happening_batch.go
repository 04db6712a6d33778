package retire

import (
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/retirement"
	"carillon/eventstore"
)

// happeningBatch is a retirement of happenings in the making.
type happeningBatch struct {
	retired  retirement.HappeningsRetired
	have     map[uuid.UUID]struct{} // happenings
	feeds    map[uuid.UUID]int      // their indexes
	shown    map[uuid.UUID]int      // by source
	feedback map[retirement.Feedback]int
	filled   []retirement.Filled // by the backfills of which items came
	fills    map[retirement.Filled]struct{}
	weight   int
	// curated is a position up to which all happenings are in their feeds.
	curated eventstore.Position
}

func newHappeningBatch(before time.Time) *happeningBatch {
	return &happeningBatch{
		retired:  retirement.HappeningsRetired{Batch: uuid.New(), Before: before},
		have:     map[uuid.UUID]struct{}{},
		feeds:    map[uuid.UUID]int{},
		shown:    map[uuid.UUID]int{},
		feedback: map[retirement.Feedback]int{},
		fills:    map[retirement.Filled]struct{}{},
	}
}

// bytes of JSON, at most.
const (
	happeningWeight = 60
	itemWeight      = 220 // with its feed and the source of its backfill
	shownWeight     = 90
	feedbackWeight  = 160
)

// add adds a group that is over. It reports false if the batch has no room for it.
func (b *happeningBatch) add(g group) bool {
	if _, twice := b.have[g[0].id]; twice {
		return true // another sighting of it is on the same page
	}
	weight := 0
	for i := range g {
		weight += happeningWeight + len(g[i].state.Sightings)*shownWeight
		for _, stream := range g[i].items {
			weight += itemWeight + len(stream.events)*feedbackWeight
		}
	}
	if b.weight+weight > maxWeight {
		return false
	}
	b.weight += weight
	for i := range g {
		b.count(&g[i])
	}
	return true
}

// count adds a happening with its items.
func (b *happeningBatch) count(m *member) {
	b.have[m.id] = struct{}{}
	for from := range m.state.Sightings {
		if from.Of == uuid.Nil {
			b.retired.Shown[b.source(from)].Happenings++
		}
	}
	of := retirement.Happening{ID: m.id}
	for _, stream := range m.items {
		in := b.feed(stream.feed)
		of.In = append(of.In, in)
		for _, event := range stream.events {
			switch e := event.(type) {
			case item.Added:
				b.added(e)
			case item.FeedbackGiven:
				b.given(in, e)
			case item.Removed:
			}
		}
	}
	b.retired.Happenings = append(b.retired.Happenings, of)
}

func (b *happeningBatch) source(from happening.SightingKey) int {
	at, known := b.shown[from.Source]
	if !known {
		at = len(b.retired.Shown)
		b.shown[from.Source] = at
		b.retired.Shown = append(b.retired.Shown, retirement.Shown{SourceID: from.Source})
	}
	return at
}

func (b *happeningBatch) feed(id uuid.UUID) int {
	at, known := b.feeds[id]
	if !known {
		at = len(b.retired.Feeds)
		b.feeds[id] = at
		b.retired.Feeds = append(b.retired.Feeds, id)
	}
	return at
}

func (b *happeningBatch) added(e item.Added) {
	by := retirement.Filled{Feed: e.FeedID, Source: e.SourceID}
	if _, known := b.fills[by]; e.Backfill && !known {
		b.fills[by] = struct{}{}
		b.filled = append(b.filled, by)
	}
}

func (b *happeningBatch) given(in int, e item.FeedbackGiven) {
	key := retirement.Feedback{
		In:           in,
		Organization: e.Organization,
		Day:          day(e.At),
		Rating:       e.Rating,
	}
	at, known := b.feedback[key]
	if !known {
		at = len(b.retired.Feedback)
		b.feedback[key] = at
		b.retired.Feedback = append(b.retired.Feedback, key)
	}
	b.retired.Feedback[at].Count++
}
