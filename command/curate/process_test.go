package curate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/publication"
	"carillon/aggregates/retirement"
	"carillon/aggregates/source"
	"carillon/command"
	"carillon/command/catalog"
	"carillon/command/curate"
	"carillon/command/curate/curatetest"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/processtest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// mortal is a store as a process has it that is killed at one of its appends, before or after that is recorded, and
// nothing works any more.
type mortal struct {
	eventstore.Store

	mu   sync.Mutex
	left int // appends to come, counted twice: an odd number is killed after the last one
}

var errKilled = errors.New("killed")

// forever is more appends than there are.
const forever = 1 << 30

// Append implements eventstore.Store.
func (m *mortal) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	m.mu.Lock()
	m.left -= 2
	left := m.left
	m.mu.Unlock()
	if left < -1 {
		return eventstore.Appended{}, errKilled
	}
	appended, err := m.Store.Append(ctx, stream, expected, events)
	if left < 0 {
		return eventstore.Appended{}, errKilled
	}
	return appended, err
}

// process is a process that curates the feeds of a store. Tests call react.
type process struct {
	t        testing.TB
	store    eventstore.Store
	mortal   *mortal
	commands *command.Commands
	memory   *curatetest.Memory
	curation *curate.FeedCuration
	seen     eventstore.Position
	saved    eventstore.Position
	rows     map[string]eventstore.SavedRow
	killed   bool
}

func newProcess(t testing.TB) *process {
	t.Helper()
	p := &process{t: t, store: nodetest.Start(t)}
	p.lose()
	return p
}

// lose begins a process that has lost everything but the events.
func (p *process) lose() {
	p.t.Helper()
	p.memory, p.rows, p.saved = curatetest.New(), map[string]eventstore.SavedRow{}, eventstore.Start
	p.begin()
}

// begin begins a process with the saved state.
func (p *process) begin() {
	p.t.Helper()
	types := must.Get(catalog.New())(p.t)
	p.mortal = &mortal{Store: p.store, left: forever}
	p.commands = &command.Commands{Store: p.mortal, Now: time.Now, Catalog: types}
	p.curation = curate.NewFeedCuration(p.mortal, p.commands, p.memory, p.memory, 0, slog.New(slog.DiscardHandler))
	for _, row := range p.rows {
		must.OK(p.t, p.curation.Restore(row))
	}
	head := must.Get(p.store.Head(p.t.Context()))(p.t)
	p.curation.Begin(head)
	p.seen = p.saved
	p.memory.Save = func(dealtWith []eventstore.Recorded) error {
		rows, err := p.curation.Changed()
		for _, row := range rows {
			p.rows[row.Kind+row.ID] = row
			if row.Data == nil {
				delete(p.rows, row.Kind+row.ID)
			}
		}
		p.saved = dealtWith[len(dealtWith)-1].Position
		return err
	}
}

// react reacts to what was recorded, in batches, and to what follows. A killed process has a successor.
func (p *process) react(batch int) {
	p.t.Helper()
	for {
		events := processtest.Events(p.t, p.store, p.seen, p.curation.Traits().Filter)
		if len(events) == 0 {
			return
		}
		for some := range slices.Chunk(events, batch) {
			if err := p.curation.React(p.t.Context(), some); errors.Is(err, errKilled) {
				p.killed = true
				p.begin()
				break
			} else if err != nil {
				p.t.Fatal(err)
			}
			p.seen = some[len(some)-1].Position
		}
	}
}

// copied returns a function that restores the present state.
func (p *process) copied() (restore func()) {
	memory, state, saved := p.memory.Copy(), maps.Clone(p.rows), p.saved
	return func() {
		p.memory, p.rows, p.saved = memory.Copy(), maps.Clone(state), saved
		p.begin()
	}
}

// A retired happening leaves no feed: its items go without an event, and no sweep finds it.
func TestRetiredHappeningIsForgotten(t *testing.T) {
	t.Parallel()
	p := newPlot(t)
	p.shows("hall", "first", "Anna Schmidt Quartett", happening.Scheduled)
	p.react(forever)
	processtest.Record(t, p.store, retirement.Aggregate, retirement.HappeningsLogID,
		retirement.Event(retirement.HappeningsRetired{
			Batch:      uuid.New(),
			Happenings: []retirement.Happening{{ID: p.known["first"]}},
			At:         time.Now(),
		}))
	p.note(p.feeds["hall"], feed.SourceDetached{SourceID: p.sources["hall"], At: time.Now()})
	p.note(p.feeds["club"], feed.SourceAttached{SourceID: p.sources["hall"], SourceType: "site", At: time.Now()})
	p.react(forever)
	assert.True(t, p.item("hall", "first").InFeed && !p.item("club", "first").InFeed,
		"the item of a retired happening has changed")
}

// Publications combine all sources, also those outside of the feed.
func TestPublicationsCombineAllSources(t *testing.T) {
	t.Parallel()
	p := newPlot(t)
	p.shows("hall", "first", "As the hall has it", happening.Scheduled)
	p.shows("town", "first", "As the town has it", happening.Scheduled)
	p.react(forever)
	for _, e := range processtest.Events(t, p.store, eventstore.Start,
		eventstore.Categories(publication.Aggregate.Category)) {
		assert.True(t, bytes.Contains(e.Data, []byte("As the hall has it")) && !bytes.Contains(e.Data, []byte("the town")),
			"published %s", e.Data)
	}
	assert.Equal(t, len(p.heard("town")), 1, "the town's feed heard")
}

