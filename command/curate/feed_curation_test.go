package curate_test

import (
	"bytes"
	"fmt"
	"slices"
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

// A series of one source, and its single dates of another one, are one item without duplicate dates, in either order.
// Entries of one source side by side at nearly the same time are two.
func TestSeriesBesideItsSingleDates(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
	midnight := evening.Truncate(24 * time.Hour).Sub(evening)
	type dates = []time.Duration
	weekly := func(n int) []dates { return []dates{dates{0, week, 2 * week, 3 * week}[:n]} }
	single := func(all ...time.Duration) (list []dates) {
		for _, at := range all {
			list = append(list, dates{at})
		}
		return list
	}
	for name, tt := range map[string]struct {
		first, second []dates // happenings
		want          string  // dates of the items
	}{
		"the series first":      {weekly(4), single(0, week, 2*week, 3*week), "[4]"},
		"the dates first":       {single(0, week, 2*week, 3*week), weekly(4), "[4]"},
		"one date more":         {single(0, week, 2*week), weekly(4), "[4]"},
		"mere days":             {weekly(3), single(midnight, midnight+week, midnight+2*week), "[3]"},
		"a separate date":       {weekly(2), single(0, week, 3*24*time.Hour), "[1 2]"},
		"tours and all tours":   {single(0, 20*time.Minute), weekly(2), "[1 2]"},
		"two with single dates": {single(0, week), single(0, week), "[1 1]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlot(t)
			for i, all := range [][]dates{tt.first, tt.second} {
				for j, dates := range all {
					source := []string{"hall", "town"}[i]
					p.showsDates(source, fmt.Sprint(source, j), "Yoga on Quince Street", happening.Scheduled, dates...)
				}
				p.react(forever)
			}
			var counts []int
			for name := range p.known {
				if p.item("all", name).InFeed {
					counts = append(counts, len(p.state(name).Combine().Details.Instances))
				}
			}
			if slices.Sort(counts); fmt.Sprint(counts) != tt.want {
				t.Errorf("the items have %v dates, want %s", counts, tt.want)
			}
		})
	}
}
