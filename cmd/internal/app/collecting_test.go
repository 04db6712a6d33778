package app_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/config"
)

// house is a site whose programme the test decides: a page for each event, and a page that shows all of them at once,
// lists them in a sitemap, or links them.
type house struct {
	*httptest.Server

	sourceType string
	mu         sync.Mutex
	events     map[string]shown // by path
}

// shown is an event as a page shows it.
type shown struct {
	title, venue string
	start        time.Time
	cancelled    bool
}

func newHouse(t *testing.T, sourceType string) *house {
	t.Helper()
	h := &house{sourceType: sourceType, events: map[string]shown{}}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *house) show(path string, event shown) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events[path] = event
}

func (h *house) remove(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.events, path)
}

func (h *house) address() string {
	return h.URL + map[string]string{
		"site":          "/programme",
		"sitemap":       "/sitemap.xml",
		"siteIndexPage": "/programme",
	}[h.sourceType]
}

func (h *house) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	paths := slices.Sorted(maps.Keys(h.events))
	var b strings.Builder
	event, there := h.events[r.URL.Path]
	switch {
	case r.URL.Path == "/sitemap.xml" && h.sourceType == "sitemap":
		w.Header().Set("Content-Type", "application/xml")
		b.WriteString(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
		for _, path := range paths {
			fmt.Fprintf(&b, "<url><loc>%s%s</loc></url>", h.URL, path)
		}
		b.WriteString("</urlset>")
	case r.URL.Path == "/programme":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		b.WriteString("<html><head><title>Programme</title></head><body><h1>Programme</h1><main>")
		for _, path := range paths {
			fmt.Fprintf(&b, `<p><a href="%s">%s</a></p>`, path, h.events[path].title)
			if h.sourceType == "site" {
				b.WriteString(h.events[path].markup(path))
			}
		}
		b.WriteString("</main></body></html>")
	case there:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(&b, "<html><head><title>%s</title></head><body><h1>%[1]s</h1>%s</body></html>", event.title,
			event.markup(r.URL.Path))
	default:
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write([]byte(b.String()))
}

func (s shown) markup(path string) string {
	status := "EventScheduled"
	if s.cancelled {
		status = "EventCancelled"
	}
	return fmt.Sprintf(`<script type="application/ld+json">{"@context":"https://schema.org","@type":"Event","name":%q,`+
		`"url":%q,"startDate":%q,
		"eventStatus":"https://schema.org/%s","location":{"@type":"Place","name":%q,"address":{"@type":"PostalAddress",`+
		`"streetAddress":"Market 1",
		"addressLocality":"Delft","addressCountry":"NL"}}}</script>`, s.title, path, s.start.Format(time.RFC3339),
		status, s.venue)
}

// webhooks counts what has come, by type and title.
func (c *collecting) webhooks() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	for id, body := range c.told {
		var envelope struct {
			Type string `json:"type"`
			Data struct {
				Title string `json:"title"`
			} `json:"data"`
		}
		if err := json.Unmarshal(body, &envelope); err != nil {
			c.Error(err)
		}
		for _, times := range c.came[id] {
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
		if err := c.client.CollectSource(c.Context(), id); err != nil {
			c.Fatal(err)
		}
	}
	c.until("all walks went through", func() bool { return c.completed() >= before+len(sources) })
	c.until("all is shown", c.caughtUp)
	c.until("all is delivered", func() bool {
		_, published := c.recorded()
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.told) >= len(published)
	})
}

