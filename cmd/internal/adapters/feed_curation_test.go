package adapters_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/publication"
	"carillon/aggregates/source"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/command/curate"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
	"carillon/projections"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
)

// chronicle is a history of feeds, sources and happenings that is asked to several stores alike.
type chronicle struct {
	t         *testing.T
	chance    *rand.Rand
	stores    []*esdb.Store
	revisions map[string]eventstore.Revision
	now       time.Time
	attached  map[[2]int]bool
	deleted   map[int]bool

	feeds, sources, happenings []uuid.UUID
}

func newChronicle(t *testing.T, seed uint64, stores ...*esdb.Store) *chronicle {
	t.Helper()
	c := &chronicle{
		t:         t,
		stores:    stores,
		revisions: map[string]eventstore.Revision{},
		attached:  map[[2]int]bool{},
		deleted:   map[int]bool{},
		chance:    rand.New(rand.NewPCG(seed, 0)),
		now:       time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), //nolint:gosec // a test that can be repeated
	}
	for range 3 {
		id := c.id()
		c.feeds = append(c.feeds, id)
		record(c, feed.Aggregate, id, feed.Event(feed.Created{Organization: uuid.NameSpaceDNS, Enabled: true, At: c.now}))
	}
	for range 3 {
		c.sources = append(c.sources, c.id())
	}
	for range 12 {
		c.happenings = append(c.happenings, c.id())
	}
	return c
}

func (c *chronicle) id() (id uuid.UUID) {
	for i := range id {
		id[i] = byte(c.chance.Uint32())
	}
	return id
}

func record[S, E, C any](c *chronicle, a eventstore.Aggregate[S, E, C], id uuid.UUID, event E) {
	c.t.Helper()
	name, data, err := a.Codec.Encode(event)
	if err != nil {
		c.t.Fatal(err)
	}
	stream := a.Stream(id)
	expected, there := c.revisions[stream]
	if !there {
		expected = eventstore.NoStream
	}
	proposed := []eventstore.Proposed{{
		ID:       c.id(),
		Type:     name,
		Data:     data,
		Metadata: []byte("{}"),
	}}
	for _, store := range c.stores {
		appended, err := store.Append(c.t.Context(), stream, expected, proposed)
		if err != nil {
			c.t.Fatal(err)
		}
		c.revisions[stream] = appended.Revision
	}
}

// goOn lets something happen.
func (c *chronicle) goOn() {
	c.t.Helper()
	c.now = c.now.Add(time.Duration(c.chance.IntN(48)) * time.Hour)
	f, s, h := c.chance.IntN(len(c.feeds)), c.chance.IntN(len(c.sources)), c.happenings[c.chance.IntN(len(c.happenings))]
	feedID, sourceID := c.feeds[f], c.sources[s]
	takes := happening.Details{Title: "T", Instances: []happening.Instance{{Occurrences: []happening.Occurrence{
		{Start: c.now.Add(time.Duration(c.chance.IntN(60)-40) * 24 * time.Hour)},
	}}}}
	switch kind := c.chance.IntN(20); {
	case kind < 3 && !c.deleted[f] && !c.attached[[2]int{f, s}]:
		c.attached[[2]int{f, s}] = true
		record(c, feed.Aggregate, feedID, feed.Event(feed.SourceAttached{SourceID: sourceID, SourceType: "site", At: c.now}))
	case kind < 3 && !c.deleted[f]:
		delete(c.attached, [2]int{f, s})
		record(c, feed.Aggregate, feedID, feed.Event(feed.SourceDetached{SourceID: sourceID, At: c.now}))
	case kind == 3 && !c.deleted[f]:
		record(c, feed.Aggregate, feedID, feed.Event(feed.Disabled{At: c.now}))
	case kind == 4 && !c.deleted[f]:
		record(c, feed.Aggregate, feedID, feed.Event(feed.Enabled{At: c.now}))
	case kind == 5 && f == 0 && c.chance.IntN(4) == 0:
		c.deleted[f] = true
		record(c, feed.Aggregate, feedID, feed.Event(feed.Deleted{At: c.now}))
	case kind < 8:
		record(c, source.Aggregate, sourceID, source.Event(source.CollectionStarted{At: c.now}))
	case kind < 10:
		record(c, source.Aggregate, sourceID, source.Event(source.CollectionCompleted{At: c.now}))
	case kind < 13:
		record(c, happening.Aggregate, h, happening.Event(happening.Revised{SourceID: sourceID, Details: takes, At: c.now}))
	default:
		record(c, happening.Aggregate, h, happening.Event(happening.Observed{
			SourceID: sourceID,
			Key:      "k",
			Details:  takes,
			At:       c.now,
		}))
	}
}

