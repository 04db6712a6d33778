package adapters_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/command/curate"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
)

// mortal is a store as a process has it that is killed: at one of its appends, before or after that got through, and
// nothing works any more.
type mortal struct {
	eventstore.Store

	left  atomic.Int64 // appends to come, counted twice: an odd number is killed after the last one
	died  chan struct{}
	death sync.Once
}

var errKilled = errors.New("killed")

// forever is more appends than there are.
const forever = 1 << 40

func newMortal(store eventstore.Store) *mortal {
	m := &mortal{Store: store, died: make(chan struct{})}
	m.left.Store(forever)
	return m
}

func (m *mortal) dead() bool {
	select {
	case <-m.died:
		return true
	default:
		return false
	}
}

func (m *mortal) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	left := m.left.Add(-2)
	if left < 0 {
		m.death.Do(func() { close(m.died) })
	}
	if left < -1 {
		return eventstore.Appended{}, errKilled
	}
	appended, err := m.Store.Append(ctx, stream, expected, events)
	if m.dead() {
		return eventstore.Appended{}, errKilled
	}
	return appended, err
}

// plot is the views of one concert by several sources, and the commands of an operator.
type plot struct {
	*curated

	mortal   *mortal
	commands *command.Commands
	stop     func()
	killed   bool
	apart    [][2]string         // what was split: one name, and that of what it was in
	began    eventstore.Position // where its own part of the log does
	day      time.Time           // of the concert
	hall     string              // if it is
	// with which the ids of first and second are in order: of equals the first is compared first
	salt    int
	names   map[uuid.UUID]string
	sources map[string]uuid.UUID
	feeds   map[string]uuid.UUID
	known   map[string]uuid.UUID // happenings
}

// newPlot makes feeds of two organizations: one of each source, and one of all.
func (c *curated) newPlot(number int) *plot {
	c.t.Helper()
	p := &plot{
		curated: c,
		began:   c.last(),
		day:     time.Now().UTC().Truncate(24 * time.Hour).Add(time.Duration(24*(number+5)+19) * time.Hour),
		hall:    "Hall " + strings.Repeat("x", number+1),
		names:   map[uuid.UUID]string{},
		sources: map[string]uuid.UUID{},
		feeds:   map[string]uuid.UUID{},
		known:   map[string]uuid.UUID{},
	}
	for id := happening.DeriveID; ; p.salt++ {
		if first, second := id(p.key("first")), id(p.key("second")); bytes.Compare(first[:], second[:]) < 0 {
			break
		}
	}
	for i, of := range []string{"hall", "town", "club", "all"} {
		if of != "all" {
			p.sources[of] = uuid.New()
		}
		id := uuid.New()
		p.feeds[of], p.names[id] = id, "feed "+of
		note(c, feed.Aggregate, id, feed.Event(feed.Created{
			Organization: []uuid.UUID{uuid.NameSpaceDNS, uuid.NameSpaceURL}[i%2],
			Enabled:      true,
			At:           time.Now(),
		}))
		for _, source := range slices.Sorted(maps.Keys(p.sources)) {
			if of == source || of == "all" {
				note(c, feed.Aggregate, id, feed.Event(feed.SourceAttached{
					SourceID:   p.sources[source],
					SourceType: "site",
					At:         time.Now(),
					Known:      true,
				}))
			}
		}
	}
	p.live()
	return p
}

// note records an event as some other part of the program does.
func note[S, E, C any](c *curated, a eventstore.Aggregate[S, E, C], id uuid.UUID, event E) {
	c.t.Helper()
	name, data, err := a.Codec.Encode(event)
	if err == nil {
		var loaded eventstore.Loaded[S]
		if loaded, err = a.Load(c.t.Context(), c.store, id); err == nil {
			_, err = c.store.Append(c.t.Context(), a.Stream(id), loaded.Revision, []eventstore.Proposed{{
				ID:       uuid.New(),
				Type:     name,
				Data:     data,
				Metadata: []byte("{}"),
			}})
		}
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// live begins a process.
func (p *plot) live() {
	p.t.Helper()
	types, err := apitest.Types()
	if err != nil {
		p.t.Fatal(err)
	}
	p.mortal = newMortal(p.store)
	p.commands = &command.Commands{Store: p.mortal, Now: time.Now, Catalog: types}
	p.stop = run(p.t, func(ctx context.Context) error {
		return p.runner.React(ctx, func() eventstore.ProcessManager {
			return adapters.NewFeedCuration(p.mortal, p.commands, 0, slog.New(slog.DiscardHandler))
		})
	})
}

// settle waits until everything that was recorded, and all that followed from it, is seen, or the process is dead.
func (p *plot) settle() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), patience)
	defer cancel()
	died := p.mortal.died
	go func() {
		select {
		case <-died:
			cancel()
		case <-ctx.Done():
		}
	}()
	for {
		last := p.last()
		if !p.runner.Progress.Await(ctx, last, curate.FeedCurationName) {
			if p.mortal.dead() {
				return
			}
			p.t.Fatal("the curation does not catch up")
		}
		if p.last() == last {
			return
		}
	}
}

