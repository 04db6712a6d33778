package items_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/items"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
)

// runner runs read models on the database of the fixture, from nothing but the log.
func (f fixture) runner() *projections.Runner {
	f.t.Helper()
	store := nodetest.Start(f.t)
	f.AppendTo(store)
	for _, schema := range []string{"items", "feeds"} {
		must.Get(f.Pool.Exec(f.t.Context(), "DROP SCHEMA IF EXISTS "+schema+" CASCADE"))(f.t)
	}
	must.OK(f.t, projections.Migrate(f.t.Context(), f.Pool))
	return projecttest.Runner(f.t, f.Pool, store)
}

// project has a runner build the items, up to the current head.
func (f fixture) project(r *projections.Runner) {
	f.t.Helper()
	running, stop := context.WithCancel(f.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Project(running, items.ReadModel) }()
	head, err := r.Store.Head(f.t.Context())
	if err == nil && !r.Progress.Await(f.t.Context(), head, items.ReadModel.Name) {
		err = errors.New("the head was not reached")
	}
	stop()
	must.OK(f.t, errors.Join(err, <-ended))
}

var sentences = []string{
	"An evening of music in the old town hall.", "Doors open at seven, the concert begins at eight.",
	"Market food & wine by local growers.",
	"<b>Free entry</b> for children, students and members.", "Guided tour through the collection with the curator.",
	"Bring your own instrument.",
	"The choir sings works of four centuries.", "In case of rain it takes place in the gymnasium.",
}

// happen makes up a history: views that come, change, go, merged and split by several sources, in several feeds that
// change, with items that come, go and come back.
func (f fixture) happen(random *rand.Rand, steps int) {
	f.t.Helper()
	sources := []uuid.UUID{f.source, uuid.New(), uuid.New()}
	feeds, of := []uuid.UUID{f.feed}, map[uuid.UUID][]uuid.UUID{f.feed: {f.source}}
	var happenings []uuid.UUID
	into := map[uuid.UUID]uuid.UUID{}
	text := func(most int) (text string) {
		for range random.IntN(most) {
			text += sentences[random.IntN(len(sentences))] + " "
		}
		return strings.TrimSpace(text)
	}
	details := func() happening.Details {
		var starts []time.Duration
		for range random.IntN(4) {
			starts = append(starts, time.Duration(random.IntN(60*24)-10*24)*time.Hour)
		}
		d := on(sentences[random.IntN(len(sentences))], starts...)
		d.Description, d.ShortDescription = text(6), text(2)
		return d
	}
	settings := func() feed.Settings { return feed.Settings{Name: text(2) + " F", Description: text(4) + " D"} }
	one := func(of []uuid.UUID) uuid.UUID { return of[random.IntN(len(of))] }
	observe := func(id, as uuid.UUID) {
		seen := observed(one(sources), details())
		seen.Of = as
		f.onHappening(id, seen)
	}
	for step := range steps {
		if len(happenings) == 0 || random.IntN(4) == 0 {
			happenings = append(happenings, uuid.New())
			observe(happenings[len(happenings)-1], uuid.Nil)
		}
		id, in, at := one(happenings), one(feeds), now.Add(time.Duration(step)*time.Second)
		switch random.IntN(16) {
		case 0, 1, 2, 3:
			f.addTo(in, id, at)
		case 4, 5:
			observe(id, uuid.Nil)
		case 6:
			f.onHappening(id, revised(one(sources), details()))
		case 7:
			f.onHappening(id, happening.WentStale{SourceID: one(sources), At: at})
		case 8:
			f.onItem(item.ID(in, id), item.Removed{FeedID: in, HappeningID: id, At: at})
		case 9:
			f.onItem(item.ID(in, id), item.FeedbackGiven{
				FeedID:       in,
				FeedbackID:   uuid.New(),
				Organization: org,
				Rating:       item.Neutral,
				At:           at,
			})
		case 10:
			f.onFeed(in, feed.Revised{Settings: settings(), At: at})
		case 11:
			made := uuid.New()
			f.onFeed(made, created(settings()))
			feeds = append(feeds, made)
		case 12, 13:
			source := one(sources)
			if left := without(of[in], source); len(left) < len(of[in]) {
				f.onFeed(in, feed.SourceDetached{SourceID: source, At: at})
				of[in] = left
				continue
			}
			f.onFeed(in, attached(source))
			of[in] = append(of[in], source)
		case 14:
			if other := one(happenings); other != id && into[other] == uuid.Nil && into[id] == uuid.Nil {
				f.onHappening(id, happening.Merged{From: other, Reason: "key", At: at})
				f.onHappening(other, happening.Merged{Into: id, Reason: "key", At: at})
				into[other] = id
				observe(id, other)
			}
		case 15:
			if from := into[id]; from != uuid.Nil {
				f.onHappening(from, happening.Split{From: id, At: at})
				f.onHappening(id, happening.Split{Into: from, At: at})
				delete(into, id)
			} else if len(feeds) > 2 && random.IntN(2) == 0 {
				f.onFeed(in, feed.Deleted{At: at})
				feeds = without(feeds, in)
				if len(feeds) == 0 {
					return
				}
			}
		}
	}
}

