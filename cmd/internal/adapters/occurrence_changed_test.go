package adapters_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/publication"
	"carillon/command"
	"carillon/command/collect"
	"carillon/eventstore/instant"
)

// stage is a platform on which accounts show one and the same concert.
type stage struct {
	mu    sync.Mutex
	salt  string                         // of the handles
	shown map[string]collect.Observation // by handle
}

func newStage() *stage {
	return &stage{salt: unique(""), shown: map[string]collect.Observation{}}
}

// account is the handle of one of its accounts.
func (s *stage) account(name string) string { return name + s.salt }

// concert is the key of the concert.
func (s *stage) concert() string { return "url:https://example.org/concert" + s.salt }

// show sets how an account shows the concert from now on.
func (s *stage) show(handle string, start time.Time, status happening.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	instance := happening.DeriveInstanceID(s.concert(), "")
	s.shown[s.account(handle)] = collect.Observation{
		Key:      s.concert(),
		Standing: happening.FromOwnPage,
		Source:   happening.Block{Type: "facebook", PermalinkURL: "https://example.org/" + handle},
		Details: happening.Details{
			Title: "Concert", Time: happening.Time{TemporalPattern: happening.Singular, Timezone: "UTC"},
			Instances: []happening.Instance{{ID: instance, Status: status, Occurrences: []happening.Occurrence{
				{ID: happening.DeriveOccurrenceID(instance, 0), Start: start, Status: status},
			}}},
		},
	}
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

// Two accounts show one concert; three feeds show it: two have one account each, one has both. Each change is published
// once to each feed, whichever and however many accounts show it, but not if it came with the attachment of an account.
func TestOccurrenceChangePublishedOncePerFeed(t *testing.T) {
	t.Parallel()
	s := newStage()
	w := open(t, map[string]collect.Collector{"facebook": s})
	hall := w.source(command.RegisterSource{Type: "facebook", Handle: s.account("hall")})
	band := w.source(command.RegisterSource{Type: "facebook", Handle: s.account("band")})
	visits := map[uuid.UUID]int{}
	visit := func(source uuid.UUID) {
		t.Helper()
		visits[source]++
		w.collect(source)
		w.eventuallyState(source, visits[source], "ok")
	}
	s.show("hall", soon, happening.Scheduled)
	s.show("band", soon, happening.Scheduled)
	visit(hall)
	visit(band)
	byHall, byBand, both := w.feed(), w.feed(), w.feed()
	w.attach(byHall, hall, "facebook")
	w.attach(both, hall, "facebook")
	w.attach(byBand, band, "facebook")
	w.attach(both, band, "facebook")
	for _, feed := range []uuid.UUID{byHall, byBand, both} {
		w.eventuallyItems(feed, "Concert")
	}
	visit(hall)
	visit(band)
	want := 0
	expect := func(what string, check func(data map[string]any) bool) {
		t.Helper()
		want += 3
		w.eventually(what, func() bool { return len(w.recorded("publication.event-published.v1")) >= want })
		feeds := map[uuid.UUID]bool{}
		for _, recorded := range w.recorded("publication.event-published.v1")[want-3:] {
			event, err := publication.Events.Decode(&recorded)
			if err != nil {
				t.Fatal(err)
			}
			p := event.(publication.Published) //nolint:errcheck // there are no others
			var data map[string]any
			if err := json.Unmarshal(p.Data, &data); err != nil {
				t.Fatal(err)
			}
			feeds[p.FeedID] = true
			happeningID := happening.DeriveID(s.concert())
			if p.Type != "event.occurrence.changed" || p.Subject != item.ID(p.FeedID, happeningID).String() ||
				data["id"] != p.Subject || data["eventId"] != happeningID.String() || !check(data) {
				t.Errorf("%s: published %s %s", what, p.Type, p.Data)
			}
		}
		if len(feeds) != 3 {
			t.Errorf("%s: published to %d feeds", what, len(feeds))
		}
	}
	status := func(data map[string]any) any {
		return data["occurrence"].(map[string]any)["status"]
	} //nolint:errcheck // fails loudly
	start := func(data map[string]any) any {
		return data["occurrence"].(map[string]any)["startDateTime"]
	} //nolint:errcheck // fails loudly

	s.show("hall", soon, happening.Cancelled)
	visit(hall)
	visit(band) // which still shows it
	expect("cancelled", func(data map[string]any) bool {
		return status(data) == "cancelled" && data["previousStatus"] == "scheduled" && data["previousStartDateTime"] == nil
	})
	s.show("band", soon, happening.Cancelled)
	visit(band) // is no news
	s.show("hall", soon, happening.Scheduled)
	visit(hall) // the other still says so
	s.show("band", soon, happening.Scheduled)
	visit(band)
	expect("back", func(data map[string]any) bool {
		return status(data) == "scheduled" && data["previousStatus"] == "cancelled"
	})
	later := soon.Add(26 * time.Hour)
	s.show("band", later, happening.Scheduled)
	visit(band)
	s.show("hall", later, happening.Scheduled)
	visit(hall)
	expect("moved", func(data map[string]any) bool {
		return data["previousStartDateTime"] == instant.Text(soon) && start(data) == instant.Text(later)
	})
	visit(hall)
	visit(band)
	if n := len(w.recorded("publication.event-published.v1")); n != want {
		t.Errorf("%d events are published, want %d", n, want)
	}
	if n := len(w.recorded("happening.occurrence-changed.v1")); n != 3 {
		t.Errorf("%d changes are recorded, want 3", n)
	}
}
