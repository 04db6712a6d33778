package curate_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/publication"
	sources "carillon/aggregates/source"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/processtest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// plot is the views of one concert by several sources, the commands of an operator, and what comes of them.
type plot struct {
	*process

	names   map[uuid.UUID]string
	sources map[string]uuid.UUID
	feeds   map[string]uuid.UUID
	known   map[string]uuid.UUID // happenings
}

// newPlot makes feeds of two organizations: one of each source, and one of all.
func newPlot(t testing.TB) *plot {
	t.Helper()
	p := &plot{
		process: newProcess(t),
		names:   map[uuid.UUID]string{},
		sources: map[string]uuid.UUID{},
		feeds:   map[string]uuid.UUID{},
		known:   map[string]uuid.UUID{},
	}
	all := []string{"hall", "town", "club"}
	for i, of := range append(all, "all") {
		id := uuid.New()
		p.sources[of], p.feeds[of], p.names[id] = uuid.New(), id, "feed "+of
		p.note(id, feed.Created{
			Organization: []uuid.UUID{uuid.NameSpaceDNS, uuid.NameSpaceURL}[i%2],
			Enabled:      true,
			At:           time.Now(),
		})
		for _, source := range all {
			if of == source || of == "all" {
				p.note(id, feed.SourceAttached{
					SourceID:   p.sources[source],
					SourceType: "site",
					At:         time.Now(),
					Known:      true,
				})
			}
		}
	}
	p.react(forever)
	return p
}

// attaches is the step in which a new feed gets a source whose first walk shows the concert.
func (p *plot) attaches(source, name, title string) {
	p.t.Helper()
	id := uuid.New()
	p.feeds["new"], p.names[id] = id, "feed new"
	p.note(id, feed.Created{Organization: uuid.NameSpaceDNS, Enabled: true, At: time.Now()})
	p.note(id, feed.SourceAttached{SourceID: p.sources[source], SourceType: "site", At: time.Now()})
	walk := func(event sources.Event) {
		processtest.Record(p.t, p.store, sources.Aggregate, p.sources[source], event)
	}
	walk(sources.CollectionStarted{Number: 1, At: time.Now()})
	p.shows(source, name, title, happening.Scheduled)
	walk(sources.CollectionCompleted{Number: 1, At: time.Now()})
}

func (p *plot) note(id uuid.UUID, event feed.Event) {
	p.t.Helper()
	processtest.Record(p.t, p.store, feed.Aggregate, id, event)
}

// salt puts the ids of first and second in order: of equals the first is compared first.
var salt = func() (n int) {
	for ; ; n++ {
		first, second := happening.DeriveID(key("first", n)), happening.DeriveID(key("second", n))
		if bytes.Compare(first[:], second[:]) < 0 {
			return n
		}
	}
}()

func key(name string, salt int) string { return fmt.Sprintf("url:https://%s.example/%d", name, salt) }

// evening is when the concert is.
var evening = time.Now().UTC().Truncate(24 * time.Hour).Add(5*24*time.Hour + 19*time.Hour)

// shows is the step in which a source shows the concert under a title from now on.
func (p *plot) shows(source, name, title string, status happening.Status) {
	p.t.Helper()
	p.showsDates(source, name, title, status, 0)
}

// showsDates is shows with dates that follow the evening.
func (p *plot) showsDates(source, name, title string, status happening.Status, dates ...time.Duration) {
	p.t.Helper()
	key := key(name, salt)
	id := happening.DeriveID(key)
	p.known[name], p.names[id] = id, name
	var instances []happening.Instance
	for _, at := range dates {
		instance := happening.DeriveInstanceID(key, at.String())
		instances = append(instances, happening.Instance{ID: instance, Status: status, Occurrences: []happening.Occurrence{{
			ID:     happening.DeriveOccurrenceID(instance, 0),
			Start:  evening.Add(at),
			AllDay: evening.Add(at).Hour() == 0,
			Status: status,
		}}})
	}
	p.happening(name, happening.Observe{
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
				Venue:          &happening.Venue{Name: "Town hall", Address: "1 Square, Town"},
				DisplayAddress: "Town hall, 1 Square, Town",
			},
			Instances: instances,
		},
	})
}

// hides is the step in which a source shows it no longer.
func (p *plot) hides(source, name string) {
	p.t.Helper()
	p.happening(name, happening.MarkStale{SourceID: p.sources[source], At: time.Now()})
}

func (p *plot) happening(name string, command happening.Command) {
	p.t.Helper()
	must.Get(happening.Aggregate.Execute(p.t.Context(), p.store, p.known[name], command, happening.Options{}))(p.t)
}

// splits is the step in which an operator says so, and says it again if the process dies over it.
func (p *plot) splits(name string) {
	p.t.Helper()
	for again := true; again; {
		_, err := p.commands.SplitHappening(p.t.Context(), command.Caller{Actor: "operator"},
			command.SplitHappening{Happening: p.known[name]})
		if again = errors.Is(err, errKilled); again {
			p.killed = true
			p.begin()
			p.react(forever)
			p.halves()
		} else if err != nil {
			p.t.Fatal(err)
		}
	}
}

