package visiting_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/visiting"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// A failure of the first page is a state of the source, with its reason and a sentence.
func TestFailures(t *testing.T) {
	t.Parallel()
	missing := fmt.Errorf("facebook: %w", collect.ErrNeedsCredentials)
	for name, tt := range map[string]struct {
		page            leaflet
		reason, message string
	}{
		"status": {leaflet{err: &collect.FetchError{Place: "https://example.org/", Err: &collect.StatusError{Code: 503}}},
			"http_status", "fetch https://example.org/: http status 503"},
		"robots": {leaflet{err: collect.ErrRobotsDisallowed}, "robots", "robots.txt disallows it"},
		"too complex": {leaflet{err: fmt.Errorf("read page: %w: too many steps", collect.ErrTooComplex)}, "too_complex",
			"read page: page is too complex: too many steps"},
		"bad reader": {leaflet{err: fmt.Errorf("%w: https://example.org/e", collect.ErrPanicked)}, "collector",
			"reading the page panicked: https://example.org/e"},
		"unforeseen":  {leaflet{err: errors.New("hm\x00\xff")}, "other", "hm\ufffd"},
		"panic":       {leaflet{panics: true}, "collector", "reading the page panicked: root"},
		"credentials": {leaflet{err: missing}, "", "facebook: credentials are missing or refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &leaflets{}
			l.set("root", tt.page)
			s := l.begin(t)
			s.walk()
			var reason, message string
			switch e := s.last().(type) {
			case source.CollectionFailed:
				reason, message = e.Reason, e.Message
				assert.True(t, e.NextAt.After(e.At), "the next visit is at %s, this was at %s", e.NextAt, e.At)
			case source.CredentialsMissing:
				message = e.Message
			default:
				t.Errorf("it ended with %+v", e)
			}
			assert.True(t, reason == tt.reason && message == tt.message, "it ended with %q: %q", reason, message)
		})
	}
	s := begin(t, collect.Source{Type: source.TypeFacebook, Handle: "someone"}, nil)
	s.monitor.Collectors = nil
	s.walk()
	if e, is := s.last().(source.CollectionFailed); !is || e.Reason != "unsupported_type" {
		t.Errorf("without a collector it ended with %+v", s.last())
	}
}

// A page that needs JavaScript is a state of its source; nothing goes stale by it.
func TestSourceThatNeedsJavaScript(t *testing.T) {
	t.Parallel()
	l := &leaflets{}
	l.set("root", concert("jazz"))
	s := l.begin(t)
	s.expect("at first", "observed")
	l.set("root", leaflet{notes: collect.Notes{{Code: collect.NoteNeedsJavaScript, Text: "scripts only"}}})
	var outcome string
	s.monitor.Visited = func(_, of string) { outcome = of }
	s.expect("scripts only", "")
	if e, is := s.last().(source.JavaScriptNeeded); !is || e.Message != "scripts only" || outcome != "needs_javascript" {
		t.Errorf("it ended with %+v, %s", s.last(), outcome)
	}
	l.set("root", concert("jazz"))
	s.expect("as before", "")
	if _, is := s.last().(source.CollectionCompleted); !is {
		t.Errorf("it ended with %+v", s.last())
	}
}

// A walk of pages that are all as they were says so.
func TestUnchangedPagesAreNotModified(t *testing.T) {
	t.Parallel()
	l := &leaflets{}
	l.set("root", concert("jazz"))
	s := l.begin(t)
	for _, unchanged := range []bool{false, true, false} {
		l.pages["root"] = leaflet{view: concert("jazz").view, unchanged: unchanged}
		s.walk()
		e, is := s.last().(source.CollectionCompleted)
		assert.True(t, is && e.NotModified == unchanged, "it ended with %+v, want unchanged: %t", s.last(), unchanged)
	}
}

// Changes of the past hasten no visit. Details.ChangedAhead decides what changes ahead.
func TestSchedulesAdaptToFutureHappenings(t *testing.T) {
	t.Parallel()
	shown := func(days ...int) leaflet {
		return leaflet{view: []collect.Observation{view("url:example.org/quiz", "Quiz", 0, func(d *happening.Details) {
			d.Instances = dates("url:example.org/quiz", days...)
		})}}
	}
	for name, tt := range map[string]struct {
		first, then leaflet
		hastens     bool
	}{
		"nothing":            {shown(10), shown(10), false},
		"a new event":        {leaflet{}, shown(10), true},
		"a new one, over":    {leaflet{}, shown(-10), false},
		"an event is gone":   {shown(10), leaflet{}, true},
		"a past one is gone": {shown(-10), leaflet{}, false},
		"one is put off":     {shown(10), shown(11), true},
		"a past date":        {shown(-14, 10), shown(-13, 10), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &leaflets{}
			l.set("root", tt.first)
			s := l.begin(t)
			s.walk()
			before := s.interval()
			l.set("root", tt.then)
			s.walk()
			assert.Equal(t, s.interval() < before, tt.hastens, "the interval goes from %s to", before)
		})
	}
}

