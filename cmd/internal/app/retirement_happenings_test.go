package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/config"
	"carillon/command/irreversible"
	"carillon/command/retire"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/items"
	"carillon/projections/sources"
)

// collects is a process that keeps happenings for a time, with a feed.
type collects struct {
	*process
	feed string
}

func newCollects(t *testing.T) *collects {
	t.Helper()
	c := &collects{process: prepare(t, func(cfg *config.Config) { cfg.RetainHappenings = kept })}
	c.noHostDelay = true
	c.open()
	c.feed = c.newFeed()
	return c
}

func (c *collects) newFeed() string {
	c.Helper()
	made := c.call(http.MethodPost, "/feeds/events", map[string]any{"name": "Concerts", "description": "In town"},
		http.StatusCreated)
	return fmt.Sprint(made["id"])
}

// add registers a source.
func (c *collects) add(h *house) uuid.UUID {
	c.Helper()
	made := must.Get(c.operator().AddSource(c.Context(), adminclient.NewSource{
		Type:     h.sourceType,
		URL:      h.address(),
		Timezone: "Europe/Amsterdam",
	}))(c)
	return made.ID
}

func (c *collects) attach(feed string, h *house, source uuid.UUID) {
	c.Helper()
	c.call(http.MethodPost, "/feeds/events/"+feed+"/sources", map[string]any{
		"sourceType": h.sourceType,
		"sourceId":   source,
	}, http.StatusCreated)
}

// collect has a source walked.
func (c *collects) collect(source uuid.UUID) {
	c.Helper()
	const completed = "SELECT collections FROM sources.sources WHERE id = $1 AND state = 'ok'"
	before := c.count(completed, source)
	must.OK(c, c.operator().CollectSource(c.Context(), source))
	c.eventually("the source was walked", func() bool { return c.count(completed, source) > before })
}

// shows waits until a feed has a number of items.
func (c *collects) shows(feed string, want int) {
	c.Helper()
	c.eventually(fmt.Sprintf("there are %d items", want), func() bool {
		return c.count("SELECT count(*) FROM items.items WHERE feed_id = $1", feed) == want
	})
}

// titled finds the item of a title.
func (c *collects) titled(title string) (item, event uuid.UUID) {
	c.Helper()
	err := c.app.Queries.Pool.QueryRow(c.Context(), "SELECT id, happening_id FROM items.items WHERE feed_id = $1 AND "+
		"strpos(convert_from(current, 'UTF8'), $2) > 0", c.feed, title).Scan(&item, &event)
	must.True(c, err == nil, "item %q: %v", title, err)
	return item, event
}

// counted returns the counts that outlive retired happenings.
func (c *collects) counted() map[string]any {
	c.Helper()
	return c.views("feedback_days",
		"(SELECT source_id, coalesce(on_show, 0) + coalesce(gone, 0) + coalesce(retired, 0) AS shown FROM analytics.sources)",
		"(SELECT feed_id, source_id, backfilling, added FROM sources.attachments)")
}

func (c *collects) rebuildItems() {
	c.Helper()
	c.rebuild(items.ReadModel.Name, sources.ReadModel.Name)
}

