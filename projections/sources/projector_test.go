package sources_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/retirement"
	"carillon/aggregates/source"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/projecttest"
	"carillon/projections/sources"
	"carillon/query"
)

var (
	noon       = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	registered = source.Registered{
		Type:     source.TypeSite,
		URL:      "https://example.org/",
		Timezone: "Europe/Rome",
		At:       noon,
	}
)

type fixture struct {
	*projecttest.Log
	*query.Queries
	t  *testing.T
	id uuid.UUID
}

func open(t *testing.T) fixture {
	t.Helper()
	log := projecttest.New(t, sources.ReadModel)
	f := fixture{
		Log:     log,
		Queries: &query.Queries{Pool: log.Database},
		t:       t,
		id:      uuid.New(),
	}
	f.source(registered)
	return f
}

func (f fixture) source(events ...source.Event) {
	projecttest.Stream(f.Log, source.Aggregate, f.id, noon)(events...)
	f.Project()
}

func (f fixture) feed(id uuid.UUID, events ...feed.Event) {
	projecttest.Stream(f.Log, feed.Aggregate, id, noon)(events...)
	f.Project()
}

func (f fixture) attach(id uuid.UUID, at time.Time) { f.attachAs(false, id, at) }

func (f fixture) attachAs(known bool, id uuid.UUID, at time.Time) {
	f.feed(id, feed.SourceAttached{
		AssociationID: uuid.New(),
		SourceID:      f.id,
		SourceType:    "site",
		Known:         known,
		At:            at,
	})
}

// listed is the source as operators see it in their list, if it is the only one.
func (f fixture) listed() query.Source {
	f.t.Helper()
	all, err := f.Sources(f.t.Context(), query.SourceFilter{})
	must.True(f.t, err == nil && len(all) == 1, "sources = %+v, %v", all, err)
	return all[0]
}

// expectWanted checks whether a walk is asked for, nil for none.
func (f fixture) expectWanted(since *time.Time) {
	f.t.Helper()
	var got *time.Time
	if err := f.Pool.QueryRow(f.t.Context(), "SELECT wanted_at FROM sources.sources WHERE id = $1 AND (feeds > 0 "+
		"OR requested)", f.id).
		Scan(&got); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		f.t.Fatal(err)
	}
	assert.Same(f.t, got, since, cmpopts.EquateApproxTime(0))
}

func after(d time.Duration) *time.Time { return new(noon.Add(d)) }

func TestWalkWanted_sourceAttached(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.expectWanted(nil)
	one, two := uuid.New(), uuid.New()
	f.attach(one, noon)
	f.expectWanted(after(0))
	f.source(source.CollectionStarted{Number: 1, At: noon.Add(time.Second)})
	f.expectWanted(nil)
	f.attach(two, noon.Add(-time.Minute)) // by a process whose clock is behind
	f.expectWanted(after(-time.Minute))
	f.feed(one, feed.SourceDetached{SourceID: f.id, At: noon})
	f.expectWanted(after(-time.Minute))
	f.feed(two, feed.Deleted{At: noon})
	f.expectWanted(nil) // no longer
}

func TestNoWalkIsWantedOfASourceThatIsKnown(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.attachAs(true, uuid.New(), noon)
	f.expectWanted(nil)
	f.attach(uuid.New(), noon.Add(time.Hour))
	f.expectWanted(after(time.Hour))
}

