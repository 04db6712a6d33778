package visitingtest

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/collect/crawl/frontier/frontiertest"
	"carillon/command/visiting"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Subject is a memory of walks with what is recorded.
type Subject interface {
	visiting.Walks

	// Another is the memory as another process has it.
	Another() visiting.Walks
	// Source and Happening record events.
	Source(t *testing.T, id uuid.UUID, events ...source.Event)
	Happening(t *testing.T, id uuid.UUID, events ...happening.Event)
	// Age lets time pass.
	Age(t *testing.T, d time.Duration)
	// Lose loses the memory.
	Lose(t *testing.T)
}

// Run tests an implementation against the contract. open returns an empty one.
func Run(t *testing.T, open func(*testing.T) Subject) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, Subject){
		"one turn a host":                              hosts,
		"turns come in time":                           inTime,
		"a later request gets another walk":            laterRequest,
		"a paused source gets no turn":                 paused,
		"a turn shows the source as it is recorded":    recordedSource,
		"what changes waits":                           changes,
		"what a page no longer shows waits":            dropped,
		"a page ahead may show more":                   pageAhead,
		"happenings are found by evidence":             evidence,
		"details of happenings":                        details,
		"what is not listed is dropped":                unlisted,
		"what is recorded is known without memory":     restored,
		"a page that fails delays what was restored":   restoredLater,
		"the result of a walk":                         result,
		"a visit that is cut off leaves what waits":    cutOff,
		"of two sightings of one happening one counts": twice,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open(t))
		})
	}
	t.Run("frontier", func(t *testing.T) {
		t.Parallel()
		frontiertest.Run(t, func(t *testing.T) frontiertest.Subject {
			t.Helper()
			return &walked{script: of(t, open(t))}
		})
	})
}

// walked is a script as a frontier.
type walked struct {
	*script
	visiting.Walk
}

// Begin implements frontiertest.Subject.
func (w *walked) Begin(t *testing.T, start []collect.Link) {
	t.Helper()
	if w.walk != nil {
		w.leave(visiting.Next{Over: true})
	}
	w.begin(start...)
	w.Walk = w.walk
}

// Record implements frontiertest.Subject.
func (w *walked) Record(t *testing.T, visited collect.Visited) {
	t.Helper()
	w.do(w.walk.Record(t.Context(), visited, nil, visiting.Tally{}))
}

// Age implements frontiertest.Subject.
func (w *walked) Age(t *testing.T, d time.Duration) {
	t.Helper()
	w.Subject.Age(t, d)
}

// same compares lists of evidence in any order, and an empty list with none.
var same = cmp.Options{cmpopts.EquateEmpty(), cmpopts.SortSlices(func(a, b uuid.UUID) bool {
	return bytes.Compare(a[:], b[:]) < 0
})}

// hourly ends a walk. The next one is due in an hour.
var hourly = visiting.Next{
	Over:      true,
	Completed: true,
	In:        time.Hour,
	Interval:  time.Hour,
}

// script is walks through one source.
type script struct {
	Subject

	t    *testing.T
	id   uuid.UUID
	turn visiting.Turn
	walk visiting.Walk
	seen map[uuid.UUID]bool // happenings that are not new
}

// of returns a script of a requested source.
func of(t *testing.T, s Subject) *script {
	t.Helper()
	return &script{
		Subject: s,
		t:       t,
		id:      wanted(t, s, "https://example.org/"),
		seen:    map[uuid.UUID]bool{},
	}
}

// wanted records a requested source.
func wanted(t *testing.T, s Subject, url string) uuid.UUID {
	t.Helper()
	id := uuid.New()
	s.Source(t, id, source.Registered{Type: source.TypeSite, URL: url, At: time.Now().UTC()}, request())
	return id
}

func request() source.Event { return source.CollectionRequested{At: time.Now().UTC()} }

func take(t *testing.T, w visiting.Walks, want int) []visiting.Turn {
	t.Helper()
	turns, err := w.Take(t.Context(), 10, nil)
	if err != nil || len(turns) != want {
		t.Fatalf("turns: %+v, %v; want %d", turns, err, want)
	}
	return turns
}

func (c *script) do(err error) {
	c.t.Helper()
	must.OK(c.t, err)
}

// take takes the turn of the source.
func (c *script) take() *script {
	c.t.Helper()
	c.turn = take(c.t, c.Subject, 1)[0]
	c.walk = c.Walk(c.turn)
	return c
}

// begin begins a walk at some pages.
func (c *script) begin(start ...collect.Link) *script {
	c.t.Helper()
	if c.take(); !c.turn.Fresh || c.turn.Source.ID != c.id {
		c.t.Fatalf("turn: %+v", c.turn)
	}
	c.do(c.walk.Begin(c.t.Context(), start))
	return c
}

// root begins a walk at a list that links some pages.
func (c *script) root(page collect.Page, links ...string) *script {
	c.t.Helper()
	c.begin(collect.Link{Address: "root", List: true})
	for _, link := range links {
		page.Links = append(page.Links, collect.Link{Address: link})
	}
	return c.record("root", page, nil)
}

