package sources_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
	"carillon/projections/sources"
	"carillon/query"
)

var (
	noon       = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	registered = source.Registered{Type: source.TypeSite, URL: "https://example.org/", Timezone: "Europe/Rome", At: noon}
)

type fixture struct {
	*projecttest.Log
	*query.Queries
	t  *testing.T
	id uuid.UUID
}

func open(t *testing.T) fixture {
	t.Helper()
	pool := pgtest.Pool(t)
	f := fixture{Log: projecttest.New(t, pool, sources.ReadModel), Queries: &query.Queries{Pool: pool}, t: t, id: uuid.New()}
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

func (f fixture) attach(id uuid.UUID, at time.Time) {
	f.feed(id, feed.SourceAttached{AssociationID: uuid.New(), SourceID: f.id, SourceType: "site", At: at})
}

// listed is the source as operators see it in their list, where it is the only one.
func (f fixture) listed() query.Source {
	f.t.Helper()
	all, err := f.Sources(f.t.Context())
	if err != nil || len(all) != 1 {
		f.t.Fatalf("sources = %+v, %v", all, err)
	}
	return all[0]
}

// expectDue checks that the source is due from a time on, and not before.
func (f fixture) expectDue(from time.Time) {
	f.t.Helper()
	for at, want := range map[time.Time]int{from.Add(-time.Second): 0, from: 1} {
		due, err := f.DueSources(f.t.Context(), at, 10)
		if err != nil || len(due) != want {
			f.t.Errorf("at %s %d sources are due, want %d (%v)", at, len(due), want, err)
		}
	}
}

func (f fixture) expectNeverDue() {
	f.t.Helper()
	if due, err := f.DueSources(f.t.Context(), noon.Add(10000*time.Hour), 10); err != nil || len(due) != 0 {
		f.t.Errorf("due = %+v, %v; want none", due, err)
	}
}

func TestDueWhileAttached(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.expectNeverDue()
	one, two := uuid.New(), uuid.New()
	f.attach(one, noon)
	f.expectDue(noon)
	f.attach(two, noon.Add(time.Hour))
	f.expectDue(noon) // it was due already
	f.feed(one, feed.SourceDetached{SourceID: f.id, At: noon})
	f.expectDue(noon)
	f.feed(two, feed.Deleted{At: noon})
	f.expectNeverDue()
	f.attach(one, noon.Add(2*time.Hour))
	f.expectDue(noon)
}

func TestScheduleFollowsTheCollections(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.attach(uuid.New(), noon)
	f.source(source.CollectionStarted{Number: 1, At: noon.Add(time.Second)})
	f.expectDue(noon.Add(61 * time.Second)) // in case that the process dies
	if due, err := f.DueSources(t.Context(), noon.Add(61*time.Second), 1); err != nil || !due[0].Collecting {
		t.Errorf("due = %+v, %v; want that it is being collected", due, err)
	}
	f.source(source.CollectionCompleted{
		Number: 1, Counts: source.Counts{Pages: 1, Observed: 4}, Cursor: json.RawMessage(`{"etag":"x"}`),
		Notes: []source.Note{{Code: "skipped-event", Text: "no date\x00"}}, NextAt: noon.Add(time.Hour), At: noon.Add(time.Minute),
	})
	f.expectDue(noon.Add(time.Hour))
	due, err := f.DueSources(t.Context(), noon.Add(time.Hour), 1)
	if err != nil {
		t.Fatal(err)
	}
	want := []query.DueSource{{
		ID: f.id, Type: "site", URL: "https://example.org/", Timezone: "Europe/Rome", Cursor: []byte(`{"etag":"x"}`), Collections: 1,
	}}
	if diff := cmp.Diff(want, due); diff != "" {
		t.Errorf("due (-want +got):\n%s", diff)
	}
	f.source(source.CollectionStarted{Number: 2, At: noon.Add(time.Hour)},
		source.CollectionFailed{Number: 2, Reason: "timeout", Message: "no answer in time", Failures: 1, NextAt: noon.Add(2 * time.Hour), At: noon})
	f.expectDue(noon.Add(2 * time.Hour))
	got := f.listed()
	started, completed, next := noon.Add(time.Hour), noon.Add(time.Minute), noon.Add(2*time.Hour)
	if diff := cmp.Diff(query.Source{
		ID: f.id, Type: "site", URL: "https://example.org/", Timezone: "Europe/Rome", CreatedAt: noon, Feeds: 1, State: "failing",
		Message: "timeout: no answer in time", Notes: []query.SourceNote{{Code: "skipped-event", Text: "no date"}},
		StartedAt: &started, CompletedAt: &completed, Observed: 4, Failures: 1, DueAt: &next,
	}, got); diff != "" {
		t.Errorf("source (-want +got):\n%s", diff)
	}
}

func TestWhatIsAskedForDuringACollectionIsDueAfterIt(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.attach(uuid.New(), noon)
	f.source(source.CollectionStarted{Number: 1, At: noon.Add(time.Second)})
	f.attach(uuid.New(), noon.Add(2*time.Second))
	f.source(source.CollectionCompleted{Number: 1, NextAt: noon.Add(time.Hour), At: noon.Add(3 * time.Second)})
	f.expectDue(noon.Add(2 * time.Second))
	f.source(source.CollectionStarted{Number: 2, At: noon.Add(4 * time.Second)},
		source.CollectionCompleted{Number: 2, NotModified: true, NextAt: noon.Add(time.Hour), At: noon.Add(5 * time.Second)})
	f.expectDue(noon.Add(time.Hour))
}

func TestRequestOfAnUnattachedSourceIsDoneOnce(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.source(source.CollectionRequested{At: noon})
	f.expectDue(noon)
	f.source(source.CollectionStarted{Number: 1, At: noon.Add(time.Second)},
		source.CredentialsMissing{Number: 1, Message: "no token", NextAt: noon.Add(time.Hour), At: noon.Add(time.Second)})
	f.expectNeverDue()
	if got := f.listed(); got.State != "needs_credentials" || got.Message != "no token" || got.DueAt != nil {
		t.Errorf("source = %+v", got)
	}
}

func TestASourceThatNeedsJavaScript(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.attach(uuid.New(), noon)
	f.source(source.CollectionStarted{Number: 1, At: noon.Add(time.Second)},
		source.JavaScriptNeeded{Number: 1, Message: "scripts only", NextAt: noon.Add(12 * time.Hour), At: noon.Add(2 * time.Second)})
	f.expectDue(noon.Add(12 * time.Hour))
	if got := f.listed(); got.State != "needs_javascript" || got.Message != "scripts only" {
		t.Errorf("source = %+v", got)
	}
}

func TestShown(t *testing.T) {
	t.Parallel()
	f := open(t)
	one, two := uuid.New(), uuid.New()
	details := happening.Details{Title: "Concert"}
	block := happening.Block{Type: "site"}
	digest, err := happening.Digest(details, block, 0)
	if err != nil {
		t.Fatal(err)
	}
	record := func(id uuid.UUID, events ...happening.Event) {
		projecttest.Stream(f.Log, happening.Aggregate, id, noon)(events...)
	}
	record(one, happening.Observed{SourceID: f.id, Details: happening.Details{Title: "Old"}, Source: block, At: noon},
		happening.WentStale{SourceID: f.id, At: noon},
		happening.Observed{SourceID: f.id, Details: happening.Details{Title: "Old"}, Source: block, At: noon},
		happening.Revised{SourceID: f.id, Details: details, Source: block, At: noon})
	record(two, happening.Observed{SourceID: f.id, Details: details, Source: block, At: noon})
	f.Project()
	record(two, happening.WentStale{SourceID: f.id, At: noon})
	f.Project()
	list, err := f.ShownAt(t.Context(), f.id)
	if err != nil || len(list) != 2 {
		t.Fatalf("shown = %+v, %v", list, err)
	}
	for _, shown := range list {
		if !bytes.Equal(shown.Digest, digest) || shown.Stale != (shown.ID == two) {
			t.Errorf("shown = %+v", shown)
		}
	}
	whole := f.Dump("sources.sources", "sources.shown")
	f.ProjectInBatches(sources.ReadModel, 1, 2)
	if diff := cmp.Diff(whole, f.Dump("sources.sources", "sources.shown")); diff != "" {
		t.Errorf("in small batches (-whole +small):\n%s", diff)
	}
}