func TestBackfills(t *testing.T) {
	t.Parallel()
	f := open(t)
	one, two, three := uuid.New(), uuid.New(), uuid.New()
	added := func(to uuid.UUID, backfill bool) {
		happening := uuid.New()
		projecttest.Stream(f.Log, item.Aggregate, item.ID(to, happening), noon)(
			item.Added{
				FeedID:      to,
				HappeningID: happening,
				SourceID:    f.id,
				Backfill:    backfill,
				At:          noon,
			})
	}
	expect := func(want ...query.Backfill) {
		t.Helper()
		for i := range want {
			want[i].Source, want[i].Running = f.id, want[i].EndedAt == nil
		}
		assert.Same(t, f.listed().Backfills, want)
	}
	f.attach(one, noon)
	f.source(source.CollectionStarted{Number: 1, At: noon})
	added(one, true)
	added(one, false)
	f.attach(two, noon.Add(time.Second)) // the rest of the walk is not all
	added(two, true)
	f.attachAs(true, three, noon.Add(time.Minute))
	f.source(source.CollectionCompleted{Number: 1, At: noon.Add(time.Hour)})
	expect(query.Backfill{
		Feed:    one,
		Since:   noon,
		EndedAt: after(time.Hour),
		Added:   1,
	},
		query.Backfill{Feed: two, Since: noon.Add(time.Second), Added: 1},
		query.Backfill{Feed: three, Since: noon.Add(time.Minute), EndedAt: after(time.Minute)})
	f.source(source.CollectionStarted{Number: 2, At: noon}, source.CollectionFailed{Number: 2, At: noon},
		source.CollectionCompleted{Number: 3, At: noon.Add(2 * time.Hour)}) // of a walk that was not recorded to begin
	added(one, true)
	f.feed(one, feed.SourceDetached{SourceID: f.id, At: noon})
	f.attach(one, noon.Add(2*time.Hour))
	added(one, true)
	f.source(source.CollectionStarted{Number: 4, At: noon}, source.CollectionCompleted{
		Number: 4,
		At:     noon.Add(3 * time.Hour),
	})
	expect(query.Backfill{
		Feed:    two,
		Since:   noon.Add(time.Second),
		EndedAt: after(3 * time.Hour),
		Added:   1,
	},
		query.Backfill{Feed: three, Since: noon.Add(time.Minute), EndedAt: after(time.Minute)},
		query.Backfill{
			Feed:    one,
			Since:   noon.Add(2 * time.Hour),
			EndedAt: after(3 * time.Hour),
			Added:   1,
		})
	f.SameInBatches(t, sources.ReadModel, []int{1000, 7}, "sources.attachments")
}

func TestStateFollowsTheWalks(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.attach(uuid.New(), noon)
	f.source(source.CollectionStarted{Number: 1, At: noon.Add(time.Second)})
	assert.Equal(t, f.listed().State, "collecting", "state")
	f.source(source.CollectionCompleted{
		Number: 1,
		Counts: source.Counts{
			Pages:     1,
			Observed:  4,
			New:       3,
			Revised:   2,
			WentStale: 1,
		},
		IntervalSeconds: 900,
		Notes:           []source.Note{{Code: "skipped-event", Text: "no date\x00"}},
		NextAt:          noon.Add(time.Hour),
		At:              noon.Add(time.Minute),
	}, source.CollectionFailed{
		Number:   7,
		Reason:   "timeout",
		Message:  "no answer in time",
		Failures: 1,
		NextAt:   noon.Add(2 * time.Hour),
		At:       noon.Add(time.Hour),
	})
	started, completed, next := noon.Add(time.Second), noon.Add(time.Minute), noon.Add(2*time.Hour)
	want := query.Source{
		ID:          f.id,
		Type:        "site",
		URL:         "https://example.org/",
		Timezone:    "Europe/Rome",
		CreatedAt:   noon,
		Feeds:       1,
		State:       "failing",
		Since:       noon.Add(time.Hour),
		Outcome:     "timeout",
		Pages:       1,
		New:         3,
		Revised:     2,
		Stale:       1,
		Interval:    900,
		Message:     "timeout: no answer in time",
		Notes:       []query.SourceNote{{Code: "skipped-event", Text: "no date"}},
		StartedAt:   &started,
		CompletedAt: &completed,
		Observed:    4,
		Failures:    1,
		DueAt:       &next,
	}
	got := f.listed()
	got.Backfills = nil // see TestBackfills
	assert.Same(t, got, want)
}