// record records a page.
func (c *script) record(address string, page collect.Page, err error, all ...visiting.Sighting) *script {
	c.t.Helper()
	known := collect.Known{Link: collect.Link{Address: address, List: address == "root"}, Root: address == "root"}
	for i := range all {
		page.Observations = append(page.Observations, all[i].Observation)
		all[i].New = !c.seen[all[i].Happening]
		c.seen[all[i].Happening] = true
	}
	visited := collect.Visited{Known: known, Page: page, Err: err}
	c.do(c.walk.Record(c.t.Context(), visited, all, visiting.Tally{New: len(c.seen)}))
	return c
}

// read records a whole page.
func (c *script) read(address string, all ...visiting.Sighting) *script {
	c.t.Helper()
	return c.record(address, collect.Page{}, nil, all...)
}

// waits checks the happenings that wait, each as the titles of its sightings, and settles them.
func (c *script) waits(want ...string) []visiting.View {
	c.t.Helper()
	return c.compare(c.settle(), want)
}

// ends concludes the walk, checks what waited, and asks for another one.
func (c *script) ends(want ...string) []visiting.View {
	c.t.Helper()
	views := c.settle()
	c.do(c.walk.Conclude(c.t.Context()))
	views = append(views, c.settle()...)
	c.leave(hourly)
	c.Source(c.t, c.id, request())
	return c.compare(views, want)
}

// settle settles the happenings that wait, and returns their views.
func (c *script) settle() []visiting.View {
	c.t.Helper()
	views, err := c.walk.Waiting(c.t.Context())
	c.do(err)
	settled := make([]visiting.Settled, len(views))
	for i, v := range views {
		settled[i] = visiting.Settled{Happening: v.Happening, Digest: v.Now, Gone: len(v.Sightings) == 0}
		if v.Now == nil {
			settled[i].Digest = []byte("settled")
		}
		if settled[i].Gone {
			delete(c.seen, v.Happening)
		}
	}
	c.do(c.walk.Settle(c.t.Context(), settled, visiting.Tally{New: len(c.seen)}))
	return views
}

func (c *script) compare(views []visiting.View, want []string) []visiting.View {
	c.t.Helper()
	var got []string
	for _, v := range views {
		var titles []string
		for _, t := range v.Sightings {
			titles = append(titles, t.Observation.Details.Title)
		}
		slices.Sort(titles)
		if titles == nil {
			titles = []string{"gone"}
		}
		got = append(got, strings.Join(titles, " + "))
	}
	slices.Sort(got)
	assert.Same(c.t, got, want)
	return views
}

func (c *script) leave(next visiting.Next) {
	c.t.Helper()
	c.do(c.walk.Leave(c.t.Context(), next))
}

// sight returns a sighting of a happening, which shows a text.
func sight(name, text string, evidence ...uuid.UUID) visiting.Sighting {
	o := observed(name, text)
	id := happening.DeriveID(o.Key)
	return visiting.Sighting{
		Identity:    visiting.Identity{Happening: id, Key: o.Key, Evidence: append([]uuid.UUID{id}, evidence...)},
		Observation: o,
		Dates:       []byte("the dates"),
	}
}

// ahead is the date of all happenings.
var ahead = time.Now().UTC().AddDate(0, 0, 60).Truncate(time.Second)

func observed(name, text string) collect.Observation {
	return collect.Observation{
		Key: "id:" + name,
		Details: happening.Details{
			Title:     text,
			Instances: []happening.Instance{{Occurrences: []happening.Occurrence{{Start: ahead}}}},
		},
		Source: happening.Block{Type: source.TypeSite},
	}
}

func hosts(t *testing.T, s Subject) {
	first, second := wanted(t, s, "https://example.org/1"), wanted(t, s, "https://EXAMPLE.org/2")
	other := wanted(t, s, "https://example.net/")
	turns, theirs := take(t, s, 2), s.Another()
	if turns[0].Source.ID != first || turns[1].Source.ID != other || turns[0].Host != "example.org" {
		t.Errorf("turns: %+v", turns)
	}
	assert.Equal(t, len(must.Get(s.Take(t.Context(), 10, []string{"example.org"}))(t)), 0, "turns at busy hosts")
	if got := take(t, theirs, 1); got[0].Source.ID != second { // another process may visit the host: the pace is shared
		t.Errorf("turn: %+v", got)
	}
	take(t, s, 0)
	holders := []uuid.UUID{turns[0].Holder, turns[1].Holder}
	s.Age(t, 59*time.Second)
	assert.Equal(t, len(must.Get(s.Hold(t.Context(), holders))(t)), 0, "lost")
	s.Age(t, 2*time.Second)
	assert.Equal(t, take(t, theirs, 1)[0].Source.ID, second, "turn")

	// A visit without a heartbeat for a minute loses the turn, and can't change anything any more.
	s.Age(t, time.Minute)
	mine, now := s.Walk(turns[0]), take(t, theirs, 2)
	if now[0].Source.ID != first || now[0].Holder == turns[0].Holder {
		t.Fatalf("turns: %+v", now)
	}
	settle := func() error { // which is stored with the next write
		err := mine.Settle(t.Context(), []visiting.Settled{{Happening: uuid.New()}}, visiting.Tally{})
		if err == nil {
			_, err = mine.Waiting(t.Context())
		}
		return err
	}
	visited := collect.Visited{Known: collect.Known{Link: collect.Link{Address: "a"}}}
	for what, err := range map[string]error{
		"begin":    mine.Begin(t.Context(), []collect.Link{{Address: "a"}}),
		"record":   mine.Record(t.Context(), visited, nil, visiting.Tally{}),
		"settle":   settle(),
		"conclude": mine.Conclude(t.Context()),
		"leave":    mine.Leave(t.Context(), visiting.Next{}),
	} {
		assert.Is(t, err, visiting.ErrLost, "%s", what)
	}
	assert.Slices(t, must.Get(s.Hold(t.Context(), holders))(t), holders, "lost")
}