// rates is the step in which a reader has an opinion.
func (p *plot) rates(of, name string) {
	p.t.Helper()
	must.Get(item.Aggregate.Execute(p.t.Context(), p.store, item.ID(p.feeds[of], p.known[name]), item.GiveFeedback{
		FeedID:     p.feeds[of],
		FeedbackID: uuid.New(),
		Rating:     item.Positive,
		At:         time.Now(),
	}, item.Options{}))(p.t)
}

func (p *plot) state(name string) happening.State {
	p.t.Helper()
	loaded := must.Get(happening.Aggregate.Load(p.t.Context(), p.store, p.known[name]))(p.t)
	return loaded.State
}

// halves reports pairs of which one side names both and the other does not.
func (p *plot) halves() {
	p.t.Helper()
	for name, id := range p.known {
		state := p.state(name)
		for held := range state.Holds {
			if into := p.state(p.names[held]).Into; into != id {
				p.t.Errorf("%s holds %s, which is merged into %q", name, p.names[held], p.names[into])
			}
		}
		if _, held := p.state(p.names[state.Into]).Holds[id]; state.Into != uuid.Nil && !held {
			p.t.Errorf("%s is merged into %s, which doesn't hold it", name, p.names[state.Into])
		}
	}
}

// outcome is the final state of all happenings and feeds.
func (p *plot) outcome() (list []string) {
	p.t.Helper()
	for name := range p.known {
		state := p.state(name)
		for from, sighting := range state.Sightings {
			for source, sourceID := range p.sources {
				if sourceID == from.Source {
					list = append(list, fmt.Sprintf("%s: %s has %q of %q, stale: %t", name, source, sighting.Details.Title,
						p.names[from.Of], sighting.Stale))
				}
			}
		}
		for held := range state.Holds {
			list = append(list, name+" holds "+p.names[held])
		}
		for apart := range state.Apart {
			list = append(list, name+" is not "+p.names[apart])
		}
		if state.Into != uuid.Nil {
			list = append(list, name+" is merged into "+p.names[state.Into])
		}
	}
	for of := range p.feeds {
		var shown []string
		for name := range p.known {
			state := p.item(of, name)
			if state.InFeed {
				shown = append(shown, name)
			}
			if state.Feedback != uuid.Nil {
				list = append(list, name+" has feedback in "+of)
			}
		}
		slices.Sort(shown)
		list = append(list, fmt.Sprintf("%s shows %v, hears %v", of, shown, p.heard(of)))
	}
	slices.Sort(list)
	return list
}

func (p *plot) item(of, name string) item.State {
	p.t.Helper()
	loaded := must.Get(item.Aggregate.Load(p.t.Context(), p.store, item.ID(p.feeds[of], p.known[name])))(p.t)
	return loaded.State
}

// heard lists the publications of a feed: "+" is a new item, "!" a changed occurrence.
func (p *plot) heard(of string) (list []string) {
	p.t.Helper()
	published := eventstore.Categories(publication.Aggregate.Category)
	for _, recorded := range processtest.Events(p.t, p.store, eventstore.Start, published) {
		event := must.Get(publication.Events.Decode(&recorded))(p.t)
		for name, id := range p.known {
			if e, is := event.(publication.Published); is && e.Subject == item.ID(p.feeds[of], id).String() {
				list = append(list, map[string]string{"event.item.added": "+", "event.occurrence.changed": "!"}[e.Type]+name)
			}
		}
	}
	slices.Sort(list)
	return list
}

// play plays the steps, in a process that is killed after some appends, and checks what each process comes to.
func play(t *testing.T, left int, steps []func(*plot)) *plot {
	t.Helper()
	p := newPlot(t)
	p.mortal.left = left
	for _, step := range steps {
		step(p)
		p.react(forever)
	}
	p.halves()
	for _, of := range []string{"hall", "town", "club"} { // one source shows one concert, under any ids
		if heard := p.heard(of); len(heard) > 1 && strings.HasPrefix(heard[len(heard)-1], "+") &&
			strings.HasPrefix(heard[len(heard)-2], "+") {
			t.Errorf("the feed of %s heard %v", of, heard)
		}
	}
	return p
}

