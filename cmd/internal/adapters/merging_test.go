package adapters_test

import (
	"bytes"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/publication"
	"carillon/command"
	"carillon/command/collect"
	"carillon/command/curate"
	"carillon/projections/items"
)

// tell sets how an account shows a concert with a separate key from now on.
func (s *stage) tell(handle, title, venue string, standing happening.Standing) uuid.UUID {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := "url:https://" + s.account(handle) + ".example/concert"
	instance := happening.DeriveInstanceID(key, "")
	s.shown[s.account(handle)] = collect.Observation{
		Key:      key,
		Keys:     []string{key},
		Standing: standing,
		Source:   happening.Block{Type: "facebook", PermalinkURL: "https://" + s.account(handle) + ".example/concert"},
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

// told lists the publications, as "type happening" by feed.
func (w *world) told(known map[uuid.UUID]string) map[uuid.UUID][]string {
	w.t.Helper()
	all := map[uuid.UUID][]string{}
	for _, recorded := range w.recorded("publication.event-published.v1") {
		event, err := publication.Events.Decode(&recorded)
		if err != nil {
			w.t.Fatal(err)
		}
		p := event.(publication.Published) //nolint:errcheck // there are no others
		what := p.Type + " of an unknown item"
		for id, name := range known {
			if p.Subject == item.ID(p.FeedID, id).String() {
				what = p.Type + " " + name
			}
		}
		all[p.FeedID] = append(all[p.FeedID], what)
	}
	return all
}

// Two accounts show one concert under different keys. It is one event from the moment on when that is known, and two
// after it was split.
func TestMergeAndSplit(t *testing.T) {
	t.Parallel()
	s := newStage()
	w := open(t, map[string]collect.Collector{"facebook": s})
	visits := map[uuid.UUID]int{}
	visited := func(source uuid.UUID) {
		t.Helper()
		visits[source]++
		w.eventuallyState(source, visits[source], "ok")
	}
	visit := func(source uuid.UUID) {
		t.Helper()
		w.collect(source)
		visited(source)
	}
	hall := w.source(command.RegisterSource{Type: "facebook", Handle: s.account("hall")})
	town := w.source(command.RegisterSource{Type: "facebook", Handle: s.account("town")})
	byHall, byTown, both := w.feed(), w.feed(), w.feed()
	w.attach(byHall, hall, "facebook")
	visited(hall)
	w.attach(byTown, town, "facebook")
	visited(town)
	w.attach(both, hall, "facebook") // known by now
	w.attach(both, town, "facebook")
	visit(hall)
	visit(town) // the backfills have ended

	first := s.tell("hall", "Anna Schmidt Quartett", "Town hall", happening.FromOwnPage)
	visit(hall)
	w.eventuallyItems(byHall, "Anna Schmidt Quartett")
	w.eventuallyItems(both, "Anna Schmidt Quartett")
	second := s.tell("town", "SOLD OUT: Anna Schmidt Quartet", "Town Hall, great hall", happening.FromListing)
	visit(town)
	w.eventually("they are merged", func() bool { return len(w.recorded("happening.merged.v1")) == 2 })
	names := map[uuid.UUID]string{first: "first", second: "second"}
	for _, feed := range []uuid.UUID{byHall, byTown, both} {
		w.eventuallyItems(feed, "Anna Schmidt Quartett") // as its own page has it
		w.eventually("it is the older one", func() bool {
			return w.titles(feed)["Anna Schmidt Quartett"] == item.ID(feed, first)
		})
	}
	w.eventually("each feed gets one publication", func() bool {
		return len(w.recorded("publication.event-published.v1")) == 3
	})
	for feed, told := range w.told(names) {
		if len(told) != 1 || told[0] != "event.item.added first" {
			t.Errorf("feed %s got %v", feed, told)
		}
	}

	// Later views of the other belong to the remaining one.
	s.say("town", happening.Cancelled)
	visit(town)
	w.eventually("the cancellation is published to each feed", func() bool {
		return len(w.recorded("publication.event-published.v1")) == 6
	})
	for feed, told := range w.told(names) {
		if len(told) != 2 || told[1] != "event.occurrence.changed first" {
			t.Errorf("feed %s got %v", feed, told)
		}
	}

	// A split gives each feed the views of its sources, and publishes nothing.
	split, err := w.commands.SplitHappening(t.Context(), w.by, command.SplitHappening{Happening: second})
	if err != nil || len(split.Value) != 1 || split.Value[0].From != first {
		t.Fatalf("split: %+v, %v", split, err)
	}
	if acts := w.recorded("operator.acted.v1"); len(acts) != 1 || !bytes.Contains(acts[0].Data, []byte(second.String())) {
		t.Errorf("the audit trail has %d acts", len(acts))
	}
	w.await(split.Position, nil, items.ReadModel.Name)
	w.eventuallyItems(byHall, "Anna Schmidt Quartett")
	w.eventuallyItems(byTown, "SOLD OUT: Anna Schmidt Quartet")
	w.eventuallyItems(both, "Anna Schmidt Quartett", "SOLD OUT: Anna Schmidt Quartet")
	visit(hall)
	s.tell("town", "Anna Schmidt Quartett", "Town hall", happening.FromListing) // more alike than ever
	visit(town)
	w.eventually("it was compared again", func() bool {
		var n int
		err := w.pool.QueryRow(t.Context(), "SELECT count(*) FROM feed_curation.comparisons WHERE reason = 'split' "+
			"AND NOT same").Scan(&n)
		return err == nil && n == 1
	})
	if again, err := w.commands.SplitHappening(t.Context(), w.by, command.SplitHappening{Happening: first}); err != nil ||
		len(again.Value) != 1 {
		t.Errorf("split again: %+v, %v", again, err)
	}
	if n := len(w.recorded("happening.merged.v1")); n != 2 {
		t.Errorf("%d merges are recorded", n)
	}
	for feed, told := range w.told(names) {
		for _, what := range told[2:] {
			if what != "event.occurrence.changed second" { // the town has taken the cancellation back
				t.Errorf("feed %s got %q after the split", feed, what)
			}
		}
	}
}

// say changes the status of an account's concert.
func (s *stage) say(handle string, status happening.Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.shown[s.account(handle)]
	instance := o.Details.Instances[0]
	instance.Status = status
	occurrence := instance.Occurrences[0]
	occurrence.Status = status
	instance.Occurrences = []happening.Occurrence{occurrence}
	o.Details.Instances = []happening.Instance{instance}
	s.shown[s.account(handle)] = o
}

// Two known happenings are merged late: the items of the other leave the feeds without a publication, and feedback
// about them stays.
func TestLateMergeIsNoNews(t *testing.T) {
	t.Parallel()
	s := newStage()
	w := open(t, map[string]collect.Collector{"facebook": s})
	hall := w.source(command.RegisterSource{Type: "facebook", Handle: s.account("hall")})
	town := w.source(command.RegisterSource{Type: "facebook", Handle: s.account("town")})
	byHall, byTown := w.feed(), w.feed()
	first := s.tell("hall", "Anna Schmidt Quartett", "Town hall", happening.FromOwnPage)
	second := s.tell("town", "Konzert im Advent", "Town hall", happening.FromListing)
	w.attach(byHall, hall, "facebook")
	w.eventuallyState(hall, 1, "ok")
	w.eventuallyItems(byHall, "Anna Schmidt Quartett")
	w.attach(byTown, town, "facebook")
	w.eventuallyItems(byTown, "Konzert im Advent")
	w.eventuallyState(town, 1, "ok")
	given, err := w.commands.GiveFeedback(t.Context(), w.by, command.GiveFeedback{
		FeedID: byTown,
		ItemID: item.ID(byTown, second),
		Rating: item.Positive,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.tell("town", "Anna Schmidt Quartett – Konzert im Advent", "Town hall", happening.FromListing)
	w.collect(town)
	w.eventually("the item is the older one's", func() bool {
		return w.titles(byTown)["Anna Schmidt Quartett"] == item.ID(byTown, first) && len(w.titles(byTown)) == 1
	})
	w.eventually("the other's is removed", func() bool { return len(w.recorded("item.removed.v1")) == 1 })
	if n := len(w.recorded("publication.event-published.v1")); n != 0 {
		t.Errorf("%d events are published", n)
	}
	var of uuid.UUID
	if err := w.pool.QueryRow(t.Context(), "SELECT item_id FROM items.feedback WHERE id = $1", given.ID).
		Scan(&of); err != nil || of != item.ID(byTown, second) {
		t.Errorf("the feedback is of %s, %v", of, err)
	}
}

// A happening of a backfill is merged into one that is known, but new to the feed. It is no news, although the curation
// of feeds records that only after the backfill.
func TestMergeOfBackfillIsNoNews(t *testing.T) {
	t.Parallel()
	s := newStage()
	collectors := map[string]collect.Collector{"facebook": s}
	w := open(t, collectors)
	hall := w.source(command.RegisterSource{Type: "facebook", Handle: s.account("hall")})
	town := w.source(command.RegisterSource{Type: "facebook", Handle: s.account("town")})
	feed := w.feed()
	first := s.tell("hall", "Anna Schmidt Quartett", "Town hall", happening.FromOwnPage)
	s.tell("town", "Anna Schmidt Quartett", "Town hall", happening.FromListing)
	w.collect(hall)
	w.eventuallyState(hall, 1, "ok")
	w.stop()
	stop := w.monitor(w.store, collectors)
	w.attach(feed, town, "facebook")
	w.eventuallyState(town, 1, "ok")
	stop()
	w.stop = w.curate()
	w.eventually("the item is the older one's", func() bool {
		return w.titles(feed)["Anna Schmidt Quartett"] == item.ID(feed, first)
	})
	w.eventually("they are merged", func() bool { return len(w.recorded("happening.merged.v1")) == 2 })
	w.await(w.recorded("happening.merged.v1")[1].Position, nil, curate.FeedCurationName)
	if n := w.published(); n != 0 {
		t.Errorf("%d events are published", n)
	}
}

// Split happenings stay apart also if a third one turns out to be the same as either. The third is the oldest, so it
// takes in the one and is then compared with the other, which it has not met.
func TestSplitSurvivesThirdHappening(t *testing.T) {
	t.Parallel()
	s := newStage()
	w := open(t, map[string]collect.Collector{"facebook": s})
	feed := w.feed()
	visits, ids, sources := map[string]int{}, map[string]uuid.UUID{}, map[string]uuid.UUID{}
	visit := func(handle, title string) {
		t.Helper()
		ids[handle] = s.tell(handle, title, "Town hall", happening.FromOwnPage)
		if visits[handle]++; visits[handle] == 1 {
			sources[handle] = w.source(command.RegisterSource{Type: "facebook", Handle: s.account(handle)})
			w.attach(feed, sources[handle], "facebook")
		} else {
			w.collect(sources[handle])
		}
		w.eventually(handle+" was visited", func() bool {
			n := 0
			for _, e := range w.recorded("source.collection-completed.v1") {
				if e.StreamID() == sources[handle] {
					n++
				}
			}
			return n >= visits[handle]
		})
	}
	const quartet = "Anna Schmidt Quartett"
	merges := func(n int) func() bool {
		return func() bool { return len(w.recorded("happening.merged.v1")) >= n }
	}
	visit("club", "Pub crawl")
	w.eventuallyItems(feed, "Pub crawl")
	visit("hall", quartet)
	w.eventuallyItems(feed, "Pub crawl", quartet)
	visit("town", quartet)
	w.eventually("they are merged", merges(2))
	if _, err := w.commands.SplitHappening(t.Context(), w.by, command.SplitHappening{Happening: ids["town"]}); err != nil {
		t.Fatal(err)
	}
	items := func(n int) func() bool {
		return func() bool { return len(w.recorded("item.added.v1"))-len(w.recorded("item.removed.v1")) == n }
	}
	w.eventually("they are three", items(3))
	visit("club", quartet)
	w.eventually("the third is one of them", merges(4))
	for _, again := range []string{quartet + " live", quartet} {
		for _, handle := range []string{"town", "club", "hall"} {
			visit(handle, again)
		}
	}
	visit("last", "Pub quiz") // by then all of that has been dealt with
	w.eventually("the last is there", func() bool { _, there := w.titles(feed)["Pub quiz"]; return there })
	if n := len(w.recorded("happening.merged.v1")); n != 4 {
		t.Errorf("%d halves of merges are recorded, want 4", n)
	}
	w.eventually("the two and the last", items(3))
	if n := w.publishedAs("event.item.added"); n != 0 {
		t.Errorf("%d items were published, all came with their sources", n)
	}
}
