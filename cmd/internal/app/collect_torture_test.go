//go:build nightly

package app_test

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"carillon/cmd/internal/adminclient"
	"carillon/eventstore/esdb"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// The versions of a programme: of the opening alone, of all, and with a seventh of all gone, one moved and one
// cancelled.
const (
	opening = iota
	all
	changed
)

// programme is a number of sites with events, each at another address.
type programme struct {
	events int // of each site
	first  time.Time
	sites  []*house
}

func newProgramme(t *testing.T, sourceType string, sites, events int) *programme {
	t.Helper()
	p := &programme{events: events, first: time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 2)}
	for range sites {
		p.sites = append(p.sites, newHouse(t, sourceType))
	}
	return p
}

func (p *programme) turnTo(version int) {
	for n, site := range p.sites {
		for i := range p.events {
			event, there := p.version(i, version)
			event.title = fmt.Sprintf("Event %d of site %d", i, n)
			if path := fmt.Sprintf("/e/%d", i); there {
				site.show(path, event)
			} else {
				site.remove(path)
			}
		}
	}
}

// version is an event in a version of the programme.
func (p *programme) version(i, version int) (event shown, there bool) {
	event.start = p.first.Add(time.Duration(i%(24*25)) * time.Hour)
	switch {
	case version == opening:
		return event, i == 0
	case version == changed && i%7 == 0:
		return event, false
	case version == changed && i%7 == 1:
		event.start = event.start.AddDate(0, 0, 1)
	}
	event.cancelled = version == changed && i%7 == 2
	return event, true
}

// changes counts what is other of each site in the last version.
func (p *programme) changes() (gone, moved, cancelled int) {
	return (p.events + 6) / 7, (p.events + 5) / 7, (p.events + 4) / 7
}

// forget begins to count requests.
func (p *programme) forget() {
	for _, site := range p.sites {
		site.mu.Lock()
		site.asked = nil
		site.mu.Unlock()
	}
}

// requests counts the pages that were asked for, and says how close to each other two of one site came.
func (p *programme) requests() (n int, closest time.Duration) {
	closest = time.Hour
	for _, site := range p.sites {
		site.mu.Lock()
		n += len(site.asked)
		for i := 1; i < len(site.asked); i++ {
			closest = min(closest, site.asked[i].Sub(site.asked[i-1]))
		}
		site.mu.Unlock()
	}
	return n, closest
}

// A page of many calendar events is visited, twice, by a server that is killed again and again meanwhile. The result
// equals that of one quiet run.
func TestTortureCollect(t *testing.T) {
	t.Parallel()
	kills, events := tortureKills(2), 140
	if kills > 2 {
		events = 2000
	}
	compareWithQuiet(t, newProgramme(t, calendar, 1, events), kills, 1)
}

// Sites of many pages are walked by two processes, either of which is killed at any time.
func TestTortureCollectOfTwo(t *testing.T) {
	t.Parallel()
	kills, sites, events := tortureKills(2), 2, 7
	if kills > 2 {
		sites, events = 10, 30
	}
	compareWithQuiet(t, newProgramme(t, "sitemap", sites, events), kills, 2)
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
	lost := killed.asked - quiet.asked
	assert.True(t, lost <= kills*len(p.sites), "%d pages were asked for again after %d kills", lost, kills)
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

// collectingCluster starts servers in processes of their own, and opens their event store.
func collectingCluster(t *testing.T, servers int) *collecting {
	t.Helper()
	c := newCluster(t, layout{servers: servers, env: []string{"CHILD_COLLECTS=1"}})
	store := must.Get(esdb.Open(c.store, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(func() { _ = store.Close() })
	return newCollecting(c, store)
}

// walkAll turns to another version of the programme, and has it collected by servers that are killed meanwhile, evenly
// over the events of happenings that are to come.
func (c *collecting) walkAll(p *programme, version, kills, events int) {
	c.Helper()
	p.turnTo(version)
	before, walks := c.seen(), c.completed()
	c.collectAll()
	for i := range kills {
		after := before + events*(i+1)/(kills+1)
		c.until("the visits go on", func() bool { return c.seen() >= after })
		serverKilled.strike(c.cluster)
		c.freeTurns()
	}
	c.until("all walks went through", func() bool { return c.completed() >= walks+len(p.sites) })
}

// freeTurns frees the turns of a killed or stopped process, which takes a minute otherwise. The clock of Postgres can't
// be faked. If there are two servers, the other one loses its turns as well.
func (c *collecting) freeTurns() {
	c.Helper()
	must.Get(c.pool.Exec(c.Context(), "UPDATE carillon.source_walks SET held_until = '-infinity'"))(c)
}

// collected collects from the programme, first of the opening alone, then of all, then once more after many changes.
func (p *programme) collected(t *testing.T, kills, servers int) outcome {
	t.Helper()
	p.turnTo(opening)
	p.forget()
	c := collectingCluster(t, servers)
	began := time.Now()
	for _, site := range p.sites {
		c.attach(adminclient.NewSource{Type: site.sourceType, URL: site.address(), Timezone: "Europe/Rome"})
	}
	c.until("all sources were collected from", func() bool { return c.completed() >= len(p.sites) })
	events := len(p.sites) * p.events
	c.until("the opening is an item", func() bool { return c.items(len(p.sites)) != nil })
	c.walkAll(p, all, kills-kills/3, events-len(p.sites))
	c.until("all events are items", func() bool { return c.items(events) != nil })
	gone, moved, cancelled := p.changes()
	c.walkAll(p, changed, kills/3, len(p.sites)*(gone+moved+cancelled))
	published := events - len(p.sites) + len(p.sites)*(moved+cancelled)
	c.until("all is delivered", func() bool { events, _ := c.box.arrived(); return events >= published })
	c.until("all is shown", c.caughtUp)
	o := outcome{took: time.Since(began), items: c.items(events)}
	o.happenings, o.webhooks = c.recorded()
	o.asked, o.closest = p.requests()
	var came int
	came, o.again = c.box.arrived()
	assert.True(t, len(o.webhooks) == published && came == published,
		"%d events are published and %d delivered, want %d", len(o.webhooks), came, published)
	c.box.eachOnce()
	return o
}