// itemsByTitle are the feed's items: their events by title.
func (c *collecting) itemsByTitle() map[string][]uuid.UUID {
	c.Helper()
	request, err := http.NewRequestWithContext(c.Context(), http.MethodGet,
		fmt.Sprintf("%s/feeds/events/%s/items?limit=100&until=%s",
			c.api, c.feed, time.Now().AddDate(0, 0, 29).UTC().Format(time.RFC3339)), http.NoBody)
	if err != nil {
		c.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	response, err := impatient.Do(request)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var page struct {
		Data struct {
			Items []struct {
				EventID uuid.UUID `json:"eventId"`
				Title   string    `json:"title"`
			} `json:"items"`
		} `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil {
		c.Fatal(err)
	}
	byTitle := map[string][]uuid.UUID{}
	for _, item := range page.Data.Items {
		byTitle[item.Title] = append(byTitle[item.Title], item.EventID)
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
	if !slices.Equal(got, want) {
		c.Errorf("%s the items are %q, want %q", when, got, want)
	}
}

func (c *collecting) expectWebhooks(when string, want map[string]int) {
	c.Helper()
	if got := c.webhooks(); !maps.Equal(got, want) {
		c.Errorf("%s the webhooks are %v, want %v", when, got, want)
	}
}

// collectingHere starts a server of this process, with access to accounts, that keeps no pace with hosts.
func collectingHere(t *testing.T, accounts []*account) *collecting {
	t.Helper()
	p := prepare(t, func(cfg *config.Config) {
		for _, a := range accounts {
			a.access(&cfg.Platforms)
		}
	})
	p.unhurried = true
	p.open()
	c := &collecting{pool: p.app.Queries.Pool}
	c.workload = newWorkload(t, p.cfg.DataDir, "http://"+p.app.APIAddr().String(), "http://"+p.app.AdminAddr().String())
	c.watch(p.app.Commands.Store)
	return c
}

// From all seven types of sources to webhooks: events of the first visit are no news; later additions, cancellations
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
	// A native event of the platform, if it has such; all others are posts, of which some announce no event.
	accounts := []*account{newAccount(t, "facebook"), newAccount(t, "instagram"), newAccount(t, "tiktok"),
		newAccount(t, "twitter")}
	// no others are then
	days := map[string][2]int{"facebook": {6, 10}, "instagram": {14, 18}, "tiktok": {19, 23}, "twitter": {24, 26}}
	for _, a := range accounts {
		title := "What stays at the " + a.platformType
		if a.platformType == "facebook" {
			a.post(posted{event: title, start: evening(days[a.platformType][0])})
		} else {
			a.announce(title, evening(days[a.platformType][0]))
		}
		a.post(posted{text: "Thanks to everyone who came!"})
		first = append(first, title)
	}
	c := collectingHere(t, accounts)
	var feed struct {
		ID string `json:"id"`
	}
	if err := c.post(c.api+"/feeds/events", c.key, map[string]any{"name": "Concerts", "description": "In town"},
		&feed); err != nil {
		t.Fatal(err)
	}
	c.feed = feed.ID
	var sources []uuid.UUID
	attach := func(source adminclient.NewSource) {
		t.Helper()
		source.Timezone = "Europe/Amsterdam"
		created, err := c.client.AddSource(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, created.ID)
		if err := c.post(c.api+"/feeds/events/"+c.feed+"/sources", c.key, map[string]any{
			"sourceType": source.Type,
			"sourceId":   created.ID,
		}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range houses {
		attach(adminclient.NewSource{Type: h.sourceType, URL: h.address()})
	}
	for _, a := range accounts {
		attach(adminclient.NewSource{Type: a.platformType, Handle: "@" + accountName})
	}
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
	for _, a := range accounts {
		title := "What is new at the " + a.platformType
		a.announce(title, evening(days[a.platformType][1]))
		a.post(posted{text: "The kitchen is open until 22:00."})
		all, want["event.item.added "+title] = append(all, title), 1
	}
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
	if len(both) != 1 {
		t.Fatalf("the concert is %d events", len(both))
	}
	if split, err := c.client.SplitHappening(t.Context(), both[0]); err != nil || len(split.Split) != 1 {
		t.Fatalf("split: %+v, %v", split, err)
	}
	c.until("all is shown", c.caughtUp)
	c.until("they are two again", func() bool { return len(c.itemsByTitle()["The Bells of Delft"]) == 2 })
	c.again(sources)
	c.expectItems("after the split", append(all, "The Bells of Delft")...)
	c.expectWebhooks("after the split", want)
	verifyReadModels(t, c.client)
	for _, a := range accounts {
		c.expectNoSecrets(a.token)
	}
}
