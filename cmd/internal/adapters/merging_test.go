package adapters_test

import (
	"bytes"
	"context"
	"sync"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/command"
	"carillon/command/collect"
)

// stage is a platform on which accounts show one and the same concert.
type stage struct {
	mu    sync.Mutex
	shown map[string]collect.Observation // by handle
}

func newStage() *stage {
	return &stage{shown: map[string]collect.Observation{}}
}

// Start implements collect.Collector.
func (*stage) Start(source collect.Source) []collect.Link {
	return []collect.Link{{Address: source.Handle}}
}

// Read implements collect.Collector.
func (s *stage) Read(_ context.Context, source collect.Source, _ collect.Known) (collect.Page, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	page := collect.Page{Requests: 1}
	if o, ok := s.shown[source.Handle]; ok {
		page.Observations = []collect.Observation{o}
	}
	return page, nil
}

// shows sets how an account shows a concert with a separate key from now on.
func (s *stage) shows(handle, title, venue string, standing happening.Standing) uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := "url:https://" + handle + ".example/concert"
	instance := happening.DeriveInstanceID(key, "")
	s.shown[handle] = collect.Observation{
		Key:      key,
		Keys:     []string{key},
		Standing: standing,
		Source:   happening.Block{Type: "facebook", PermalinkURL: "https://" + handle + ".example/concert"},
		Details: happening.Details{
			Title: title,
			Time:  happening.Time{TemporalPattern: happening.Singular, Timezone: "UTC"},
			Location: &happening.Location{
				Venue:          &happening.Venue{Name: venue, Address: "1 Square, Town"},
				DisplayAddress: venue + ", 1 Square, Town",
			},
			Instances: []happening.Instance{{ID: instance, Status: happening.Scheduled, Occurrences: []happening.Occurrence{
				{ID: happening.DeriveOccurrenceID(instance, 0), Start: soon, Status: happening.Scheduled},
			}}},
		},
	}
	return happening.DeriveID(key)
}

// Two accounts show one concert under different keys. It is one event from the moment on when that is known, and two
// after it was split.
func TestMergeAndSplit(t *testing.T) {
	s := newStage()
	w := open(t, map[string]collect.Collector{"facebook": s})
	hall := w.source(command.RegisterSource{Type: "facebook", Handle: "hall"})
	town := w.source(command.RegisterSource{Type: "facebook", Handle: "town"})
	feed := w.feed()
	for _, source := range []uuid.UUID{hall, town} {
		w.attach(feed, source, "facebook")
		w.eventuallyState(source, 1, "ok") // the backfill has ended
	}
	first := s.shows("hall", "Anna Schmidt Quartett", "Town hall", happening.FromOwnPage)
	w.collect(hall)
	w.eventuallyItems(feed, "Anna Schmidt Quartett")
	second := s.shows("town", "SOLD OUT: Anna Schmidt Quartet", "Town Hall, great hall", happening.FromListing)
	w.collect(town)
	w.eventually("they are merged", func() bool { return len(w.recorded("happening.merged.v1")) == 2 })
	w.eventuallyItems(feed, "Anna Schmidt Quartett") // as its own page has it
	if got := w.titles(feed)["Anna Schmidt Quartett"]; got != item.ID(feed, first) {
		t.Errorf("the item is %s, want that of the older one", got)
	}

	split, err := w.commands.SplitHappening(t.Context(), w.by, command.SplitHappening{Happening: second})
	if err != nil || len(split.Value) != 1 || split.Value[0].From != first {
		t.Fatalf("split: %+v, %v", split, err)
	}
	if acts := w.recorded("operator.acted.v1"); len(acts) != 1 || !bytes.Contains(acts[0].Data, []byte(second.String())) {
		t.Errorf("the audit trail has %d acts", len(acts))
	}
	w.eventuallyItems(feed, "Anna Schmidt Quartett", "SOLD OUT: Anna Schmidt Quartet")
	s.shows("town", "Anna Schmidt Quartett", "Town hall", happening.FromListing) // more alike than ever
	w.collect(town)
	w.eventually("it was compared again", func() bool {
		var n int
		err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM feed_curation.comparisons WHERE reason = 'split' "+
			"AND NOT same").Scan(&n)
		return err == nil && n == 1
	})
	if merged, news := len(w.recorded("happening.merged.v1")), w.published(); merged != 2 || news != 1 {
		t.Errorf("%d halves of merges and %d publications are recorded", merged, news)
	}
}
