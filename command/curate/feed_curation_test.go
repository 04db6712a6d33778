package curate_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/publication"
	"carillon/aggregates/retirement"
	"carillon/eventstore"
	"carillon/eventstore/processtest"
)

// A retired happening leaves no feed: its items go without an event, and no sweep finds it.
func TestRetiredHappeningIsForgotten(t *testing.T) {
	t.Parallel()
	p := newPlot(t)
	p.shows("hall", "first", "Anna Schmidt Quartett", happening.Scheduled)
	p.react(forever)
	processtest.Record(t, p.store, retirement.Aggregate, retirement.HappeningsLogID,
		retirement.Event(retirement.HappeningsRetired{
			Batch:      uuid.New(),
			Happenings: []retirement.Happening{{ID: p.known["first"]}},
			At:         time.Now(),
		}))
	p.note(p.feeds["hall"], feed.SourceDetached{SourceID: p.sources["hall"], At: time.Now()})
	p.note(p.feeds["club"], feed.SourceAttached{SourceID: p.sources["hall"], SourceType: "site", At: time.Now()})
	p.react(forever)
	if !p.item("hall", "first").InFeed || p.item("club", "first").InFeed {
		t.Error("the item of a retired happening has changed")
	}
}

// Publications combine all sources, also those outside of the feed.
func TestPublicationsCombineAllSources(t *testing.T) {
	t.Parallel()
	p := newPlot(t)
	p.shows("hall", "first", "As the hall has it", happening.Scheduled)
	p.shows("town", "first", "As the town has it", happening.Scheduled)
	p.react(forever)
	for _, e := range processtest.Events(t, p.store, eventstore.Start,
		eventstore.Categories(publication.Aggregate.Category)) {
		if !bytes.Contains(e.Data, []byte("As the hall has it")) || bytes.Contains(e.Data, []byte("the town")) {
			t.Errorf("published %s", e.Data)
		}
	}
	if heard := p.heard("town"); len(heard) != 1 {
		t.Errorf("the town's feed heard %v", heard)
	}
}
