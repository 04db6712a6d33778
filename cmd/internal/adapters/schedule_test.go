package adapters_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command"
	"carillon/command/collect"
	"carillon/eventstore"
	"carillon/projections/sources"
)

// diary is a source whose events the test decides with all their dates.
type diary struct {
	mu     sync.Mutex
	events map[string]happening.Details
}

// show shows an event with a date for each day from now, and words that follow from them.
func (d *diary) show(title, description string, days ...int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	details := happening.Details{Title: title, Description: description, Time: happening.Time{
		TemporalPattern: map[bool]happening.Pattern{true: happening.Recurring, false: happening.Singular}[len(days) > 1],
		DisplayText:     fmt.Sprint(days),
	}}
	for _, day := range days {
		start := soon.AddDate(0, 0, day)
		id := happening.DeriveInstanceID("url:"+title, happening.OriginalStart(start))
		details.Instances = append(details.Instances, happening.Instance{
			ID:     id,
			Status: happening.Scheduled,
			Occurrences: []happening.Occurrence{
				{ID: happening.DeriveOccurrenceID(id, 0), Start: start, Status: happening.Scheduled},
			},
		})
	}
	if d.events == nil {
		d.events = map[string]happening.Details{}
	}
	d.events[title] = details
}

func (d *diary) drop(title string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.events, title)
}

// diaries are sources by handle.
type diaries map[string]*diary

// Start implements collect.Collector.
func (diaries) Start(source collect.Source) []collect.Link {
	return []collect.Link{{Address: source.Handle}}
}

// Read implements collect.Collector.
func (all diaries) Read(_ context.Context, source collect.Source, _ collect.Known) (collect.Page, error) {
	d := all[source.Handle]
	d.mu.Lock()
	defer d.mu.Unlock()
	read := collect.Page{Requests: 1}
	for title, details := range d.events {
		read.Observations = append(read.Observations, collect.Observation{
			Key: "url:" + source.Handle + title, Details: details, Source: happening.Block{Type: source.Type},
		})
	}
	return read, nil
}

// Past happenings hasten no visit, however they change; future ones do. (Days are counted from two days on.)
func TestSchedulesAdaptToFutureHappenings(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change  func(d *diary)
		hastens bool
	}{
		"nothing":                     {func(*diary) {}, false},
		"a new event":                 {func(d *diary) { d.show("new", "", 5) }, true},
		"a new event of the past":     {func(d *diary) { d.show("new", "", -5) }, false},
		"an event is gone":            {func(d *diary) { d.drop("quiz") }, true},
		"a past one is gone":          {func(d *diary) { d.drop("past") }, false},
		"one to come is changed":      {func(d *diary) { d.show("quiz", "with prizes", 10) }, true},
		"a past one is changed":       {func(d *diary) { d.show("past", "thanks to all", -10) }, false},
		"a past one gets a date":      {func(d *diary) { d.show("past", "", -10, 10) }, true},
		"a past one gets a past date": {func(d *diary) { d.show("past", "", -10, -9) }, false},
		"one is put off":              {func(d *diary) { d.show("quiz", "", 11) }, true},
		"past dates drop off":         {func(d *diary) { d.show("weekly", "", 1, 8) }, false},
		"a past date is corrected":    {func(d *diary) { d.show("weekly", "", -14, -6, 1, 8) }, false},
		"all past dates but one":      {func(d *diary) { d.show("weekly", "", -6, 1, 8) }, false},
		"a date to come is added":     {func(d *diary) { d.show("weekly", "", -13, -6, 1, 8, 15) }, true},
		"a date to come is gone":      {func(d *diary) { d.show("weekly", "", -13, -6, 8) }, true},
		"dates far beyond the window": {func(d *diary) { d.show("weekly", "", -13, -6, 1, 8, 500) }, false},
	}
	all, ids, handles := diaries{}, map[string]uuid.UUID{}, map[string]string{}
	for name := range tests {
		d := &diary{}
		d.show("quiz", "", 10)
		d.show("past", "", -10)
		d.show("weekly", "", -13, -6, 1, 8)
		handles[name] = uuid.NewString()
		all[handles[name]] = d
	}
	w := open(t, map[string]collect.Collector{"facebook": all})
	for name, handle := range handles {
		ids[name] = w.source(command.RegisterSource{Type: "facebook", Handle: handle})
	}
	walks := 0
	walkAll := func() map[string]int {
		t.Helper()
		for _, id := range ids {
			w.collect(id)
		}
		walks += len(ids)
		var completed []eventstore.Recorded
		w.eventually("all are walked", func() bool {
			completed = w.recorded("source.collection-completed.v1")
			return len(completed) == walks
		})
		w.await(completed[walks-1].Position, nil, sources.ReadModel.Name)
		intervals := map[string]int{}
		for name, id := range ids {
			w.eventually("the visit has ended", func() bool { return w.listed(id).State == "ok" })
			intervals[name] = w.listed(id).Interval
		}
		return intervals
	}
	before := walkAll()
	for name, tt := range tests {
		tt.change(all[handles[name]])
	}
	after := walkAll()
	for name, tt := range tests {
		if hastened := after[name] < before[name]; hastened != tt.hastens {
			t.Errorf("%s: the interval goes from %d s to %d s", name, before[name], after[name])
		}
	}
}
