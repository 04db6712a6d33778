package adapters_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/publication"
	"carillon/aggregates/source"
	"carillon/cmd/internal/adapters"
	"carillon/command"
	"carillon/command/collect"
	"carillon/command/visiting"
	"carillon/eventstore"
	"carillon/eventstore/reach"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
	"carillon/projections/feeds"
	"carillon/projections/items"
	"carillon/projections/sources"
	"carillon/query"
)

// place is an outside place whose events the test decides.
type place struct {
	mu     sync.Mutex
	titles []string
	err    error
	visits int
	shown  map[string]collect.Observation // by handle, beside the titles
	hold   chan struct{}                  // visits wait for it where not nil
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
	if o, is := p.shown[source.Handle]; is {
		result.Observations = []collect.Observation{o}
	}
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
	assert.True(t, got.Observed == 2 && got.Failures == 0 && got.DueAt != nil && got.DueAt.After(time.Now()),
		"source = %+v", got)
	var events []eventstore.Recorded
	w.eventually("an event is published", func() bool {
		events = w.recorded("publication.event-published.v1")
		return len(events) > 0
	})
	w.expectPublished(events, feed, w.titles(feed)["opera"])
	assert.Equal(t, len(w.recorded("happening.went-stale.v1")), 1, "happenings went stale")

	detached, err := w.commands.DetachSource(t.Context(), w.by, command.DetachSource{
		FeedID:        feed,
		AssociationID: association,
	})
	w.await(detached.Position, err, feeds.ReadModel.Name, items.ReadModel.Name)
	assert.Equal(t, len(w.titles(feed)), 0, "items after the detachment")
	w.eventually("the removals are recorded", func() bool { return len(w.recorded("item.removed.v1")) == 3 })
}

func (w *world) expectPublished(events []eventstore.Recorded, feed, itemID uuid.UUID) {
	w.t.Helper()
	must.Equal(w.t, len(events), 1, "events are published, want 1: a backfill is no news")
	event := must.Get(publication.Events.Decode(&events[0]))(w.t)
	p, ok := event.(publication.Published)
	assert.True(w.t, ok && p.Type == "event.item.added" && p.FeedID == feed && p.FeedType == "event" &&
		p.Organization == w.by.Organization && p.Subject == itemID.String() && p.Source == "/feeds/events/"+feed.String(),
		"published = %+v", p)
}

// backfill is that of a source in the only feed that it fills.
func (w *world) backfill(source uuid.UUID) query.Backfill {
	w.t.Helper()
	listed := w.listed(source)
	must.Equal(w.t, len(listed.Backfills), 1, "backfills of %s: %+v", source, listed.Backfills)
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
	assert.Equal(t, w.published(), 1, "are published")
}

