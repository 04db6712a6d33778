package adapters_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/publication"
	"carillon/command"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/sources/site"
	"carillon/command/curate"
	"carillon/eventstore"
	"carillon/projections/feeds"
	"carillon/projections/items"
)

// place is an outside place whose events the test decides.
type place struct {
	mu     sync.Mutex
	titles []string
	err    error
	panics bool
	notes  []collect.Note
	visits int
	inside int
	most   int           // visits at one time
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
func (p *place) Read(ctx context.Context, source collect.Source, page collect.Known) (collect.Page, error) {
	p.mu.Lock()
	p.visits++
	p.inside++
	p.most = max(p.most, p.inside)
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
	p.inside--
	if p.panics {
		panic("an unexpected page")
	}
	result := collect.Page{
		Requests: 1,
		State:    fmt.Appendf(nil, `{"visit":%d,"after":%q}`, p.visits, page.State),
		Notes:    p.notes,
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
	t.Parallel()
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
	event, err := publication.Events.Decode(&events[0])
	if err != nil {
		w.t.Fatal(err)
	}
	p, ok := event.(publication.Published)
	if !ok || p.Type != "event.item.added" || p.FeedID != feed || p.FeedType != "event" ||
		p.Organization != w.by.Organization ||
		p.Subject != itemID.String() || p.Source != "/feeds/events/"+feed.String() {
		w.t.Errorf("published = %+v", p)
	}
}

func TestUnchangedCollectionRecordsNothingNew(t *testing.T) {
	t.Parallel()
	p := &place{}
	p.show("jazz", "quiz")
	w := open(t, map[string]collect.Collector{"facebook": p})
	source := w.account()
	w.collect(source)
	w.eventuallyState(source, 1, "ok")
	for visit := 2; visit <= 3; visit++ {
		w.collect(source)
		w.eventuallyState(source, visit, "ok")
	}
	if observed, revised := w.recorded("happening.observed.v1"), w.recorded("happening.revised.v1"); len(observed) != 2 ||
		len(revised) != 0 {
		t.Errorf("%d observed, %d revised after three visits; want 2 and 0", len(observed), len(revised))
	}
}

func TestIncompleteCollectionMarksNothingStale(t *testing.T) {
	t.Parallel()
	p := &place{}
	p.show("jazz", "quiz")
	w := open(t, map[string]collect.Collector{"facebook": p})
	source := w.account()
	w.collect(source)
	w.eventuallyState(source, 1, "ok")
	p.mu.Lock()
	p.titles, p.notes = []string{"jazz"}, []collect.Note{{Code: collect.NoteTruncated, Text: "a limit was reached"}}
	p.mu.Unlock()
	w.collect(source)
	got := w.eventuallyState(source, 2, "ok")
	if len(got.Notes) != 1 || got.Notes[0].Code != "truncated" {
		t.Errorf("notes = %+v", got.Notes)
	}
	if stale := w.recorded("happening.went-stale.v1"); len(stale) != 0 {
		t.Errorf("%d happenings went stale though not all was looked at", len(stale))
	}
}

func TestSourceThatNeedsJavaScript(t *testing.T) {
	t.Parallel()
	p := &place{}
	p.show("jazz")
	w := open(t, map[string]collect.Collector{"facebook": p})
	source := w.account()
	w.collect(source)
	w.eventuallyState(source, 1, "ok")
	p.mu.Lock()
	p.titles, p.notes = nil, []collect.Note{{Code: collect.NoteNeedsJavaScript, Text: "scripts only"}}
	p.mu.Unlock()
	w.collect(source)
	if got := w.eventuallyState(source, 2, "needs_javascript"); got.Message != "scripts only" || got.Failures != 0 {
		t.Errorf("source = %+v", got)
	}
	if stale := w.recorded("happening.went-stale.v1"); len(stale) != 0 {
		t.Error("an unreadable happening went stale")
	}
	p.mu.Lock()
	p.titles, p.notes = []string{"jazz"}, nil
	p.mu.Unlock()
	w.collect(source)
	w.eventuallyState(source, 3, "ok")
}

func TestFailures(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err            error
		panics         bool
		state, message string
	}{
		"status": {&collect.FetchError{Place: "https://example.org/", Err: &collect.StatusError{Code: 503}}, false,
			"failing", "http_status: fetch https://example.org/: http status 503"},
		"robots": {collect.ErrRobotsDisallowed, false, "failing", "robots: robots.txt disallows it"},
		"credentials": {fmt.Errorf("facebook: %w", collect.ErrNeedsCredentials), false, "needs_credentials",
			"facebook: credentials are missing or refused"},
		"too complex": {fmt.Errorf("read page: %w: too many steps", collect.ErrTooComplex), false, "failing",
			"too_complex: read page: page is too complex: too many steps"},
		"bad reader": {fmt.Errorf("%w: https://example.org/e", collect.ErrPanicked), false, "failing",
			"collector: reading the page panicked: https://example.org/e"},
		"unforeseen": {errors.New("hm\x00\xff"), false, "failing", "other: hm\ufffd"},
		"panic":      {nil, true, "failing", "collector: reading the page panicked: ACCOUNT"},
	}
	p := &place{}
	w := open(t, map[string]collect.Collector{"facebook": p})
	for name, tt := range tests {
		p.fail(tt.err)
		p.panics = tt.panics
		source := w.account()
		w.collect(source)
		got := w.eventuallyState(source, 1, tt.state)
		if tt.message = strings.Replace(tt.message, "ACCOUNT", got.Handle, 1); got.Message != tt.message {
			t.Errorf("%s: message = %q, want %q", name, got.Message, tt.message)
		}
		p.panics = false
	}
	unsupported := w.source(command.RegisterSource{Type: "tiktok", Handle: "someone"})
	w.collect(unsupported)
	w.eventuallyState(unsupported, 1, "failing")
}

func TestSourceVisitedByOneMonitorAtATime(t *testing.T) {
	t.Parallel()
	p := &place{hold: make(chan struct{})}
	collectors := map[string]collect.Collector{"facebook": p}
	w := open(t, collectors)
	w.curateAndMonitor(collectors) // a second one
	source := w.account()
	w.collect(source)
	w.eventually("a visit has begun", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.visits > 0
	})
	w.collect(source) // while the first is in progress
	close(p.hold)
	w.eventually("the second request is done", func() bool {
		return len(w.recorded("source.collection-completed.v1")) == 2
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.most != 1 || p.visits != 2 {
		t.Errorf("%d visits, %d at one time; want 2, one at a time", p.visits, p.most)
	}
}

// A curation of feeds that has lost its state sees everything again and does nothing again.
func TestFeedCurationAnewRecordsNothing(t *testing.T) {
	t.Parallel()
	p := &place{}
	p.show("jazz", "quiz")
	w := openNew(t, map[string]collect.Collector{"facebook": p})
	source, feed := w.account(), w.feed()
	association := w.attach(feed, source, "facebook")
	w.eventuallyItems(feed, "jazz", "quiz")
	w.eventuallyState(source, 1, "ok")
	p.show("jazz", "quiz", "opera")
	w.collect(source)
	w.eventuallyItems(feed, "jazz", "quiz", "opera")
	w.eventually("it is published", func() bool { return len(w.recorded("publication.event-published.v1")) == 1 })
	detached, err := w.commands.DetachSource(t.Context(), w.by, command.DetachSource{
		FeedID:        feed,
		AssociationID: association,
	})
	w.await(detached.Position, err, feeds.ReadModel.Name, items.ReadModel.Name)
	w.eventually("the removals are recorded", func() bool { return len(w.recorded("item.removed.v1")) == 3 })
	w.stop()

	before, err := w.store.Head(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.pool.Exec(t.Context(), "DELETE FROM carillon.checkpoints WHERE name = $1",
		curate.FeedCurationName); err != nil {
		t.Fatal(err)
	}
	w.stop = w.curate()
	w.await(detached.Position, nil, curate.FeedCurationName)
	w.stop()
	if after, err := w.store.Head(t.Context()); err != nil || after != before {
		t.Errorf("head moved from %s to %s, %v", before, after, err)
	}
}

// The same by the collector of pages, from HTML.
func TestSiteFromPageToItems(t *testing.T) {
	t.Parallel()
	start := time.Now().Add(72 * time.Hour).UTC().Format("2006-01-02T15:04:05Z")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/programme" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(w, `<html><head><script type="application/ld+json">{"@context":"https://schema.org",`+
			`"@type":"Event",
			"name":"Jazz night","url":"/jazz","startDate":%q,"location":{"@type":"Place","name":"Hall"}}</script></head></html>`,
			start)
	}))
	lasting(t).Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	fetcher, err := fetch.New(fetch.Options{Transport: transport, Interval: -1})
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, map[string]collect.Collector{"site": site.New(fetcher, time.Now)})
	source, feed := w.source(command.RegisterSource{
		Type:     "site",
		URL:      server.URL + "/programme",
		Timezone: "Europe/Rome",
	}), w.feed()
	w.attach(feed, source, "site")
	w.eventuallyItems(feed, "Jazz night")
	itemID := w.titles(feed)["Jazz night"]
	made, err := w.commands.GiveFeedback(t.Context(), w.by, command.GiveFeedback{
		FeedID: feed,
		ItemID: itemID,
		Rating: item.Positive,
	})
	w.await(made.Position, err, items.ReadModel.Name)
	if made.ID == uuid.Nil {
		t.Error("feedback has no id")
	}
	if body, err := w.queries.Item(t.Context(), w.by.Organization, feed, itemID, true, time.Now()); err != nil ||
		len(body) == 0 {
		t.Errorf("item: %s, %v", body, err)
	}
}

