//go:build nightly

package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/cmd/internal/adminclient"
	"carillon/command/curate"
	"carillon/eventstore"
	"carillon/projections"
)

// Two calendars show the same events, under different titles and keys, and are read by two processes at the same time.
// Both processes are killed in the middle of the backfill, and again between merges. Then both show more events at
// once, and the process that merges them is stopped in the middle until the other has taken over from it, and then
// continues. Each event is one item; it is merged once; those of the backfill are not published, and each other one is
// published once.
func TestTortureMerging(t *testing.T) {
	t.Parallel()
	const before, after = 60, 90
	tw := newTwins(t)
	tw.events.Store(before)
	c := newCollecting(t, 2)
	feed := c.makeFeed()
	for _, site := range tw.sites {
		c.attachSite(feed, site)
	}
	for _, steps := range []int{1, before / 3, before, 3 * before / 2} {
		c.reach(steps, "item.added.v1", "happening.merged.v1") // of twice as many at least
		c.killAll()
		t.Logf("killed after %d steps: %v", steps, c.merges())
	}
	c.settled(before)
	c.until("the backfills have ended", func() bool {
		return c.count("SELECT count(*) FROM sources.attachments WHERE NOT backfilling") == len(tw.sites)
	})
	if _, published := c.recorded(); len(published) != 0 {
		t.Errorf("of the backfill %d are published: %s", len(published), published[0])
	}

	tw.events.Store(after)
	c.collectAll()
	hung := c.servers[c.runsCuration()]
	c.reach(2*before+1, "happening.merged.v1")
	hung.signal(syscall.SIGSTOP)
	t.Logf("stopped: %v", c.merges())
	c.until("the other process merges all", func() bool { c.freeTurns(); return c.merges().whole == after })
	hung.signal(syscall.SIGCONT)
	c.settled(after)
	c.until("all others are delivered", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.came) >= after-before
	})
	if _, published := c.recorded(); len(published) != after-before {
		t.Errorf("%d are published, want %d", len(published), after-before)
	}
	verifyReadModels(t, c.client)
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.came) != after-before {
		t.Errorf("%d are delivered, want %d", len(c.came), after-before)
	}
}

// twins are two calendars of the same events.
type twins struct {
	events atomic.Int64
	sites  []string
}

func newTwins(t *testing.T) *twins {
	t.Helper()
	tw := &twins{}
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 2)
	for _, others := range []bool{false, true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/calendar; charset=utf-8")
			_, _ = w.Write([]byte(calendarOf(int(tw.events.Load()), first, others)))
		}))
		t.Cleanup(server.Close)
		tw.sites = append(tw.sites, server.URL+"/programme.ics")
	}
	return tw
}

// calendarOf is a calendar of events that differ in their names. Others show the same under titles and keys of their
// own.
func calendarOf(events int, first time.Time, others bool) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\n")
	for i := range events {
		title, uid := nameOf(i)+" "+nameOf(i/3)+" Konzert", "own"
		if others {
			title, uid = "Live: "+title, "other"
		}
		start := first.Add(time.Duration(i*3%(24*25)) * time.Hour).Format("20060102T150405Z")
		_, _ = fmt.Fprintf(&b, "BEGIN:VEVENT\r\nUID:%d@%s.example.org\r\nSUMMARY:%s\r\nLOCATION:Kulturhaus\\, Via Dante "+
			"1\\, Bozen\r\n", i, uid, title)
		_, _ = fmt.Fprintf(&b, "DTSTART:%s\r\nDURATION:PT2H\r\nDESCRIPTION:An evening of music.\r\nEND:VEVENT\r\n", start)
	}
	b.WriteString("END:VCALENDAR\r\n")
	return b.String()
}

// nameOf makes another name for each small number.
func nameOf(n int) string {
	syllables, name := strings.Fields("Ba Ce Di Fo Gu La Me Ni Po Ru Sa Te"), ""
	for n = (n + 500_000) * 7919; n > 0; n /= len(syllables) {
		name += syllables[n%len(syllables)]
	}
	return name
}

func (c *collecting) makeFeed() string {
	c.Helper()
	var feed struct {
		ID string `json:"id"`
	}
	c.until("a feed", func() bool {
		return c.post(c.api+"/feeds/events", c.key, map[string]any{"name": "Concerts", "description": "In town"},
			&feed) == nil
	})
	c.feed = feed.ID
	return feed.ID
}