// A state lasts over the walks that end in it. A pause hides it, and is shown with its actor and reason.
func TestStateSince(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.attach(uuid.New(), noon)
	expect := func(state string, since time.Duration) {
		t.Helper()
		if got := f.listed(); got.State != state || !got.Since.Equal(noon.Add(since)) {
			t.Errorf("%s since %s, want %s since %s", got.State, got.Since, state, noon.Add(since))
		}
	}
	at := func(minutes int) time.Time { return noon.Add(time.Duration(minutes) * time.Minute) }
	expect("registered", 0)
	f.source(source.CollectionStarted{Number: 1, At: at(1)})
	expect("collecting", time.Minute)
	f.source(source.CollectionCompleted{Number: 1, NextAt: at(60), At: at(2)})
	expect("ok", 2*time.Minute)
	f.source(source.CollectionStarted{Number: 2, At: at(3)}, source.CollectionCompleted{
		Number: 2,
		NextAt: at(60),
		At:     at(4),
	})
	expect("ok", 2*time.Minute)
	f.source(source.CollectionFailed{
		Number: 3,
		Reason: "timeout",
		NextAt: at(600),
		At:     at(5),
	},
		source.CollectionFailed{
			Number: 4,
			Reason: "robots",
			NextAt: at(600),
			At:     at(6),
		})
	expect("failing", 5*time.Minute)

	f.source(source.Paused{Reason: "the owner objects", At: at(7)}, source.Paused{Reason: "by letter\x00", At: at(8)})
	expect("paused", 7*time.Minute)
	if got := f.listed(); got.PausedFor != "by letter" || got.PausedBy != "test" || !got.PausedAt.Equal(at(7)) ||
		got.DueAt != nil {
		t.Errorf("paused = %+v", got)
	}
	for state, want := range map[string]int{"paused": 1, "failing": 0, "": 1} {
		assert.Equal(t, len(must.Get(f.Sources(t.Context(), query.SourceFilter{State: state}))(t)), want,
			"state %q … sources", state)
	}
	f.source(source.Resumed{At: at(9)})
	expect("failing", 5*time.Minute)
	if got := f.listed(); got.PausedAt != nil || got.PausedFor != "" || !got.DueAt.Equal(at(9)) {
		t.Errorf("resumed = %+v", got)
	}
	f.source(source.JavaScriptNeeded{Message: "scripts only", NextAt: at(600), At: at(10)})
	expect("needs_javascript", 10*time.Minute)
	if got := f.listed(); got.Message != "scripts only" || !got.DueAt.Equal(at(600)) {
		t.Errorf("source = %+v", got)
	}
}

func TestSourcesAreNarrowedDown(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.id = uuid.New()
	f.source(source.Registered{Type: source.TypeInstagram, Handle: "TownHall_50%", At: noon.Add(time.Minute)})
	for want, filters := range map[string][]query.SourceFilter{
		"site instagram": {{}, {State: "registered"}},
		"site":           {{Text: "EXAMPLE.org"}, {Type: "site"}, {Type: "site", Text: "https"}},
		"instagram":      {{Text: "townhall"}, {Text: "_50%"}, {Type: "instagram", State: "registered"}},
		"": {{Text: "t_wn"}, {Text: "%%"}, {Type: "twitter"}, {State: "ok"}, {
			Type: "instagram",
			Text: "example",
		}},
	} {
		for _, filter := range filters {
			list := must.Get(f.Sources(t.Context(), filter))(t)
			var types []string
			for _, s := range list {
				types = append(types, s.Type)
			}
			assert.Equal(t, strings.Join(types, " "), want, "%+v", filter)
		}
	}
	counts, err := f.CountSources(t.Context())
	if diff := cmp.Diff(map[string]int{"registered": 2}, counts); diff != "" || err != nil {
		t.Errorf("by state (-want +got):\n%s%v", diff, err)
	}
}

func TestRequestOfAnUnattachedSourceIsDoneOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.source(source.CollectionRequested{At: noon})
	f.expectWanted(after(0))
	f.source(source.CollectionStarted{Number: 1, At: noon.Add(time.Second)},
		source.CredentialsMissing{
			Number:  1,
			Message: "no token",
			NextAt:  noon.Add(time.Hour),
			At:      noon.Add(time.Second),
		})
	f.expectWanted(nil)
	got := f.listed()
	assert.True(t, got.State == "needs_credentials" && got.Message == "no token" && got.DueAt == nil, "source = %+v", got)
}