func TestHappeningsRetirement(t *testing.T) {
	t.Parallel()
	c := newCollects(t)
	now := time.Now().UTC().Truncate(time.Hour)
	first, second := newHouse(t, "site"), newHouse(t, "site")
	over := shown{title: "Past Concert", venue: "Grand Hall", start: now.AddDate(0, 0, -1)}
	first.show("/e/1", over)
	second.show("/e/1", over) // the same one
	first.show("/e/2", shown{title: "Coming Soon", venue: "Small Hall", start: now.AddDate(0, 0, 20)})
	source, other := c.add(first), c.add(second)
	c.attach(c.feed, first, source)
	c.attach(c.feed, second, other)
	c.eventually("both are collected", func() bool {
		return c.count("SELECT count(*) FROM sources.attachments WHERE NOT backfilling") == 2
	})
	c.eventually("the concert of both is one", func() bool { return c.count("SELECT count(*) FROM items.merged") == 1 })
	c.shows(c.feed, 2)
	item, event := c.titled(over.title)
	path := "/feeds/events/" + c.feed + "/items/" + item.String()
	c.call(http.MethodPost, path+"/feedback", map[string]any{"rating": "positive"}, http.StatusOK)
	must.Get(c.operator().Seal(t.Context()))(t)
	published, before := c.streams("publication"), c.counted()
	must.Equal(t, must.Get(c.app.RetireAt(t.Context(), time.Now(), nil))(t), 0, "young happenings are retired")
	var retirer *retire.Retirer
	n, err := c.app.RetireAt(t.Context(), later(), func(r *retire.Retirer) {
		retirer = r
		due, err := r.Happenings.Due(t.Context(), later())
		if err != nil || due != (irreversible.Share{Due: 1, Of: 3}) { // the other one is merged into it
			t.Errorf("due: %+v, %v", due, err)
		}
	})
	must.True(t, err == nil && n == 2, "%d happenings retired, %v", n, err)
	total, _ := retirer.Retired()
	assert.True(t, total == (retire.Totals{Happenings: 2}), "totals of the process: %+v", total)
	check := func(when string) {
		t.Helper()
		assert.Alike(t, c.counted(), before, "%s the counts differ", when)
		c.shows(c.feed, 1)
		unknown := "/feeds/events/" + c.feed + "/items/" + uuid.NewString()
		for method, rest := range map[string]string{http.MethodGet: "", http.MethodPost: "/feedback"} {
			var body any
			if method == http.MethodPost {
				body = map[string]any{"rating": "positive"}
			}
			got := c.refused(method, path+rest, body, http.StatusNotFound, "NOT_FOUND")
			if want := c.refused(method, unknown+rest, body, http.StatusNotFound, "NOT_FOUND"); got != want {
				t.Errorf("%s a retired item is answered %q, an unknown one %q", when, got, want)
			}
		}
		assert.True(t, assert.Err(c.operator().Happening(t.Context(), event)) != nil, "%s the happening is shown", when)
		_, err := c.operator().SplitHappening(t.Context(), event)
		assert.True(t, err != nil && strings.Contains(err.Error(), "no event"), "%s the happening was split: %v", when, err)
		n, m := c.streams("happening"), c.streams("item")
		assert.True(t, n == 1 && m == 1, "%s %d happenings and %d items are in the store", when, n, m)
		assert.Equal(t, c.streams("publication"), published, "%s … events are published before", when)
		for _, table := range []string{"happenings WHERE id", "carried WHERE happening_id", "marks WHERE happening_id"} {
			assert.Equal(t, c.count("SELECT count(*) FROM feed_curation."+table+" = $1", event), 0,
				"%s the curation knows it in %s", when, table)
		}
	}
	c.eventually("the curation has forgotten it", func() bool {
		return c.count("SELECT count(*) FROM feed_curation.happenings") == 1
	})
	check("after the retirement")
	report := c.verified()
	assert.True(t, report.OK() && report.Removed != 0, "the log differs from its tree heads: %+v", report)
	c.rebuildItems()
	check("after a rebuild")
	// Sources still show it, and one in other words.
	over.venue = "Grand Hall, Entrance B"
	first.show("/e/1", over)
	c.collect(source)
	c.collect(other)
	assert.Equal(t, c.count("SELECT new + revised + stale FROM sources.sources WHERE id = $1", source), 0,
		"changes are counted")
	check("after walks")
	// The memory of walks is lost.
	must.Get(c.app.Queries.Pool.Exec(t.Context(), "DELETE FROM carillon.source_walks"))(t)
	c.collect(source)
	c.restart()
	check("after a restart")
	// A feed that the source is attached to gets the other one alone.
	another := c.newFeed()
	c.attach(another, first, source)
	c.shows(another, 1)
	// The address shows something new.
	first.show("/e/1", shown{title: "Past Concert", venue: "Grand Hall", start: now.AddDate(0, 0, 10)})
	c.collect(source)
	c.shows(c.feed, 2)
	_, next := c.titled("Past Concert")
	assert.True(t, next != event, "the next concert of the address has the id of the retired one")
	// Nor does it come back when the page is read once more.
	c.collect(source)
	c.shows(c.feed, 2)
	assert.Equal(t, must.Get(c.app.RetireAt(t.Context(), later(), nil))(t), 0, "happenings are retired again")
}
