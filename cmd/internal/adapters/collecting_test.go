package adapters_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/publication"
	"carillon/command"
	"carillon/command/collect"
	"carillon/eventstore"
	"carillon/eventstore/storetest/must"
	"carillon/projections/feeds"
	"carillon/projections/items"
	"carillon/query"
)

// place is an outside place whose events the test decides.
type place struct {
	mu     sync.Mutex
	titles []string
	err    error
	visits int
	hold   chan struct{} // visits wait for it where not nil
}

// soon is when everything happens: the same at each visit, also around midnight.
var soon = time.Now().Add(48 * time.Hour).Truncate(time.Hour)

func (p *place) show(titles ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.titles = titles
}

func (p *place) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// Start implements collect.Collector.
func (*place) Start(source collect.Source) []collect.Link {
	return []collect.Link{{Address: source.Handle}}
}

// Read implements collect.Collector.
func (p *place) Read(ctx context.Context, source collect.Source, _ collect.Known) (collect.Page, error) {
	p.mu.Lock()
	p.visits++
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	result := collect.Page{Requests: 1}
	for _, title := range p.titles {
		key := "url:https://" + source.Handle + ".example/" + title
		instance := happening.DeriveInstanceID(key, "")
		result.Observations = append(result.Observations, collect.Observation{
			Key: key, Source: happening.Block{Type: source.Type, Publisher: &happening.Publisher{Name: source.Handle}},
			Details: happening.Details{Title: title, Instances: []happening.Instance{{
				ID: instance, Status: happening.Scheduled,
				Occurrences: []happening.Occurrence{{
					ID:     happening.DeriveOccurrenceID(instance, 0),
					Start:  soon,
					Status: happening.Scheduled,
				}},
			}}},
		})
	}
	return result, p.err
}

func (w *world) account() (source uuid.UUID) {
	w.t.Helper()
	return w.source(command.RegisterSource{Type: "facebook", Handle: uuid.NewString()})
}

func TestFromSourceToItems(t *testing.T) {
	p := &place{}
	w := open(t, map[string]collect.Collector{"facebook": p})
	p.show("jazz", "quiz")
	source, feed := w.account(), w.feed()
	association := w.attach(feed, source, "facebook")
	w.eventuallyItems(feed, "jazz", "quiz")
	w.eventuallyState(source, 1, "ok")

	p.show("jazz", "opera")
	w.collect(source)
	w.eventuallyItems(feed, "jazz", "quiz", "opera") // gone from the page is not gone from the feed
	got := w.eventuallyState(source, 2, "ok")
	if got.Observed != 2 || got.Failures != 0 || got.DueAt == nil || !got.DueAt.After(time.Now()) {
		t.Errorf("source = %+v", got)
	}
	var events []eventstore.Recorded
	w.eventually("an event is published", func() bool {
		events = w.recorded("publication.event-published.v1")
		return len(events) > 0
	})
	w.expectPublished(events, feed, w.titles(feed)["opera"])
	if stale := w.recorded("happening.went-stale.v1"); len(stale) != 1 {
		t.Errorf("%d happenings went stale, want 1", len(stale))
	}

	detached, err := w.commands.DetachSource(t.Context(), w.by, command.DetachSource{
		FeedID:        feed,
		AssociationID: association,
	})
	w.await(detached.Position, err, feeds.ReadModel.Name, items.ReadModel.Name)
	if left := w.titles(feed); len(left) != 0 {
		t.Errorf("items after the detachment: %v", left)
	}
	w.eventually("the removals are recorded", func() bool { return len(w.recorded("item.removed.v1")) == 3 })
}

func (w *world) expectPublished(events []eventstore.Recorded, feed, itemID uuid.UUID) {
	w.t.Helper()
	if len(events) != 1 {
		w.t.Fatalf("%d events are published, want 1: a backfill is no news", len(events))
	}
	event := must.Get(publication.Events.Decode(&events[0]))(w.t)
	p, ok := event.(publication.Published)
	if !ok || p.Type != "event.item.added" || p.FeedID != feed || p.FeedType != "event" ||
		p.Organization != w.by.Organization ||
		p.Subject != itemID.String() || p.Source != "/feeds/events/"+feed.String() {
		w.t.Errorf("published = %+v", p)
	}
}

// backfill is that of a source in the only feed that it fills.
func (w *world) backfill(source uuid.UUID) query.Backfill {
	w.t.Helper()
	listed := w.listed(source)
	if len(listed.Backfills) != 1 {
		w.t.Fatalf("backfills of %s: %+v", source, listed.Backfills)
	}
	return listed.Backfills[0]
}

// published counts the events that subscribers hear of.
func (w *world) published() int {
	w.t.Helper()
	return len(w.recorded("publication.event-published.v1"))
}

func (w *world) exec(sql string) {
	w.t.Helper()
	must.Get(w.pool.Exec(w.t.Context(), sql))(w.t)
}

// The first walk after an attachment fails. The next regular one is the backfill, and ends it, also if the process has
// ended and the memory of walks was lost meanwhile.
func TestBackfillOutlastsFailure(t *testing.T) {
	p := &place{}
	p.fail(errors.New("down"))
	collectors := map[string]collect.Collector{"facebook": p}
	w := open(t, collectors)
	source, feed := w.account(), w.feed()
	at := time.Now()
	w.attach(feed, source, "facebook")
	w.eventuallyState(source, 1, "failing")
	if b := w.backfill(source); b.EndedAt != nil || b.Since.Before(at.Add(-time.Second)) || b.Added != 0 {
		t.Errorf("backfill = %+v", b)
	}
	w.stop()
	w.exec("DELETE FROM carillon.source_walks")
	w.exec("UPDATE sources.sources SET due_at = now()") // the time has come
	p.fail(nil)
	p.show("jazz", "quiz")
	w.stop = w.curateAndMonitor(collectors)
	w.eventuallyItems(feed, "jazz", "quiz")
	w.eventually("the backfill ends", func() bool { b := w.backfill(source); return b.EndedAt != nil && b.Added == 2 })
	p.show("jazz", "quiz", "opera")
	w.collect(source)
	w.eventuallyItems(feed, "jazz", "quiz", "opera")
	w.eventually("it is published", func() bool { return w.published() > 0 })
	w.await(w.recorded("item.added.v1")[2].Position, nil, items.ReadModel.Name)
	if got := w.published(); got != 1 {
		t.Errorf("%d are published", got)
	}
}