// key identifies a happening.
func (p *plot) key(name string) string {
	return fmt.Sprintf("url:https://%s.example/%s%d", name, p.hall, p.salt)
}

// tells is a step: a source shows the concert under a title from now on.
func (p *plot) tells(source, name, title string, status happening.Status) {
	p.t.Helper()
	key := p.key(name)
	id, instance := happening.DeriveID(key), happening.DeriveInstanceID(key, "")
	p.known[name], p.names[id] = id, name
	_, err := happening.Aggregate.Execute(p.t.Context(), p.store, id, happening.Observe{
		SourceID: p.sources[source],
		Key:      key,
		Keys:     []string{key},
		Source:   happening.Block{Type: "site", URL: "https://" + source + ".example/"},
		At:       time.Now(),
		Standing: happening.FromOwnPage,
		Details: happening.Details{
			Title: title,
			Time:  happening.Time{TemporalPattern: happening.Singular, Timezone: "UTC"},
			Location: &happening.Location{
				Venue:          &happening.Venue{Name: p.hall, Address: "1 Square, Town"},
				DisplayAddress: p.hall + ", 1 Square, Town",
			},
			Instances: []happening.Instance{{ID: instance, Status: status, Occurrences: []happening.Occurrence{
				{ID: happening.DeriveOccurrenceID(instance, 0), Start: p.day, Status: status},
			}}},
		},
	}, happening.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
}

// hides is that a source shows it no longer.
func (p *plot) hides(source, name string) {
	p.t.Helper()
	_, err := happening.Aggregate.Execute(p.t.Context(), p.store, p.known[name],
		happening.MarkStale{SourceID: p.sources[source], At: time.Now()}, happening.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
}

// splits is that an operator says so, and says it again if the process dies over it.
func (p *plot) splits(name string) {
	p.t.Helper()
	say := func() error {
		_, err := p.commands.SplitHappening(p.t.Context(), command.Caller{Actor: "operator"},
			command.SplitHappening{Happening: p.known[name]})
		return err
	}
	loaded, err := happening.Aggregate.Load(p.t.Context(), p.store, p.known[name])
	if err != nil {
		p.t.Fatal(err)
	}
	err = say()
	if errors.Is(err, errKilled) {
		p.resurrect()
		p.halves()
		err = say()
	}
	if err != nil {
		p.t.Fatal(err)
	}
	for id := range p.names {
		if _, held := loaded.State.Holds[id]; held || id == loaded.State.Into {
			p.apart = append(p.apart, [2]string{name, p.names[id]})
		}
	}
}

// rates is that a reader has an opinion.
func (p *plot) rates(of, name string) {
	p.t.Helper()
	_, err := item.Aggregate.Execute(p.t.Context(), p.store, item.ID(p.feeds[of], p.known[name]), item.GiveFeedback{
		FeedID:     p.feeds[of],
		FeedbackID: uuid.New(),
		Rating:     item.Positive,
		At:         time.Now(),
	}, item.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
}

// resurrect begins a fresh process in the place of a killed one.
func (p *plot) resurrect() {
	p.t.Helper()
	p.stop()
	p.live()
	p.killed = true
	p.settle()
}

// halves reports pairs of which one side names both and the other does not, and pairs that are together again.
func (p *plot) halves() {
	p.t.Helper()
	for _, pair := range p.apart {
		if one, other := p.root(pair[0]), p.root(pair[1]); one == other {
			p.t.Errorf("%s and %s are both %s", pair[0], pair[1], p.names[one])
		}
	}
	for name, id := range p.known {
		loaded, err := happening.Aggregate.Load(p.t.Context(), p.store, id)
		if err != nil {
			p.t.Fatal(err)
		}
		for held := range loaded.State.Holds {
			if other, err := happening.Aggregate.Load(p.t.Context(), p.store, held); err != nil ||
				other.State.Into != id {
				p.t.Errorf("%s holds %s, which is merged into %q (%v)", name, p.names[held],
					p.names[other.State.Into], err)
			}
		}
		for teller := range loaded.State.Tellings {
			if of := teller.Of; of != uuid.Nil && p.root(p.names[of]) != p.root(name) {
				p.t.Errorf("%s shows the view of %s, which is not the same", name, p.names[of])
			}
		}
		if into := loaded.State.Into; into != uuid.Nil && !p.holds(into, id) {
			p.t.Errorf("%s is merged into %s, which doesn't hold it", name, p.names[into])
		}
	}
}

// plots are what is cut: one step after the other.
var plots = map[string][]func(*plot){
	"merged at once": {
		func(p *plot) { p.tells("hall", "first", "Anna Schmidt Quartett", happening.Scheduled) },
		func(p *plot) { p.tells("town", "second", "Anna Schmidt Quartet", happening.Scheduled) },
		func(p *plot) { p.tells("town", "second", "Anna Schmidt Quartet", happening.Cancelled) },
		func(p *plot) { p.splits("second") },
		func(p *plot) { p.tells("town", "second", "Anna Schmidt Quartett", happening.Scheduled) },
	},
	"merged late, with an earlier merge": {
		func(p *plot) { p.tells("hall", "first", "Anna Schmidt Quartett", happening.Scheduled) },
		func(p *plot) { p.tells("town", "second", "Konzert im Advent", happening.Scheduled) },
		func(p *plot) { p.tells("club", "third", "Konzert im Advent", happening.Scheduled) },
		func(p *plot) { p.rates("town", "second") },
		func(p *plot) { p.hides("club", "third") },
		func(p *plot) {
			p.tells("town", "second", "Anna Schmidt Quartett – Konzert im Advent", happening.Scheduled)
		},
		func(p *plot) { p.tells("club", "third", "Anna Schmidt Quartett", happening.Scheduled) },
		func(p *plot) { p.splits("first") },
		func(p *plot) { p.tells("hall", "first", "Anna Schmidt: Konzert im Advent", happening.Scheduled) },
	},
	"one that had come with another is split off": {
		func(p *plot) { p.tells("hall", "first", "Anna Schmidt Quartett", happening.Scheduled) },
		func(p *plot) { p.tells("town", "second", "Konzert im Advent", happening.Scheduled) },
		func(p *plot) { p.tells("club", "third", "Konzert im Advent", happening.Scheduled) },
		func(p *plot) {
			p.tells("town", "second", "Anna Schmidt Quartett – Konzert im Advent", happening.Scheduled)
		},
		func(p *plot) { p.splits("third") },
		func(p *plot) { p.tells("club", "third", "Anna Schmidt Quartett", happening.Cancelled) },
	},
	"an older one is like both": {
		func(p *plot) { p.tells("club", "elder", "Weihnachtsmarkt", happening.Scheduled) },
		func(p *plot) { p.tells("hall", "first", "Anna Schmidt Quartett spielt Haydn", happening.Scheduled) },
		func(p *plot) { p.tells("town", "second", "Anna Schmidt Quartett", happening.Scheduled) },
		func(p *plot) { p.splits("second") },
		func(p *plot) { p.tells("club", "elder", "Anna Schmidt Quartett spielt Haydn", happening.Scheduled) },
	},
}

// A process is killed before and after each append of merges, splits and their consequences, or at every seventh of
// those instants if this is no torture, and at a few with -short. Its successor has the same result as a process
// that is not killed.
func TestMergesAndSplitsThatAreCutOff(t *testing.T) {
	t.Parallel()
	step := 7 // of those of a torture, with kills before an append and after one in turns
	switch {
	// Before each append, too: the consequences of the last one are kept.
	case os.Getenv("CARILLON_TORTURE_KILLS") != "":
		step = 1
	case testing.Short():
		step = 27
	}
	for name, steps := range plots {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCurated(t, nodetest.Start(t))
			// play plays it.
			play := func(number, left int) *plot {
				p := c.newPlot(number)
				p.settle()
				p.mortal.left.Store(int64(left))
				for _, step := range steps {
					step(p)
					p.settle()
					if p.mortal.dead() {
						p.resurrect()
					}
				}
				p.stop()
				p.halves()
				for of, n := range p.heard() {
					if n > 1 && of != "all" { // one source shows one concert, under any ids
						t.Errorf("the feed of %s got %d new events", of, n)
					}
				}
				return p
			}
			p := play(0, forever)
			want := p.outcome()
			t.Logf("in peace:\n%s", strings.Join(want, "\n"))
			all := []*plot{p}
			for left, killed := 1, true; killed; left += step {
				p := play(left+1, left)
				killed = p.killed
				if diff := cmp.Diff(want, p.outcome()); diff != "" {
					t.Errorf("killed after %.1f appends (-in peace +killed):\n%s", float64(left)/2, diff)
				}
				all = append(all, p)
			}
			c.exec("DELETE FROM carillon.checkpoints") // everything but the events is lost
			p.live()
			p.settle()
			p.stop()
			for _, p := range all {
				if diff := cmp.Diff(want, p.outcome()); diff != "" {
					t.Errorf("begun again (-before +after):\n%s", diff)
				}
			}
		})
	}
}
