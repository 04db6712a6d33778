//go:build nightly

package app_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/cmd/internal/app"
	"carillon/command/retire"
	"carillon/eventstore"
	"carillon/projections/items"
	"carillon/projections/sources"
)

// past records happenings of a source that began a day ago and before.
func (c *collects) past(source uuid.UUID, n int) {
	c.Helper()
	last := time.Now().AddDate(0, 0, -1)
	appending, ctx := errgroup.WithContext(c.Context())
	appending.SetLimit(32)
	for i := range n {
		appending.Go(func() error {
			return c.observe(ctx, source, fmt.Sprintf("Concert %d", i), last.Add(-time.Duration(i)*time.Minute))
		})
	}
	if err := appending.Wait(); err != nil {
		c.Fatal(err)
	}
}

// Many happenings in two feeds are retired while their read models are rebuilt, and another one retires as well.
// CARILLON_TORTURE_RETIRED says how many.
func TestHappeningsRetirement_many(t *testing.T) {
	t.Parallel()
	n := 2_000
	if set, err := strconv.Atoi(os.Getenv("CARILLON_TORTURE_RETIRED")); err == nil {
		n = set
	}
	c := newCollects(t)
	h := newHouse(t, "site")
	source := c.add(h)
	another := c.newFeed()
	for _, feed := range []string{c.feed, another} {
		c.attach(feed, h, source)
	}
	c.eventually("the source was collected", func() bool {
		return c.count("SELECT count(*) FROM sources.attachments WHERE NOT backfilling") == 2
	})
	c.past(source, n)
	c.shows(c.feed, n)
	c.shows(another, n)
	for i := range 20 {
		item, _ := c.titled(fmt.Sprintf(`"Concert %d"`, i*n/20))
		c.call(http.MethodPost, "/feeds/events/"+c.feed+"/items/"+item.String()+"/feedback",
			map[string]any{"rating": "positive"}, http.StatusOK)
	}
	const rows = "SELECT pg_total_relation_size('items.items') + pg_total_relation_size('items.merged')"
	store := filepath.Join(c.cfg.DataDir, "eventstore")
	counted, size, postgres := c.counted(), app.SizeOf(store), c.count(rows)

	var rebuild sync.Once
	var batches int
	during := func(r *retire.Retirer) {
		await := r.Happenings.Await
		r.Happenings.Await = func(ctx context.Context, at eventstore.Position) error {
			batches++
			rebuild.Do(func() {
				for _, name := range []string{items.ReadModel.Name, sources.ReadModel.Name} {
					if err := c.operator().Rebuild(ctx, name); err != nil {
						t.Error(err)
					}
				}
				other := func(r *retire.Retirer) { r.Happenings.Log = r.Log.With("retirer", "other") }
				if _, err := c.app.RetireAt(ctx, later(), other); err != nil {
					t.Logf("the other one: %v", err)
				}
			})
			return await(ctx, at)
		}
	}
	began := time.Now()
	c.eventually("all are retired", func() bool {
		if _, err := c.app.RetireAt(t.Context(), later(), during); err != nil {
			t.Logf("after %d batches: %v", batches, err)
		}
		return c.streams("happening")+c.streams("item") == 0
	})
	t.Logf("%d happenings, %d batches, %s; store %d bytes before, %d after; Postgres %d before, %d after", n, batches,
		time.Since(began), size, app.SizeOf(store), postgres, c.count(rows))
	for _, when := range []string{"after the retirement", "after a rebuild"} {
		c.shows(c.feed, 0)
		c.shows(another, 0)
		if diff := cmp.Diff(counted, c.counted()); diff != "" {
			t.Errorf("%s the counts differ (-before +after):\n%s", when, diff)
		}
		c.rebuildItems()
	}
	if report := c.verified(); !report.OK() {
		t.Errorf("the log differs from its tree heads: %+v", report)
	}
}