// A series of one source, and its single dates of another one, are one item without duplicate dates, in either order.
// Entries of one source side by side at nearly the same time are two.
func TestSeriesBesideItsSingleDates(t *testing.T) {
	t.Parallel()
	const week = 7 * 24 * time.Hour
	midnight := evening.Truncate(24 * time.Hour).Sub(evening)
	type dates = []time.Duration
	weekly := func(n int) []dates { return []dates{dates{0, week, 2 * week, 3 * week}[:n]} }
	single := func(all ...time.Duration) (list []dates) {
		for _, at := range all {
			list = append(list, dates{at})
		}
		return list
	}
	for name, tt := range map[string]struct {
		first, second []dates // happenings
		want          string  // dates of the items
	}{
		"the series first":      {weekly(4), single(0, week, 2*week, 3*week), "[4]"},
		"the dates first":       {single(0, week, 2*week, 3*week), weekly(4), "[4]"},
		"one date more":         {single(0, week, 2*week), weekly(4), "[4]"},
		"mere days":             {weekly(3), single(midnight, midnight+week, midnight+2*week), "[3]"},
		"a separate date":       {weekly(2), single(0, week, 3*24*time.Hour), "[1 2]"},
		"tours and all tours":   {single(0, 20*time.Minute), weekly(2), "[1 2]"},
		"two with single dates": {single(0, week), single(0, week), "[1 1]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlot(t)
			for i, all := range [][]dates{tt.first, tt.second} {
				for j, dates := range all {
					source := []string{"hall", "town"}[i]
					p.showsDates(source, fmt.Sprint(source, j), "Yoga on Quince Street", happening.Scheduled, dates...)
				}
				p.react(forever)
			}
			var counts []int
			for name := range p.known {
				if p.item("all", name).InFeed {
					counts = append(counts, len(p.state(name).Combine().Details.Instances))
				}
			}
			if slices.Sort(counts); fmt.Sprint(counts) != tt.want {
				t.Errorf("the items have %v dates, want %s", counts, tt.want)
			}
		})
	}
}

// chronicle is a history of feeds, sources and happenings that happens to several processes alike.
type chronicle struct {
	t         *testing.T
	chance    *rand.Rand
	processes []*process
	revisions map[string]eventstore.Revision
	now       time.Time
	attached  map[[2]int]bool
	deleted   map[int]bool

	feeds, sources, happenings []uuid.UUID
}

func newChronicle(t *testing.T, seed uint64, processes ...*process) *chronicle {
	t.Helper()
	c := &chronicle{
		t:         t,
		processes: processes,
		revisions: map[string]eventstore.Revision{},
		attached:  map[[2]int]bool{},
		deleted:   map[int]bool{},
		chance:    rand.New(rand.NewPCG(seed, 0)), //nolint:gosec // a test that can be repeated
		now:       time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
	}
	c.feeds, c.sources, c.happenings = c.ids(3), c.ids(3), c.ids(12)
	for _, id := range c.feeds {
		record(c, feed.Aggregate, id, feed.Event(feed.Created{Organization: uuid.NameSpaceDNS, Enabled: true, At: c.now}))
	}
	return c
}

func (c *chronicle) ids(n int) []uuid.UUID {
	ids := make([]uuid.UUID, n)
	for i := range ids {
		for j := range ids[i] {
			ids[i][j] = byte(c.chance.Uint32())
		}
	}
	return ids
}

func record[S, E, C any](c *chronicle, a eventstore.Aggregate[S, E, C], id uuid.UUID, event E) {
	c.t.Helper()
	name, data, err := a.Codec.Encode(event)
	must.OK(c.t, err)
	stream := a.Stream(id)
	expected, there := c.revisions[stream]
	if !there {
		expected = eventstore.NoStream
	}
	proposed := []eventstore.Proposed{{
		ID:       c.ids(1)[0],
		Type:     name,
		Data:     data,
		Metadata: []byte("{}"),
	}}
	for _, p := range c.processes {
		appended := must.Get(p.store.Append(c.t.Context(), stream, expected, proposed))(c.t)
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

// did lists what was recorded of items and publications.
func (p *process) did() (list []string) {
	p.t.Helper()
	filter := eventstore.Categories(item.Aggregate.Category, publication.Aggregate.Category)
	for _, e := range processtest.Events(p.t, p.store, eventstore.Start, filter) {
		line := fmt.Sprint(e.Stream, "@", e.Revision, " ", e.Type, " ", e.ID)
		if e.Category() == item.Aggregate.Category {
			line += " " + string(e.Data) // the published item shows the happening of that moment
		}
		list = append(list, line)
	}
	slices.Sort(list)
	return list
}

// However a curation is cut off, replaced, restored from an older copy or begun again, its result equals that of an
// undisturbed one: the same events under the same ids, and the same memory.
func TestCurationComesToTheSame(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			quiet, troubled := newProcess(t), newProcess(t)
			history := newChronicle(t, seed, quiet, troubled)
			restore := troubled.copied()
			for step := range 240 {
				history.goOn()
				switch step % 20 {
				case 3, 9:
					troubled.react(1 + history.chance.IntN(30))
				case 5, 15:
					troubled.mortal.left = 1 + history.chance.IntN(8)
				case 13:
					restore = troubled.copied()
				case 17:
					troubled.begin() // another process takes over
				case 19:
					restore()
				}
			}
			quiet.react(forever)
			troubled.react(forever)
			want := quiet.did()
			assert.Same(t, troubled.did(), want)
			assert.Same(t, troubled.memory.All(), quiet.memory.All())
			assert.True(t, len(want) >= 20 && troubled.killed,
				"it was killed: %t, and did no more than %q", troubled.killed, want)
			quiet.lose()
			quiet.react(forever)
			assert.Same(t, quiet.did(), want)
		})
	}
}
