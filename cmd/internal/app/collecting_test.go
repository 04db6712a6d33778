package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/config"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// webhooks counts what has come, by type and title.
func (c *collecting) webhooks() map[string]int {
	c.box.mu.Lock()
	defer c.box.mu.Unlock()
	counts := map[string]int{}
	for id, body := range c.box.bodies {
		var envelope struct {
			Type, Source, Subject string
			Data                  struct{ ID, Title string }
		}
		assert.OK(c, json.Unmarshal(body, &envelope))
		assert.True(c, envelope.Source == "/feeds/events/"+c.feed && envelope.Subject == envelope.Data.ID, "sent %s", body)
		for _, times := range c.box.came[id] {
			counts[strings.TrimSpace(envelope.Type+" "+envelope.Data.Title)] += times
		}
	}
	return counts
}

// again has all sources walked, and waits until what follows from it is delivered.
func (c *collecting) again(sources []uuid.UUID) {
	c.Helper()
	before := c.completed()
	for _, id := range sources {
		must.OK(c, c.client.CollectSource(c.Context(), id))
	}
	c.until("all walks went through", func() bool { return c.completed() >= before+len(sources) })
	c.until("all is shown", c.caughtUp)
	c.until("all is delivered", func() bool {
		_, published := c.recorded()
		events, _ := c.box.arrived()
		return events >= len(published)
	})
}

// itemsByTitle are the feed's items: their events by title.
func (c *collecting) itemsByTitle() map[string][]string {
	c.Helper()
	byTitle := map[string][]string{}
	items, _ := c.page(0)
	for _, item := range items {
		title := fmt.Sprint(item["title"])
		byTitle[title] = append(byTitle[title], fmt.Sprint(item["eventId"]))
	}
	return byTitle
}

func (c *collecting) expectItems(when string, want ...string) {
	c.Helper()
	var got []string
	for title, events := range c.itemsByTitle() {
		for range events {
			got = append(got, title)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	assert.True(c, slices.Equal(got, want), "%s the items are %q, want %q", when, got, want)
}

func (c *collecting) expectWebhooks(when string, want map[string]int) {
	c.Helper()
	got := c.webhooks()
	assert.True(c, maps.Equal(got, want), "%s the webhooks are %v, want %v", when, got, want)
}

// collectingHere starts a server of this process, with access to an account, that keeps no pace with hosts.
func collectingHere(t *testing.T, a *account) *collecting {
	t.Helper()
	p := prepare(t, func(cfg *config.Config) { a.access(&cfg.Platforms) })
	p.noHostDelay = true
	p.open()
	in := &installation{
		T:      t,
		data:   p.cfg.DataDir,
		apis:   []string{"http://" + p.app.APIAddr().String()},
		admins: []string{"http://" + p.app.AdminAddr().String()},
	}
	must.True(t, in.credentials(), "no credentials")
	return newCollecting(&cluster{installation: in, pool: p.app.Queries.Pool}, p.app.Commands.Store)
}

// From sites and an account to webhooks: events of the first visit are no news; later additions, cancellations
// and moves are published once; disappearances are not; one concert at two sites is one event, and two again after a
// split, which is no news.
func TestFromSitesToWebhooks(t *testing.T) {
	t.Parallel()
	today := time.Now().UTC().Truncate(24 * time.Hour) // also if the test runs into the next day
	evening := func(days int) time.Time { return today.AddDate(0, 0, days).Add(19 * time.Hour) }
	houses := []*house{newHouse(t, "site"), newHouse(t, "sitemap"), newHouse(t, "siteIndexPage")}
	var first []string
	for i, h := range houses {
		for j, name := range []string{"stays", "leaves", "is off", "moves"} {
			title := fmt.Sprintf("What %s at the %s", name, h.sourceType)
			first = append(first, title)
			h.show(fmt.Sprintf("/e/%d", j), shown{title: title, venue: "Hall " + h.sourceType, start: evening(3 + 4*j + i)})
		}
	}
	a := newAccount(t)
	a.hold("What stays at facebook", evening(6))
	a.post("1", "Thanks to everyone who came!")
	first = append(first, "What stays at facebook")
	c := collectingHere(t, a)
	var sources []uuid.UUID
	attach := func(source adminclient.NewSource) {
		source.Timezone = "Europe/Amsterdam"
		sources = append(sources, c.attach(source))
	}
	for _, h := range houses {
		attach(adminclient.NewSource{Type: h.sourceType, URL: h.address()})
	}
	attach(adminclient.NewSource{Type: "facebook", Handle: "@" + accountName})
	c.until("all sources were collected from", func() bool { return c.completed() >= len(sources) })
	c.until("all is shown", c.caughtUp)
	c.expectItems("after the backfill", first...)
	c.expectWebhooks("after the backfill", map[string]int{})

	want, all := map[string]int{}, slices.Clone(first)
	for i, h := range houses {
		name := func(what string) string { return fmt.Sprintf("What %s at the %s", what, h.sourceType) }
		h.show("/e/4", shown{title: name("is new"), venue: "Hall " + h.sourceType, start: evening(20 + i)})
		h.remove("/e/1")
		h.show("/e/2", shown{
			title:     name("is off"),
			venue:     "Hall " + h.sourceType,
			start:     evening(11 + i),
			cancelled: true,
		})
		h.show("/e/3", shown{title: name("moves"), venue: "Hall " + h.sourceType, start: evening(15 + i).Add(time.Hour)})
		all = append(all, name("is new"))
		want["event.item.added "+name("is new")] = 1
		want["event.occurrence.changed "+name("is off")], want["event.occurrence.changed "+name("moves")] = 1, 1
	}
	const title = "What is new at facebook"
	a.post("2", title+" on "+evening(10).Format("Monday 2 January 2006 at 15:04")+", Market 1, Delft. Free entry.")
	a.post("3", "The kitchen is open until 22:00.")
	all, want["event.item.added "+title] = append(all, title), 1
	c.again(sources)
	c.expectItems("after the changes", all...)
	c.expectWebhooks("after the changes", want)

	// Two sites show one concert, each at another address.
	for _, h := range houses[:2] {
		h.show("/e/both", shown{title: "The Bells of Delft", venue: "New Church", start: evening(25)})
	}
	c.again(sources)
	all = append(all, "The Bells of Delft")
	want["event.item.added The Bells of Delft"] = 1
	c.expectItems("after two showed one", all...)
	c.expectWebhooks("after two showed one", want)
	both := c.itemsByTitle()["The Bells of Delft"]
	must.Equal(t, len(both), 1, "the concert … events")
	must.Equal(t, len(must.Get(c.client.SplitHappening(t.Context(), uuid.MustParse(both[0])))(t).Split), 1, "split")
	var acts []string
	for r := range c.recordedOf("operator") {
		if r.Type == "operator.acted.v1" {
			acts = append(acts, string(r.Data))
		}
	}
	assert.True(t, len(acts) == 1 && strings.Contains(acts[0], both[0]), "on record: %q", acts)
	c.until("all is shown", c.caughtUp)
	c.until("they are two again", func() bool { return len(c.itemsByTitle()["The Bells of Delft"]) == 2 })
	c.again(sources)
	c.expectItems("after the split", append(all, "The Bells of Delft")...)
	c.expectWebhooks("after the split", want)
	verifyReadModels(t, c.client)
	c.expectNoSecrets(accountToken)
}