// failing is a store that fails one append in some, before or after it took place, until it has failed often enough.
type failing struct {
	eventstore.Store

	mu     sync.Mutex
	chance *rand.Rand
	left   int // failures to come
}

var errCutOff = errors.New("cut off")

func (s *failing) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	s.mu.Lock()
	fails, before := s.left > 0 && s.chance.IntN(8) == 0, s.chance.IntN(2) == 0
	if fails {
		s.left--
	}
	s.mu.Unlock()
	if fails && before {
		return eventstore.Appended{}, errCutOff
	}
	appended, err := s.Store.Append(ctx, stream, expected, events)
	if fails {
		return eventstore.Appended{}, errCutOff
	}
	return appended, err
}

// fail makes it fail some times more.
func (s *failing) fail() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = 3
}

// curated is a curation of a store's feeds, with its memory.
type curated struct {
	t      *testing.T
	pool   *pgxpool.Pool
	store  *esdb.Store
	runner *projections.Runner
	seen   eventstore.Position // see last
}

func newCurated(t *testing.T, store *esdb.Store) *curated {
	t.Helper()
	c := &curated{t: t, pool: projecttest.Pool(t), store: store}
	c.runner = &projections.Runner{
		Pool:     c.pool,
		Locks:    pgtest.Locks(t, c.pool),
		Store:    store,
		Log:      slog.New(slog.DiscardHandler),
		Progress: projections.NewProgress(c.pool),
	}
	return c
}

// run runs the curation on a store that may fail.
func (c *curated) run(store eventstore.Store) (stop func()) {
	c.t.Helper()
	types, err := apitest.Types()
	if err != nil {
		c.t.Fatal(err)
	}
	commands := &command.Commands{Store: store, Now: time.Now, Catalog: types}
	return run(c.t, func(ctx context.Context) error {
		return c.runner.React(ctx, func() eventstore.ProcessManager {
			return adapters.NewFeedCuration(store, commands, 0, slog.New(slog.DiscardHandler)).SmallPages()
		})
	})
}

// catchUp waits until the curation has seen everything that was recorded by now.
func (c *curated) catchUp() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	if !c.runner.Progress.Await(ctx, c.last(), curate.FeedCurationName) {
		c.t.Fatal("the curation does not catch up")
	}
}

// last is the position of the last event that concerns the curation.
func (c *curated) last() eventstore.Position {
	c.t.Helper()
	for m, err := range c.store.Subscribe(c.t.Context(), c.seen, (&curate.FeedCuration{}).Filter()) {
		if err != nil {
			c.t.Fatal(err)
		}
		if m.CaughtUp {
			break
		}
		if m.Event != nil {
			c.seen = m.Position
		}
	}
	return c.seen
}

// did lists what was recorded of items and publications.
func (c *curated) did() (list []string) {
	c.t.Helper()
	filter := eventstore.Categories(item.Aggregate.Category, publication.Aggregate.Category)
	for m, err := range c.store.Subscribe(c.t.Context(), eventstore.Start, filter) {
		switch {
		case err != nil:
			c.t.Fatal(err)
		case m.CaughtUp:
			slices.Sort(list)
			return list
		case m.Event != nil:
			line := fmt.Sprint(m.Event.Stream, "@", m.Event.Revision, " ", m.Event.Type, " ", m.Event.ID)
			if m.Event.Category() == item.Aggregate.Category {
				line += " " + string(m.Event.Data) // the published item shows the happening of that moment
			}
			list = append(list, line)
		}
	}
	return list
}