// A calendar's address, as people copy it, becomes items with all their dates; a later change of one date changes that
// one alone.
func TestCalendarToItems(t *testing.T) {
	t.Parallel()
	salt := unique("")
	day := func(n int) string { return time.Now().AddDate(0, 0, n).UTC().Format("20060102") }
	var cancelled atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/programme.ics" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/calendar; charset=utf-8")
		_, _ = fmt.Fprintf(w,
			"BEGIN:VCALENDAR\r\nX-WR-TIMEZONE:Europe/Rome\r\nBEGIN:VEVENT\r\nUID:quiz%s\r\nSUMMARY:Pub quiz\r\n"+
				"DTSTART:%sT190000\r\n"+
				"DURATION:PT2H\r\nRRULE:FREQ=DAILY;COUNT=5\r\nEXDATE:%sT190000\r\nLOCATION:Hall\r\nEND:VEVENT\r\n", salt,
			day(3), day(5))
		if cancelled.Load() {
			_, _ = fmt.Fprintf(w, "BEGIN:VEVENT\r\nUID:quiz%[1]s\r\nSUMMARY:Pub quiz\r\nRECURRENCE-ID:%[2]sT190000\r\n"+
				"DTSTART:%[2]sT190000\r\nSTATUS:CANCELLED\r\nEND:VEVENT\r\n", salt, day(4))
		}
		_, _ = fmt.Fprint(w, "BEGIN:VEVENT\r\nUID:past"+salt+
			"\r\nSUMMARY:Long ago\r\nDTSTART:20010101T100000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n")
	}))
	lasting(t).Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	fetcher, err := fetch.New(fetch.Options{Transport: transport, Interval: -1})
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, map[string]collect.Collector{"site": site.New(fetcher, time.Now)})
	address := "webcal" + strings.TrimPrefix(server.URL, "http") + "/programme.ics"
	source, feed := w.source(command.RegisterSource{Type: "site", URL: address}), w.feed()
	w.attach(feed, source, "site")
	w.eventuallyItems(feed, "Pub quiz")
	statuses := func() string {
		body, err := w.queries.Item(t.Context(), w.by.Organization, feed, w.titles(feed)["Pub quiz"], false, time.Now())
		if err != nil || !bytes.Contains(body, []byte(`"Europe/Rome"`)) {
			t.Fatalf("item: %s, %v", body, err)
		}
		var item struct {
			Occurrence struct {
				OccurrencesInRange []struct{ Status string }
			}
		}
		if err := json.Unmarshal(body, &item); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, o := range item.Occurrence.OccurrencesInRange {
			all = append(all, o.Status)
		}
		return strings.Join(all, " ")
	}
	if got := statuses(); got != "scheduled scheduled scheduled scheduled" {
		t.Errorf("the item has %s", got)
	}
	cancelled.Store(true)
	w.collect(source)
	w.eventuallyState(source, 2, "ok")
	w.eventually("one date is cancelled", func() bool { return statuses() == "scheduled cancelled scheduled scheduled" })
}