func inTime(t *testing.T, s Subject) {
	c := of(t, s).begin(collect.Link{Address: "a"})
	if !c.turn.Wanted || c.turn.Number != 1 {
		t.Errorf("turn: %+v", c.turn)
	}
	c.read("a", sight("jazz", "Jazz"))
	c.leave(visiting.Next{ // it continues
		Interval:         time.Minute,
		Failures:         3,
		UnreadableInARow: 2,
		In:               time.Second,
	})
	take(t, s, 0)
	s.Age(t, time.Second)
	if c.take(); c.turn.Fresh || !c.turn.Wanted || c.turn.Number != 1 || c.turn.Failures != 3 ||
		c.turn.UnreadableInARow != 2 || c.turn.Interval != time.Minute || c.turn.Tally.New != 1 {
		t.Errorf("turn: %+v", c.turn)
	}
	c.leave(hourly)
	take(t, s, 0) // the wish is still recorded
	s.Source(t, c.id, request())
	c.begin()
	if !c.turn.Wanted || c.turn.Number != 2 || c.turn.Interval != time.Hour || c.turn.Tally.New != 0 {
		t.Errorf("turn: %+v", c.turn)
	}
}

func laterRequest(t *testing.T, s Subject) {
	c := of(t, s).take()
	s.Source(t, c.id, request())
	c.do(c.walk.Begin(t.Context(), []collect.Link{{Address: "a"}}))
	c.leave(hourly)
	if c.take(); !c.turn.Fresh || !c.turn.Wanted || c.turn.Number != 2 {
		t.Errorf("turn: %+v", c.turn)
	}
}

func paused(t *testing.T, s Subject) {
	c := of(t, s).begin(collect.Link{Address: "a"})
	s.Source(t, c.id, source.Paused{Reason: "the owner objects", At: time.Now().UTC()})
	if _, _, err := c.walk.Next(t.Context()); !errors.Is(err, visiting.ErrPaused) {
		t.Errorf("the next page of a paused source: %v", err)
	}
	c.leave(visiting.Next{In: time.Hour})
	s.Age(t, time.Hour)
	take(t, s, 0)
	s.Source(t, c.id, source.Resumed{At: time.Now().UTC()})
	if c.take(); c.turn.Fresh {
		t.Errorf("turn: %+v", c.turn)
	}
	c.leave(visiting.Next{In: time.Hour})
	take(t, s, 0)
	s.Source(t, c.id, source.Paused{Reason: "again", At: time.Now().UTC()}, source.Resumed{At: time.Now().UTC()})
	c.take() // at once
	c.leave(visiting.Next{In: time.Hour})
	settings := source.Settings{IgnoreLists: true, Selectors: source.Selectors{Event: "li"}}
	s.Source(t, c.id, source.Revised{Settings: settings, At: time.Now().UTC()})
	if c.take(); c.turn.Source.Settings != settings { // at once as well
		t.Errorf("turn: %+v", c.turn.Source)
	}
}

func recordedSource(t *testing.T, s Subject) {
	c := of(t, s)
	s.Source(t, c.id, source.CollectionStarted{Number: 4, At: time.Now().UTC()}, source.CollectionCompleted{
		Number:          4,
		Notes:           []source.Note{{Code: "truncated", Text: "cut"}},
		IntervalSeconds: 900,
		At:              time.Now().UTC(),
	}, request())
	c.take()
	want := eventstore.Loaded[source.State]{Revision: 4, State: source.State{
		Status:   source.StatusWaiting,
		Type:     source.TypeSite,
		Started:  4,
		Interval: 15 * time.Minute,
		Outcome:  "ok",
		Notes:    []source.Note{{Code: "truncated", Text: "cut"}},
	}}
	if diff := cmp.Diff(want, c.turn.Recorded); diff != "" || c.turn.Number != 5 || c.turn.Interval != 15*time.Minute {
		t.Errorf("turn %d after %s (-want +got):\n%s", c.turn.Number, c.turn.Interval, diff)
	}
}
