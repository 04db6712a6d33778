//go:build nightly

package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/suite/children"
	"carillon/command/curate"
	"carillon/eventstore"
	"carillon/eventstore/storetest/must"
)

// Two calendars show the same events, under different titles and keys, and are read by two processes at the same time.
// Both processes are killed in the middle of the backfill, and again between merges. Then both show more events at
// once, and the process that merges them is stopped in the middle until the other has taken over from it, and then
// continues. Each event is one item; it is merged once; those of the backfill are not published, and each other one is
// published once.
func TestTortureMerging(t *testing.T) {
	t.Parallel()
	const before, after = 60, 90
	tw := &twins{
		first:  time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 2),
		own:    newHouse(t, calendar),
		others: newHouse(t, calendar),
	}
	tw.show(before)
	c := collectingCluster(t, 2)
	for _, site := range []*house{tw.own, tw.others} {
		c.attach(adminclient.NewSource{Type: "site", URL: site.address(), Timezone: "Europe/Rome"})
	}
	for _, steps := range []int{1, before / 3, before, 3 * before / 2} {
		c.reach(steps, "item.added.v1", "happening.merged.v1") // of twice as many at least
		bothKilled.strike(c.cluster)
		c.freeTurns()
		t.Logf("killed after %d steps: %v", steps, c.merges())
	}
	c.settled(before)
	c.until("the backfills have ended", func() bool {
		return c.count("SELECT count(*) FROM sources.attachments WHERE NOT backfilling") == 2
	})
	if _, published := c.recorded(); len(published) != 0 {
		t.Errorf("of the backfill %d are published: %s", len(published), published[0])
	}

	tw.show(after)
	c.collectAll()
	var hung *children.Child
	c.until("a process merges", func() bool {
		which := c.runs(curate.FeedCurationName)
		if which >= 0 {
			hung = c.servers[which]
		}
		return which >= 0
	})
	c.reach(2*before+1, "happening.merged.v1")
	hung.Signal(syscall.SIGSTOP)
	t.Logf("stopped: %v", c.merges())
	c.until("the other process merges all", func() bool { c.freeTurns(); return c.merges().whole == after })
	hung.Signal(syscall.SIGCONT)
	c.settled(after)
	c.until("all others are delivered", func() bool {
		events, _ := c.box.arrived()
		return events >= after-before
	})
	if _, published := c.recorded(); len(published) != after-before {
		t.Errorf("%d are published, want %d", len(published), after-before)
	}
	verifyReadModels(t, c.client)
	if events, _ := c.box.arrived(); events != after-before {
		t.Errorf("%d are delivered, want %d", events, after-before)
	}
}

// twins are two calendars of the same events.
type twins struct {
	first       time.Time
	own, others *house
}

// show lets both show a number of events that differ in their names; the others under titles and keys of their own.
func (tw *twins) show(events int) {
	for i := range events {
		event := shown{
			title: nameOf(i) + " " + nameOf(i/3) + " Konzert",
			venue: `Kulturhaus\, Via Dante 1\, Bozen`,
			start: tw.first.Add(time.Duration(i*3%(24*25)) * time.Hour),
		}
		tw.own.show(fmt.Sprint("/own/", i), event)
		event.title = "Live: " + event.title
		tw.others.show(fmt.Sprint("/other/", i), event)
	}
}

// nameOf makes another name for each small number.
func nameOf(n int) string {
	syllables, name := strings.Fields("Ba Ce Di Fo Gu La Me Ni Po Ru Sa Te"), ""
	for n = (n + 500_000) * 7919; n > 0; n /= len(syllables) {
		name += syllables[n%len(syllables)]
	}
	return name
}

// reach waits until n events of some types are stored, and ends as soon as they are.
func (c *collecting) reach(count int, types ...string) {
	c.Helper()
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	of := eventstore.Categories(happening.Aggregate.Category, item.Aggregate.Category)
	stored := 0
	for message := range eventstore.Follow(ctx, c.events, eventstore.Start, of, slog.New(slog.DiscardHandler)) {
		if message.Event != nil && slices.Contains(types, message.Event.Type) {
			if stored++; stored == count {
				return
			}
		}
	}
	c.Fatalf("%d of %d of %v", stored, count, types)
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
		event := must.Get(happening.Events.Decode(r))(c)
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