// interval is the time from the last walk to the next.
func (s *story) interval() time.Duration {
	s.t.Helper()
	loaded := must.Get(source.Aggregate.Load(s.t.Context(), s.store, s.id))(s.t)
	return loaded.State.Interval
}

// However many walks lie behind a source, a visit reads none of them, be there news or not, and one without news adds
// nothing.
func TestVisitDoesNotReadEarlierOnes(t *testing.T) {
	t.Parallel()
	l := &leaflets{}
	l.set("root", concert("jazz"))
	s := l.begin(t)
	s.expect("at first", "observed")
	reads := &readCounter{Store: s.store}
	s.monitor.Store = reads
	for want, shown := range []string{"jazz", "quiz"} { // no news, and one event for news
		l.set("root", concert(shown))
		before := len(s.events(source.Aggregate.Category))
		s.walks.Age(24 * time.Hour) // it is due
		s.monitor.Visit(t.Context(), s.turn())
		if got := len(s.events(source.Aggregate.Category)) - before; got != want || reads.reads != 0 {
			t.Errorf("%s: %d events are recorded, want %d; the source is read %d times", shown, got, want, reads.reads)
		}
	}
}

// readCounter counts the reads of sources' streams.
type readCounter struct {
	eventstore.Store

	reads int
}

// Read implements eventstore.Store.
func (c *readCounter) Read(
	ctx context.Context, stream string, from eventstore.Revision,
) iter.Seq2[eventstore.Recorded, error] {
	if strings.HasPrefix(stream, source.Aggregate.Category) {
		c.reads++
	}
	return c.Store.Read(ctx, stream, from)
}

// A source of many pages gives way to others of its host, and goes on at its next turn, as after a stop.
func TestLongWalkGivesWay(t *testing.T) {
	t.Parallel()
	l := &leaflets{}
	for i := range 7 {
		l.set(fmt.Sprint(i), concert(fmt.Sprint(i)))
	}
	s := l.begin(t)
	s.monitor.Pages = 3
	s.expect("the first pages", "observed observed")
	stopped, stop := context.WithCancel(t.Context())
	l.pages["3"] = leaflet{before: stop}
	s.monitor.Visit(stopped, s.turn())
	l.pages["3"] = concert("3")
	for range 2 {
		s.monitor.Visit(t.Context(), s.turn())
	}
	want := []string{"root", "0", "1", "2", "3", "3", "4", "5", "6"}
	assert.Slices(t, l.asked, want, "asked for")
	assert.Equal(t, len(s.events(happening.Aggregate.Category)), 7, "happenings")
}

// A visit of a source that is paused meanwhile ends at its next page. Once the source is resumed, its walk continues.
func TestPauseEndsVisitAtNextPage(t *testing.T) {
	t.Parallel()
	l := &leaflets{}
	for i := range 3 {
		l.set(fmt.Sprint(i), concert(fmt.Sprint(i)))
	}
	s := l.begin(t)
	l.pages["1"] = leaflet{before: func() { s.when(source.Pause{Reason: "the owner objects", At: time.Now()}) }}
	var outcome string
	s.monitor.Visited = func(_, of string) { outcome = of }
	s.expect("before the pause", "observed")
	assert.True(t, slices.Equal(l.asked, []string{"root", "0", "1"}) && outcome == "paused",
		"asked for %v, then it is %s", l.asked, outcome)
	s.when(source.Resume{At: time.Now()})
	s.monitor.Visit(t.Context(), s.turn())
	assert.True(t, slices.Equal(l.asked, []string{"root", "0", "1", "2"}) && outcome == "ok",
		"asked for %v, then it is %s", l.asked, outcome)
}

// A visit that panics is left, and made again a while later.
func TestVisit_survivesAPanic(t *testing.T) {
	t.Parallel()
	for where, plant := range map[string]func(*visiting.Monitor){
		"in its own goroutine": func(m *visiting.Monitor) { m.Walks = panicking{m.Walks} },
		"in another one":       func(m *visiting.Monitor) { m.Found = func(string) { panic("planted") } },
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			l := &leaflets{}
			l.set("root", concert("jazz"))
			s := l.begin(t)
			var outcomes []string
			s.monitor.Visited = func(_, of string) { outcomes = append(outcomes, of) }
			plant(s.monitor)
			s.request(t.Context())
			turns, err := s.walks.Take(t.Context(), 1, nil)
			assert.True(t, len(turns) == 0 && err == nil && slices.Equal(outcomes, []string{"trouble"}),
				"turns %+v, %v after %q", turns, err, outcomes)
			s.walks.Age(time.Minute)
			s.turn()
		})
	}
}

// panicking is walks that panic in the end.
type panicking struct{ visiting.Walks }

// Walk implements visiting.Walks.
func (p panicking) Walk(turn visiting.Turn) visiting.Walk { return concluding{p.Walks.Walk(turn)} }

type concluding struct{ visiting.Walk }

// Conclude implements visiting.Walk.
func (concluding) Conclude(context.Context) error { panic("planted") }