func TestShown(t *testing.T) {
	t.Parallel()
	f := open(t)
	one, two := uuid.New(), uuid.New()
	details := happening.Details{Title: "Concert"}
	block := happening.Block{Type: "site"}
	digest, err := happening.Digest(details, block, 0)
	must.OK(t, err)
	record := func(id uuid.UUID, events ...happening.Event) {
		projecttest.Stream(f.Log, happening.Aggregate, id, noon)(events...)
	}
	record(one, happening.Observed{
		SourceID: f.id,
		Details:  happening.Details{Title: "Old"},
		Source:   block,
		At:       noon,
	},
		happening.WentStale{SourceID: f.id, At: noon},
		happening.Observed{
			SourceID: f.id,
			Details:  happening.Details{Title: "Old"},
			Source:   block,
			At:       noon,
		},
		happening.Revised{
			SourceID: f.id,
			Details:  details,
			Source:   block,
			At:       noon,
		})
	record(two, happening.Observed{
		SourceID: f.id,
		Details:  details,
		Source:   block,
		At:       noon,
	})
	f.Project()
	record(two, happening.WentStale{SourceID: f.id, At: noon})
	f.Project()
	rows, _ := f.Pool.Query(t.Context(), "SELECT happening_id, digest, stale FROM sources.shown WHERE source_id = $1",
		f.id)
	var (
		id    uuid.UUID
		got   []byte
		stale bool
		count int
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &got, &stale}, func() error {
		count++
		assert.True(t, bytes.Equal(got, digest) && stale == (id == two), "%s shows %x, stale %t", id, got, stale)
		return nil
	})
	assert.True(t, err == nil && count == 2, "%d are shown, %v", count, err)
	f.SameInBatches(t, sources.ReadModel, []int{1000, 2}, "sources.sources", "sources.shown")
}

// Whose turn it is goes by the servers whose pace is kept, however they are named.
func TestHostOfSource(t *testing.T) {
	t.Parallel()
	f := open(t)
	for url, want := range map[string]string{
		"https://Example.org/events": "example.org", "http://example.org.:80/": "example.org",
		"https://example.org:443/": "example.org",
		"http://127.0.0.1:8001/":   "127.0.0.1:8001", "http://127.0.0.1:8002/": "127.0.0.1:8002",
		"http://[::1]:8080/x":          "[::1]:8080",
		"webcal://example.org/all.ics": "example.org", "": source.TypeSite,
	} {
		f.id = uuid.New()
		f.source(source.Registered{Type: source.TypeSite, URL: url, At: noon})
		var host string
		err := f.Pool.QueryRow(t.Context(), "SELECT host FROM sources.sources WHERE id = $1", f.id).Scan(&host)
		assert.True(t, err == nil && host == want, "the host of %s is %q, want %q: %v", url, host, want, err)
	}
}

// Whether the events of retired happenings are still in the log or not, the counts are the same.
func TestRetired(t *testing.T) {
	t.Parallel()
	feedID, other := uuid.New(), uuid.New()
	var counts [2][]int
	for i, lost := range []bool{false, true} {
		f := open(t)
		f.attach(feedID, noon)
		for n := range 3 {
			id := uuid.New()
			if lost && n < 2 {
				continue
			}
			projecttest.Stream(f.Log, happening.Aggregate, id, noon)(happening.Observed{SourceID: f.id, At: noon})
			projecttest.Stream(f.Log, item.Aggregate, item.ID(feedID, id), noon)(item.Added{
				FeedID:      feedID,
				HappeningID: id,
				SourceID:    f.id,
				Backfill:    true,
				At:          noon,
			})
			if n == 1 {
				other = id
			}
		}
		projecttest.Stream(f.Log, retirement.Aggregate, retirement.HappeningsLogID, noon)(retirement.HappeningsRetired{
			Batch:      uuid.New(),
			Happenings: []retirement.Happening{{ID: other, In: []int{0}}},
			Feeds:      []uuid.UUID{feedID},
			Shown:      []retirement.Shown{{SourceID: f.id, Happenings: 2}},
			Backfills:  []retirement.Backfill{{SourceID: f.id, AttachedAt: noon, Added: 3}},
			At:         noon,
		})
		f.Project()
		var retired, added, shown int
		must.OK(t, f.Pool.QueryRow(t.Context(), `SELECT (SELECT happenings FROM sources.retired WHERE source_id = $1),
			(SELECT added FROM sources.attachments WHERE source_id = $1),
			(SELECT count(*) FROM sources.shown WHERE happening_id = $2)`, f.id, other).
			Scan(&retired, &added, &shown))
		counts[i] = []int{retired, added, shown}
	}
	assert.Same(t, counts, [2][]int{{2, 3, 0}, {2, 3, 0}})
}
