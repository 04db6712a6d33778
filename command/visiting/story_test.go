package visiting_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/visiting"
	"carillon/command/visiting/visitingtest"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/processtest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// story is visits of one source: given pages, when it is walked, then the events.
type story struct {
	t       *testing.T
	store   eventstore.Store
	walks   *visitingtest.Walks
	monitor *visiting.Monitor
	id      uuid.UUID
}

// begin begins a story of a source.
func begin(t *testing.T, is collect.Source, collector collect.Collector) *story {
	t.Helper()
	s := &story{t: t, store: nodetest.Start(t), id: uuid.New()}
	s.walks = visitingtest.New(s.store)
	s.monitor = &visiting.Monitor{
		Store:      s.store,
		Now:        time.Now,
		Log:        slog.New(slog.DiscardHandler),
		Walks:      s.walks,
		Collectors: map[string]collect.Collector{is.Type: collector},
		Slice:      time.Hour,
		Pages:      500,
	}
	s.when(source.Register{
		Type:     is.Type,
		URL:      is.URL,
		Handle:   is.Handle,
		Timezone: is.Timezone,
		At:       time.Now(),
	})
	return s
}

// when executes a command on the source.
func (s *story) when(command source.Command) {
	s.t.Helper()
	must.Get(source.Aggregate.Execute(s.t.Context(), s.store, s.id, command, source.Options{}))(s.t)
}

// turn takes the turn of the source, which is due.
func (s *story) turn() visiting.Turn {
	s.t.Helper()
	turns, err := s.walks.Take(s.t.Context(), 1, nil)
	must.True(s.t, err == nil && len(turns) == 1, "turns: %+v, %v", turns, err)
	return turns[0]
}

// request has a visit made that was requested.
func (s *story) request(ctx context.Context) {
	s.t.Helper()
	s.when(source.Request{At: time.Now()})
	s.monitor.Visit(ctx, s.turn())
}

// walk has the source walked on request, and returns the sorted types of the happenings' events meanwhile.
func (s *story) walk() string {
	s.t.Helper()
	before := len(s.events(happening.Aggregate.Category))
	s.request(s.t.Context())
	var came []string
	for _, e := range s.events(happening.Aggregate.Category)[before:] {
		if name := strings.TrimSuffix(strings.TrimPrefix(e.Type, "happening."), ".v1"); name != "occurrence-changed" {
			came = append(came, name)
		}
	}
	slices.Sort(came)
	return strings.Join(came, " ")
}

// expect has the source walked, and compares the types.
func (s *story) expect(when, want string) {
	s.t.Helper()
	assert.Equal(s.t, s.walk(), want, "%s: the walk came to", when)
}

// events lists the events of a category.
func (s *story) events(category string) []eventstore.Recorded {
	s.t.Helper()
	return processtest.Events(s.t, s.store, eventstore.Start, eventstore.Categories(category))
}

// last is the last event of the source.
func (s *story) last() source.Event {
	s.t.Helper()
	all := s.events(source.Aggregate.Category)
	event := must.Get(source.Events.Decode(&all[len(all)-1]))(s.t)
	return event
}

// leaflets is a source of several pages: its root lists the others.
type leaflets struct {
	listed []string
	pages  map[string]leaflet // by address; a missing one is gone
	asked  []string
}

type leaflet struct {
	view    []collect.Observation
	err     error
	panics  bool
	before  func() // Optional.
	partial bool
	notes   collect.Notes

	unchanged bool
}

func (l *leaflets) set(address string, page leaflet) {
	if l.pages == nil {
		l.pages = map[string]leaflet{}
	}
	if !slices.Contains(l.listed, address) && address != "root" {
		l.listed = append(l.listed, address)
	}
	l.pages[address] = page
}

func (l *leaflets) remove(address string, listed bool) {
	delete(l.pages, address)
	if !listed {
		l.listed = slices.DeleteFunc(l.listed, func(a string) bool { return a == address })
	}
}

// Start implements collect.Collector.
func (*leaflets) Start(collect.Source) []collect.Link {
	return []collect.Link{{Address: "root", List: true}}
}

// Read implements collect.Collector.
func (l *leaflets) Read(_ context.Context, is collect.Source, known collect.Known) (collect.Page, error) {
	l.asked = append(l.asked, known.Address)
	page, ok := l.pages[known.Address]
	if page.before != nil {
		page.before()
	}
	switch {
	case !ok && known.Address != "root":
		return collect.Page{}, &collect.StatusError{Code: 410}
	case page.panics:
		panic("an unexpected page")
	case page.err != nil:
		return collect.Page{}, page.err
	}
	read := collect.Page{
		Requests:  1,
		Partial:   page.partial,
		Notes:     page.notes,
		Unchanged: page.unchanged,
	}
	for _, o := range page.view {
		o.Source = happening.Block{Type: is.Type}
		read.Observations = append(read.Observations, o)
	}
	if known.Address == "root" {
		for _, listed := range l.listed {
			read.Links = append(read.Links, collect.Link{Address: listed})
		}
	}
	return read, nil
}

// begin begins a story of them.
func (l *leaflets) begin(t *testing.T) *story {
	t.Helper()
	return begin(t, collect.Source{Type: source.TypeFacebook, Handle: "leaflets"}, l)
}

// soon is when everything happens.
var soon = time.Now().Add(48 * time.Hour).Truncate(time.Hour)

// view returns a page's view of a concert.
func view(key, title string, standing happening.Standing, with func(*happening.Details)) collect.Observation {
	o := collect.Observation{
		Key:      key,
		Keys:     []string{key},
		Standing: standing,
		Details:  happening.Details{Title: title, Instances: dates(key, 0)},
	}
	if with != nil {
		with(&o.Details)
	}
	return o
}

// dates returns the dates of some days.
func dates(key string, days ...int) (all []happening.Instance) {
	for _, day := range days {
		start := soon.AddDate(0, 0, day)
		id := happening.DeriveInstanceID(key, happening.OriginalStart(start))
		all = append(all, happening.Instance{ID: id, Status: happening.Scheduled, Occurrences: []happening.Occurrence{{
			ID: happening.DeriveOccurrenceID(id, 0), Start: start, Status: happening.Scheduled,
		}}})
	}
	return all
}

func concert(name string) leaflet {
	return leaflet{view: []collect.Observation{view("url:example.org/"+name, name, happening.FromOwnPage, nil)}}
}

// cutting is a store that cuts off a visit after some events of happenings.
type cutting struct {
	eventstore.Store

	after int64
	count atomic.Int64
	cut   context.CancelFunc
}

// Append implements eventstore.Store.
func (c *cutting) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	if strings.HasPrefix(stream, happening.Aggregate.Category) && c.count.Add(1) > c.after {
		c.cut()
		return eventstore.Appended{}, context.Canceled
	}
	return c.Store.Append(ctx, stream, expected, events)
}
