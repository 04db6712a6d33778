//go:build nightly

package app_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"
)

// A page of many calendar events is visited, twice, by a server that is killed again and again meanwhile. The result
// equals that of one quiet run.
func TestTortureCollect(t *testing.T) {
	t.Parallel()
	kills, events := tortureKills(2), 140
	if kills > 2 {
		events = 2000
	}
	compareWithQuiet(t, newProgramme(t, calendarPages, 1, events), kills, 1)
}

// Sites of many pages are walked by two processes, either of which is killed at any time.
func TestTortureCollectOfTwo(t *testing.T) {
	t.Parallel()
	kills, sites, events := tortureKills(2), 2, 7
	if kills > 2 {
		sites, events = 10, 30
	}
	compareWithQuiet(t, newProgramme(t, sitemapPages, sites, events), kills, 2)
}

func tortureKills(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("CARILLON_TORTURE_KILLS")); err == nil {
		return n
	}
	return usual
}

func compareWithQuiet(t *testing.T, p *programme, kills, servers int) {
	t.Helper()
	quiet := p.collected(t, 0, 1)
	killed := p.collected(t, kills, servers)
	expectSame(t, "happenings", slices.Sorted(maps.Values(quiet.happenings)),
		slices.Sorted(maps.Values(killed.happenings)))
	expectSame(t, "items", quiet.items, killed.items)
	expectSame(t, "webhooks", quiet.webhooks, killed.webhooks)
	t.Logf("quiet: %s", quiet)
	t.Logf("killed %d times: %s", kills, killed)
	// A visit that is killed loses the page it was at. Which of the visits in progress a kill hit is unknown.
	if lost := killed.asked - quiet.asked; lost > kills*len(p.sites) {
		t.Errorf("%d pages were asked for again after %d kills", lost, kills)
	}
	// the pace is a second; requests may be late on their way
	if most := time.Second / 2; kills > 0 && killed.closest < most {
		t.Errorf("two requests of one site came within %s", killed.closest)
	}
}

// expectSame compares lists in order, and shows where they differ first.
func expectSame(t *testing.T, what string, quiet, killed []string) {
	t.Helper()
	for i := range max(len(quiet), len(killed)) {
		switch {
		case i >= len(quiet):
			t.Errorf("%s: not there in a quiet run:\n%s", what, killed[i])
		case i >= len(killed):
			t.Errorf("%s: there in a quiet run only:\n%s", what, quiet[i])
		case quiet[i] != killed[i]:
			t.Errorf("%s:\n%s\nin a quiet run:\n%s", what, killed[i], quiet[i])
		default:
			continue
		}
		return
	}
}

// outcome is the result of collecting, without parts that differ between any two runs.
type outcome struct {
	happenings      map[string]string // by id: their events
	items, webhooks []string
	again           int // webhooks that came more than once, under the same id

	asked   int           // pages
	closest time.Duration // between two pages of one site
	took    time.Duration
}

func (o outcome) String() string {
	return fmt.Sprintf("%d happenings, %d items, %d webhooks, %d of them came again, %d pages asked for, of one site %s "+
		"apart at least, in %s",
		len(o.happenings), len(o.items), len(o.webhooks), o.again, o.asked, o.closest.Round(time.Millisecond),
		o.took.Round(time.Second))
}

// collected collects from the programme, first of the opening alone, then of all, then once more after many changes.
func (p *programme) collected(t *testing.T, kills, servers int) outcome {
	t.Helper()
	p.turnTo(opening)
	p.forget()
	c := newCollecting(t, servers)
	began := time.Now()
	c.attach(p)
	events := len(p.sites) * p.events
	c.until("the opening is an item", func() bool { return c.items(len(p.sites)) != nil })
	c.walkAll(p, all, kills-kills/3, events-len(p.sites))
	c.until("all events are items", func() bool { return c.items(events) != nil })
	gone, moved, cancelled := p.changes()
	c.walkAll(p, changed, kills/3, len(p.sites)*(gone+moved+cancelled))
	published := events - len(p.sites) + len(p.sites)*(moved+cancelled)
	c.until("all is delivered", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.came) >= published
	})
	c.until("all is shown", c.caughtUp)
	o := outcome{took: time.Since(began), items: c.items(events)}
	o.happenings, o.webhooks = c.recorded()
	o.asked, o.closest = p.requests()
	if len(o.webhooks) != published {
		t.Errorf("%d events are published, want %d", len(o.webhooks), published)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.came) != published {
		t.Errorf("%d events were delivered, want %d", len(c.came), published)
	}
	for event, ids := range c.came {
		if len(ids) != 1 {
			t.Errorf("event %s came under %d webhook-ids", event, len(ids))
		}
		for _, times := range ids {
			o.again += times - 1
		}
	}
	return o
}
