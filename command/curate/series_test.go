package curate_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"carillon/aggregates/happening"
)

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