// remembers dumps the memory.
func (c *curated) remembers() (list []string) {
	c.t.Helper()
	err := c.pool.QueryRow(c.t.Context(), `SELECT coalesce(array_agg(line ORDER BY line), '{}') FROM (
		SELECT id || ' ' || ARRAY(SELECT unnest(feeds) ORDER BY 1)::text FROM feed_curation.happenings
		UNION ALL SELECT c::text FROM feed_curation.carried c
		UNION ALL SELECT kind || id || data::jsonb FROM feed_curation.state) lines (line)`).Scan(&list)
	if err != nil {
		c.t.Fatal(err)
	}
	return list
}

const keepCopy = `DROP SCHEMA IF EXISTS copy CASCADE; CREATE SCHEMA copy;
	CREATE TABLE copy.checkpoints AS SELECT * FROM carillon.checkpoints;
	CREATE TABLE copy.state AS SELECT * FROM feed_curation.state;
	CREATE TABLE copy.happenings AS SELECT * FROM feed_curation.happenings;
	CREATE TABLE copy.carried AS SELECT * FROM feed_curation.carried;`

// The checkpoint is first, as for who writes it: the transaction of a run that was cut off may still be ending.
const restoreCopy = `TRUNCATE carillon.checkpoints, feed_curation.state, feed_curation.happenings,
	feed_curation.carried;
	INSERT INTO carillon.checkpoints SELECT * FROM copy.checkpoints;
	INSERT INTO feed_curation.state SELECT * FROM copy.state;
	INSERT INTO feed_curation.happenings SELECT * FROM copy.happenings;
	INSERT INTO feed_curation.carried SELECT * FROM copy.carried;`

func (c *curated) exec(sql string) {
	c.t.Helper()
	if _, err := c.pool.Exec(c.t.Context(), sql); err != nil {
		c.t.Fatal(err)
	}
}

// However a curation is cut off, replaced, restored from an older copy or begun again, its result equals that of an
// undisturbed one: the same events under the same ids, and the same memory.
func TestCurationComesToTheSame(t *testing.T) {
	t.Parallel()
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			quiet, troubled := newCurated(t, nodetest.Start(t)), newCurated(t, nodetest.Start(t))
			history := newChronicle(t, seed, quiet.store, troubled.store)
			broken := &failing{Store: troubled.store, chance: rand.New(rand.NewPCG(seed, 1))} //nolint:gosec // as above
			stop := troubled.run(broken)
			for step := range 240 {
				history.goOn()
				if step%10 == 0 {
					broken.fail()
				}
				switch step % 60 {
				case 10:
					stop()
					stop = troubled.run(broken)
				case 20: // another process takes over
					other := troubled.run(broken)
					stop()
					stop = other
				case 30:
					troubled.catchUp()
					stop()
					troubled.exec(keepCopy)
					stop = troubled.run(broken)
				case 50:
					stop()
					troubled.exec(restoreCopy)
					stop = troubled.run(broken)
				}
			}
			stop()
			stop = troubled.run(troubled.store)
			troubled.catchUp()
			stop()
			stop = quiet.run(quiet.store)
			quiet.catchUp()
			stop()
			want := quiet.did()
			if diff := cmp.Diff(want, troubled.did()); diff != "" {
				t.Errorf("recorded (-in peace +in trouble):\n%s", diff)
			}
			if diff := cmp.Diff(quiet.remembers(), troubled.remembers()); diff != "" {
				t.Errorf("remembers (-in peace +in trouble):\n%s", diff)
			}
			if len(want) < 20 {
				t.Errorf("it did no more than %q", want)
			}
			quiet.exec("DELETE FROM carillon.checkpoints") // it has lost everything
			stop = quiet.run(quiet.store)
			quiet.catchUp()
			stop()
			if diff := cmp.Diff(want, quiet.did()); diff != "" {
				t.Errorf("begun again (-before +after):\n%s", diff)
			}
		})
	}
}