func without(list []uuid.UUID, one uuid.UUID) (left []uuid.UUID) {
	for _, id := range list {
		if id != one {
			left = append(left, id)
		}
	}
	return left
}

// everythingOf is all that the schema holds, but for the versions of feeds, which are of the transactions; and its
// tables' indexes.
func (f fixture) everythingOf() string {
	f.t.Helper()
	rows := must.Get(f.Pool.Query(f.t.Context(), "SELECT indexdef FROM pg_indexes WHERE schemaname = 'items' "+
		"ORDER BY indexname"))(f.t)
	indexes := must.Get(pgx.CollectRows(rows, pgx.RowTo[string]))(f.t)
	return strings.Join(indexes, "\n") + "\n" +
		projecttest.Placeless(f.Dump(append([]string{"items.merged", "(SELECT feed_id FROM items.feeds)"}, tables...)...))
}

// A rebuild makes the same rows as small batches did while events happened.
func TestRebuild_equalsLive(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		f := open(t)
		f.happen(rand.New(rand.NewPCG(seed, 12)), 400) //nolint:gosec // made up
		f.ProjectInBatches(items.ReadModel, 1, 7, 20, 60)
		live := f.everythingOf()
		for _, table := range append([]string{"items.merged"}, tables...) {
			assert.True(t, !strings.Contains(live, "# "+table+"\n#"), "seed %d has nothing in %s", seed, table)
		}
		runner := f.runner()
		f.project(runner)
		if diff := cmp.Diff(live, f.everythingOf()); diff != "" {
			t.Fatalf("seed %d (-live +built):\n%s", seed, diff)
		}
		must.Get(f.Pool.Exec(t.Context(), "UPDATE items.items SET relevance = 7, source = ''; DELETE FROM items.shown"))(t)
		must.OK(t, runner.Rebuild(t.Context(), items.ReadModel, nil))
		if diff := cmp.Diff(live, f.everythingOf()); diff != "" {
			t.Fatalf("seed %d (-live +rebuilt):\n%s", seed, diff)
		}
	}
}

// BenchmarkRebuild rebuilds the items from a store in which each happening is observed and added: as an operator has it
// done, from the beginning of the reading until the new tables serve.
func BenchmarkRebuild(b *testing.B) {
	f := open(b)
	const happenings = 20_000
	f.onFeed(f.feed, feed.Revised{
		Settings: named("Music in the old town", "Concerts and evenings of music near the market"),
		At:       now,
	})
	for i := range happenings {
		f.add(uuid.New(), typical(i))
	}
	usage := pgtest.UsageOf(b.Context(), b, f.Pool)
	runner := f.runner()
	f.project(runner)
	b.ResetTimer()
	own, its := usage.Process(), usage.Postgres()
	for b.Loop() {
		must.OK(b, runner.Rebuild(b.Context(), items.ReadModel, nil))
	}
	events := float64(2*happenings) * float64(b.N)
	b.ReportMetric(events/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64((usage.Process()-own).Microseconds())/events, "cpu-µs/event")
	b.ReportMetric(float64((usage.Postgres()-its).Microseconds())/events, "postgres-cpu-µs/event")
}

// typical is an event as a site describes it.
func typical(i int) happening.Details {
	d := on(fmt.Sprintf("Concert %d", i), time.Duration(i%(30*24*60))*time.Minute)
	d.Description = "<p>" + strings.Repeat("An evening of music in the old town hall. ", 12) + "</p>"
	d.ShortDescription = "An evening of music."
	d.Time = happening.Time{TemporalPattern: happening.Singular, Timezone: "Europe/Rome", DisplayText: "Sat 5 Dec, 20:00"}
	d.Location = &happening.Location{
		Venue:          &happening.Venue{Name: "Town hall", Address: "Market 1"},
		DisplayAddress: "Town hall, Market 1",
	}
	d.Organizer = &happening.Organizer{Name: "Town", URL: "https://example.org/"}
	d.PrimaryImage, d.PrimaryURL = "https://example.org/i.png", "https://example.org/concert"
	d.URLs = []string{"https://example.org/concert"}
	return d
}