// shows sets how an account shows a concert with a separate key from now on.
func (p *place) shows(handle, title, venue string, standing happening.Standing) uuid.UUID {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := "url:https://" + handle + ".example/concert"
	instance := happening.DeriveInstanceID(key, "")
	p.shown[handle] = collect.Observation{
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
	s := &place{shown: map[string]collect.Observation{}}
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
	assert.Equal(t, w.titles(feed)["Anna Schmidt Quartett"], item.ID(feed, first), "the item")

	split, err := w.commands.SplitHappening(t.Context(), w.by, command.SplitHappening{Happening: second})
	must.True(t, err == nil && len(split.Value) == 1 && split.Value[0].From == first, "split: %+v, %v", split, err)
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
	merged, news := len(w.recorded("happening.merged.v1")), w.published()
	assert.True(t, merged == 2 && news == 1, "%d halves of merges and %d publications are recorded", merged, news)
}

// way is that of one process to the event store.
type way struct{ cut atomic.Bool }

func (w *way) watch(t *testing.T) *reach.Watch {
	t.Helper()
	ask := func(context.Context) error {
		if w.cut.Load() {
			return eventstore.ErrUnavailable
		}
		return nil
	}
	watch := &reach.Watch{
		Name: "store",
		Beat: 20 * time.Millisecond,
		Log:  slog.New(slog.DiscardHandler),
		Ask:  ask,
	}
	run(t, func(ctx context.Context) error { watch.Run(ctx); return nil })
	return watch
}

// A worker that can't record outcomes gives up its lock: its deliveries go to a worker that can.
func TestCutOffWorkerGivesUpItsLock(t *testing.T) {
	s := newQueueFixture(t)
	s.project(deliveries.ReadModel)
	way, theirs := &way{}, *s.runner
	theirs.Reach = way.watch(t)
	right, _ := s.queue(0)
	right.TakeOverAfter(0)
	cutOff := adapters.NewDeliveryQueue(&theirs, time.Now)
	run(t, func(ctx context.Context) error { cutOff.StayAlive(ctx, slog.New(slog.DiscardHandler)); return nil })
	held := s.schedule()
	s.claims(cutOff, held)
	way.cut.Store(true)
	s.claims(right, held)
	_, sure := cutOff.Holding()
	assert.True(t, !sure, "it still holds its lock")
	way.cut.Store(false)
	s.eventuallyHolds(cutOff, 1)
}

// A visit in a process that is cut off ends and leaves its turn to others.
func TestCutOffMonitorLeavesItsTurns(t *testing.T) {
	held, free := &place{hold: make(chan struct{})}, &place{}
	w := open(t, nil)
	w.stop()
	source, way := w.account(), &way{}
	watch := way.watch(t)
	w.monitor(w.store, map[string]collect.Collector{"facebook": held}, func(m *visiting.Monitor) { m.Reach = watch })
	w.collect(source)
	w.eventually("a visit has begun", func() bool {
		held.mu.Lock()
		defer held.mu.Unlock()
		return held.visits > 0
	})
	// A turn ends by itself after a minute, this one later.
	w.exec("UPDATE carillon.source_walks SET held_until = held_until + interval '1 day'")
	way.cut.Store(true)
	w.eventually("it leaves its turn", func() bool {
		var free bool
		const left = "SELECT held_until <= clock_timestamp() FROM carillon.source_walks WHERE source_id = $1"
		must.OK(t, w.pool.QueryRow(t.Context(), left, source).Scan(&free))
		return free
	})
	w.monitor(w.store, map[string]collect.Collector{"facebook": free})
	w.eventuallyState(source, 1, "ok")
}

// BenchmarkVisitOfAnOldSource visits a source that has 10,000 walks behind it: it takes the turn, records that a walk
// that was asked for begins, walks one page, and records the end. The page has not changed.
func BenchmarkVisitOfAnOldSource(b *testing.B) {
	p := &place{}
	p.show("jazz")
	w := open(b, nil)
	w.stop()
	id := w.source(command.RegisterSource{Type: "facebook", Handle: "old"})
	for first := 1; first <= 10_000; first += 500 {
		var old []eventstore.Proposed
		for number := first; number < first+500; number++ {
			for _, event := range []source.Event{source.CollectionStarted{Number: number}, source.CollectionCompleted{
				Number:          number,
				IntervalSeconds: 900,
			}} {
				name, data, err := source.Events.Encode(event)
				must.OK(b, err)
				old = append(old, eventstore.Proposed{ID: uuid.New(), Type: name, Data: data})
			}
		}
		appended, err := w.store.Append(b.Context(), source.Aggregate.Stream(id), eventstore.Revision(2*(first-1)),
			old) //nolint:gosec // small
		w.await(appended.Position, err, sources.ReadModel.Name)
	}
	w.monitor(w.store, map[string]collect.Collector{"facebook": p})
	var took []time.Duration
	for b.Loop() {
		w.collect(id)
		var visit time.Duration
		w.eventually("the walk is over", func() bool {
			return w.pool.QueryRow(b.Context(), `SELECT w.completed_at - w.attempted_at FROM carillon.source_walks w
				JOIN sources.sources s ON s.id = w.source_id
				WHERE s.id = $1 AND w.holder IS NULL AND NOT w.walking AND s.wanted_at IS NULL
				AND s.state = 'ok'`, id).Scan(&visit) == nil
		})
		took = append(took, visit)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/visit")
}