// plots are what is cut: one step after the other.
var plots = map[string]struct {
	steps []func(*plot)
	then  []string // a part of the outcome
}{
	"merged at once": {steps: []func(*plot){
		func(p *plot) { p.shows("hall", "first", "Anna Schmidt Quartett", happening.Scheduled) },
		func(p *plot) { p.shows("town", "second", "Anna Schmidt Quartet", happening.Scheduled) },
		func(p *plot) { p.shows("town", "second", "Anna Schmidt Quartet", happening.Cancelled) },
		func(p *plot) { p.splits("second") },
		func(p *plot) { p.shows("town", "second", "Anna Schmidt Quartett", happening.Scheduled) },
	}, then: []string{
		"first is not second",
		"hall shows [first], hears [!first +first]",
		"town shows [second], hears [!first !second +first]",
		"all shows [first second], hears [!first !second +first]",
	}},
	"merged late, with an earlier merge": {steps: []func(*plot){
		func(p *plot) { p.shows("hall", "first", "Anna Schmidt Quartett", happening.Scheduled) },
		func(p *plot) { p.shows("town", "second", "Konzert im Advent", happening.Scheduled) },
		func(p *plot) { p.shows("club", "third", "Konzert im Advent", happening.Scheduled) },
		func(p *plot) { p.rates("town", "second") },
		func(p *plot) { p.hides("club", "third") },
		func(p *plot) {
			p.shows("town", "second", "Anna Schmidt Quartett – Konzert im Advent", happening.Scheduled)
		},
		func(p *plot) { p.shows("club", "third", "Anna Schmidt Quartett", happening.Scheduled) },
		func(p *plot) { p.splits("first") },
		func(p *plot) { p.shows("hall", "first", "Anna Schmidt: Konzert im Advent", happening.Scheduled) },
	}, then: []string{
		"first is not second",
		"third is merged into second",
		"second has feedback in town",
		"town shows [second], hears [+second]",
		"club shows [second], hears [+second]",
		"all shows [first second], hears [+first +second]",
	}},
	"one that had come with another is split off": {steps: []func(*plot){
		func(p *plot) { p.shows("hall", "first", "Anna Schmidt Quartett", happening.Scheduled) },
		func(p *plot) { p.shows("town", "second", "Konzert im Advent", happening.Scheduled) },
		func(p *plot) { p.shows("club", "third", "Konzert im Advent", happening.Scheduled) },
		func(p *plot) {
			p.shows("town", "second", "Anna Schmidt Quartett – Konzert im Advent", happening.Scheduled)
		},
		func(p *plot) { p.splits("third") },
		func(p *plot) { p.shows("club", "third", "Anna Schmidt Quartett", happening.Cancelled) },
	}, then: []string{
		"third is not second",
		"second is merged into first",
		"town shows [first], hears [+second]",
		"club shows [third], hears [!third +second]",
	}},
	"an older one is like both": {steps: []func(*plot){
		func(p *plot) { p.shows("club", "elder", "Weihnachtsmarkt", happening.Scheduled) },
		func(p *plot) { p.shows("hall", "first", "Anna Schmidt Quartett spielt Haydn", happening.Scheduled) },
		func(p *plot) { p.shows("town", "second", "Anna Schmidt Quartett", happening.Scheduled) },
		func(p *plot) { p.splits("second") },
		func(p *plot) { p.shows("club", "elder", "Anna Schmidt Quartett spielt Haydn", happening.Scheduled) },
	}, then: []string{
		"first is merged into elder",
		"first is not second",
		"hall shows [elder], hears [+first]",
		"town shows [second], hears [+first]",
	}},
	"with a view that is stale": {steps: []func(*plot){
		func(p *plot) { p.shows("hall", "first", "Anna Schmidt Quartett", happening.Scheduled) },
		func(p *plot) { p.shows("town", "second", "Konzert im Advent", happening.Scheduled) },
		func(p *plot) { p.hides("town", "second") },
		func(p *plot) { p.shows("club", "second", "Anna Schmidt Quartett", happening.Scheduled) },
	}, then: []string{`first: town has "Konzert im Advent" of "second", stale: true`}},
	"in a backfill, with one that is new to the feed": {steps: []func(*plot){
		func(p *plot) { p.shows("hall", "first", "Anna Schmidt Quartett", happening.Scheduled) },
		func(p *plot) { p.attaches("town", "second", "Anna Schmidt Quartett") },
	}, then: []string{"second is merged into first", "new shows [first], hears []"}},
}

// A process is killed before and after each append of merges, splits and their consequences, or at some of those
// instants with -short. Its successor has the same result as a process that is not killed, and as one that has lost all
// but the events.
func TestMergesAndSplitsThatAreCutOff(t *testing.T) {
	t.Parallel()
	step := 1
	if testing.Short() {
		step = 7 // with kills before an append and after one in turns
	}
	for name, tt := range plots {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peace := play(t, forever, tt.steps)
			want := peace.outcome()
			for _, c := range peace.memory.Comparisons {
				if bytes.Compare(c.A[:], c.B[:]) >= 0 {
					t.Errorf("%s is compared with %s, which has the lower id", peace.names[c.A], peace.names[c.B])
				}
			}
			for _, line := range tt.then {
				assert.True(t, slices.Contains(want, line), "not so: %s, but\n%s", line, strings.Join(want, "\n"))
			}
			peace.lose()
			peace.react(forever)
			assert.Same(t, peace.outcome(), want)
			for left, killed := 1, true; killed; left += step {
				p := play(t, left, tt.steps)
				killed = p.killed
				assert.Alike(t, p.outcome(), want, "killed after %.1f appends", float64(left)/2)
			}
		})
	}
}