func (c *collecting) attachSite(feed, address string) {
	c.Helper()
	c.until("a source that is attached", func() bool { // each step twice is once
		created, err := c.client.AddSource(c.Context(), adminclient.NewSource{
			Type:     "site",
			URL:      address,
			Timezone: "Europe/Rome",
		})
		body := map[string]any{"sourceType": "site", "sourceId": created.ID}
		return err == nil && c.post(c.api+"/feeds/events/"+feed+"/sources", c.key, body, nil) == nil
	})
}

// reach waits until n events of some types are stored, and ends as soon as they are.
func (c *collecting) reach(count int, types ...string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	of := eventstore.Categories(happening.Aggregate.Category, item.Aggregate.Category)
	stored := 0
	for message := range eventstore.Follow(ctx, c.store, eventstore.Start, of, slog.New(slog.DiscardHandler)) {
		if message.Event != nil && slices.Contains(types, message.Event.Type) {
			if stored++; stored == count {
				return
			}
		}
	}
	c.Fatalf("%d of %d of %v", stored, count, types)
}

func (c *collecting) count(question string) int {
	c.Helper()
	n := -1
	_ = c.pool.QueryRow(c.Context(), question).Scan(&n) // tables may not be there yet
	return n
}

func (c *collecting) killAll() {
	c.Helper()
	for _, server := range c.servers {
		server.kill()
	}
	c.freeTurns()
	for _, server := range c.servers {
		server.start()
	}
}

// freeTurns frees the turns of a killed or hanging process, which takes a minute otherwise. The clock of Postgres can't
// be faked.
func (c *collecting) freeTurns() {
	c.Helper()
	if _, err := c.pool.Exec(c.Context(), "UPDATE carillon.source_walks SET held_until = '-infinity'"); err != nil {
		c.Fatal(err)
	}
}

// runsCuration is the number of the server that fills feeds, and merges.
func (c *collecting) runsCuration() (which int) {
	c.Helper()
	c.until("a process fills feeds", func() bool {
		list, err := projections.Statuses(c.Context(), c.pool)
		if err != nil {
			c.Fatal(err)
		}
		which = slices.IndexFunc(c.servers, func(server *child) bool {
			return slices.ContainsFunc(list, func(s projections.Status) bool {
				return s.Name == curate.FeedCurationName && strings.HasSuffix(s.Process, fmt.Sprintf(":%d", server.pid()))
			})
		})
		return which >= 0
	})
	return which
}

// merged are the merges in the events of all happenings.
type merged struct {
	begun, whole int // said by one of the two, by both
	problems     []string
}

func (c *collecting) merges() (m merged) {
	c.Helper()
	into, from := map[uuid.UUID]uuid.UUID{}, map[uuid.UUID]uuid.UUID{}
	for r := range c.recordedOf(happening.Aggregate.Category) {
		event, err := happening.Events.Decode(r)
		if err != nil {
			c.Fatal(err)
		}
		e, ok := event.(happening.Merged)
		if !ok {
			continue
		}
		said, other := into, e.Into
		if e.From != uuid.Nil {
			said, other = from, e.From
		}
		if _, twice := said[r.StreamID()]; twice {
			m.problems = append(m.problems, fmt.Sprintf("%s is merged twice", r.StreamID()))
		}
		said[r.StreamID()] = other
	}
	m.begun = len(from)
	for stays, goes := range from {
		if into[goes] == stays {
			m.whole++
		}
	}
	return m
}

// settled waits until each event is one item, in the read model and in the log, and looks at what was merged.
func (c *collecting) settled(events int) {
	c.Helper()
	c.until("all is one item each", func() bool {
		c.freeTurns()
		return c.caughtUp() && c.items(events) != nil && c.merges().whole == events
	})
	c.until("all is processed", c.caughtUp)
	for _, problem := range c.merges().problems {
		c.Error(problem)
	}
	there := map[uuid.UUID]bool{}
	for r := range c.recordedOf(item.Aggregate.Category) {
		switch r.Type {
		case "item.added.v1":
			there[r.StreamID()] = true
		case "item.removed.v1":
			delete(there, r.StreamID())
		}
	}
	if len(there) != events {
		c.Errorf("the log has %d items, want %d: %v", len(there), events, slices.Collect(maps.Keys(there)))
	}
}
