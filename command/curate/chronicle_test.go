package curate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/publication"
	"carillon/aggregates/source"
	"carillon/eventstore"
	"carillon/eventstore/processtest"
)

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
	if err != nil {
		c.t.Fatal(err)
	}
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
		appended, err := p.store.Append(c.t.Context(), stream, expected, proposed)
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
			if diff := cmp.Diff(want, troubled.did()); diff != "" {
				t.Errorf("recorded (-in peace +in trouble):\n%s", diff)
			}
			if diff := cmp.Diff(quiet.memory.All(), troubled.memory.All()); diff != "" {
				t.Errorf("remembers (-in peace +in trouble):\n%s", diff)
			}
			if len(want) < 20 || !troubled.killed {
				t.Errorf("it was killed: %t, and did no more than %q", troubled.killed, want)
			}
			quiet.lose()
			quiet.react(forever)
			if diff := cmp.Diff(want, quiet.did()); diff != "" {
				t.Errorf("begun again (-before +after):\n%s", diff)
			}
		})
	}
}
