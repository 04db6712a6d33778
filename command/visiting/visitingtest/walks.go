// Package visitingtest has the memory of walks in this process, for tests of visits, and the contract of all such
// memories.
package visitingtest

import (
	"bytes"
	"cmp"
	"context"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/collect/crawl/frontier"
	"carillon/command/visiting"
	"carillon/eventstore"
)

// turnLength is how long a turn lasts without a renewal.
const turnLength = time.Minute

// Walks is visiting.Walks in memory. It knows sources and happenings by their events.
type Walks struct {
	mu         sync.Mutex
	store      eventstore.Store
	seen       eventstore.Position
	passed     time.Duration // see Age
	sources    map[uuid.UUID]*recorded
	happenings map[uuid.UUID]happening.State
	walks      map[uuid.UUID]*walks
}

var _ visiting.Walks = (*Walks)(nil)

// New returns the walks through the sources of a store.
func New(store eventstore.Store) *Walks {
	return &Walks{
		store:      store,
		sources:    map[uuid.UUID]*recorded{},
		happenings: map[uuid.UUID]happening.State{},
		walks:      map[uuid.UUID]*walks{},
	}
}

// recorded is a source as its events show it.
type recorded struct {
	eventstore.Loaded[source.State]

	is   collect.Source
	wish *time.Time // of a walk that has not begun
}

// walks are those through one source.
type walks struct {
	pages       *frontier.Memory
	read        map[string]*page
	views       map[uuid.UUID]*view
	turn        visiting.Turn // the last one, with its results
	walking     bool
	next, until time.Time
	served      *time.Time // wish
}

// page is the result of reading a page.
type page struct {
	list, whole bool
	shown       int
	notes       collect.Notes
}

// view is a happening as the pages of a source show it.
type view struct {
	visiting.View

	waiting  bool
	restored time.Time // zero unless it is known from the events alone
	pages    map[uuid.UUID]*visiting.Sighting
}

// Age lets time pass.
func (w *Walks) Age(d time.Duration) { w.passed += d }

// Forget loses the memory.
func (w *Walks) Forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.walks)
}

// Evidence replaces the evidence by which a happening is remembered.
func (w *Walks) Evidence(happening uuid.UUID, evidence ...uuid.UUID) {
	for _, m := range w.walks {
		if v := m.views[happening]; v != nil {
			v.Evidence = evidence
		}
	}
}

// MaxEvidence is the most evidence by which a happening is remembered.
func (w *Walks) MaxEvidence() (most int) {
	for _, m := range w.walks {
		for _, v := range m.views {
			most = max(most, len(v.Evidence))
		}
	}
	return most
}

func (w *Walks) now() time.Time { return time.Now().Add(w.passed) }

// follow reads what was recorded since the last time.
func (w *Walks) follow(ctx context.Context) error {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	of := eventstore.Categories(source.Aggregate.Category, happening.Aggregate.Category)
	for m, err := range w.store.Subscribe(reading, w.seen, of) {
		if err != nil || m.CaughtUp {
			return err
		}
		if m.Event == nil {
			continue
		}
		w.seen = m.Event.Position
		id := m.Event.StreamID()
		if m.Event.Category() == happening.Aggregate.Category {
			event, err := happening.Events.Decode(m.Event)
			if err != nil {
				return err
			}
			w.happenings[id] = happening.Aggregate.Evolve(w.happenings[id], event)
			continue
		}
		event, err := source.Events.Decode(m.Event)
		if err != nil {
			return err
		}
		if w.sources[id] == nil {
			w.sources[id] = &recorded{is: collect.Source{ID: id}}
		}
		s := w.sources[id]
		s.State, s.Revision = source.Aggregate.Evolve(s.State, event), m.Event.Revision
		switch e := event.(type) {
		case source.Registered:
			s.is.Type, s.is.URL, s.is.Handle, s.is.Timezone = e.Type, e.URL, e.Handle, e.Timezone
		case source.CollectionRequested:
			s.wish = &e.At
		case source.CollectionStarted:
			s.wish = nil
		case source.Resumed, source.Revised:
			s.is.Settings = s.State.Settings
			if m := w.walks[id]; m != nil {
				m.next = time.Time{}
			}
		// Evolve knows these.
		case source.CollectionCompleted, source.CollectionFailed, source.CredentialsMissing, source.JavaScriptNeeded,
			source.Paused:
		}
	}
	return nil
}

// of returns the walks through a source. They begin with what its events show.
func (w *Walks) of(s *recorded, now time.Time) *walks {
	if known := w.walks[s.is.ID]; known != nil {
		return known
	}
	m := &walks{
		pages: frontier.New(nil, now),
		read:  map[string]*page{},
		views: map[uuid.UUID]*view{},
		turn:  visiting.Turn{Number: s.State.Started, Failures: s.State.Failures, Interval: s.State.Interval},
		next:  now,
	}
	for id, h := range w.happenings {
		t, shown := h.Sightings[happening.SightingKey{Source: s.is.ID}]
		if !shown || t.Stale {
			continue
		}
		v := &view{restored: now, pages: map[uuid.UUID]*visiting.Sighting{}}
		v.Happening, v.Evidence = id, []uuid.UUID{id}
		v.Digest, _ = happening.Digest(t.Details, t.Source, t.Standing)
		m.views[id] = v
	}
	w.walks[s.is.ID] = m
	return m
}

// Take implements visiting.Walks.
func (w *Walks) Take(ctx context.Context, limit int, busy []string) (turns []visiting.Turn, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.follow(ctx); err != nil {
		return nil, err
	}
	now := w.now()
	var due []*recorded
	for _, s := range w.sources {
		m := w.of(s, now)
		if s.wish != nil && s.wish != m.served && m.next.After(*s.wish) {
			m.next = *s.wish
		}
		if !m.next.After(now) && !m.until.After(now) && s.State.Paused == "" {
			due = append(due, s)
		}
	}
	slices.SortFunc(due, func(a, b *recorded) int {
		return cmp.Or(w.walks[a.is.ID].next.Compare(w.walks[b.is.ID].next), bytes.Compare(a.is.ID[:], b.is.ID[:]))
	})
	for _, s := range due {
		host := hostOf(s.is)
		if slices.Contains(busy, host) || len(turns) == limit {
			continue
		}
		busy = append(busy, host)
		turns = append(turns, w.walks[s.is.ID].take(s, host, now))
	}
	return turns, nil
}

func (m *walks) take(s *recorded, host string, now time.Time) visiting.Turn {
	m.until = now.Add(turnLength)
	m.turn.Source, m.turn.Host, m.turn.Holder, m.turn.Recorded = s.is, host, uuid.New(), s.Loaded
	t := m.turn
	if t.Fresh = !m.walking; t.Fresh {
		t.Number, t.Tally, t.Wish = max(t.Number, s.State.Started)+1, visiting.Tally{}, s.wish
		t.Wanted = s.wish != nil && s.wish != m.served
	}
	return t
}

// hostOf returns the host of a URL, or the platform.
func hostOf(s collect.Source) string {
	if u, err := url.Parse(s.URL); err == nil && u.Host != "" {
		return strings.ToLower(u.Hostname())
	}
	return s.Type
}

// Hold implements visiting.Walks.
func (w *Walks) Hold(_ context.Context, holders []uuid.UUID) (lost []uuid.UUID, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, holder := range holders {
		held := false
		for _, m := range w.walks {
			if m.turn.Holder == holder {
				held, m.until = true, w.now().Add(turnLength)
			}
		}
		if !held {
			lost = append(lost, holder)
		}
	}
	return lost, nil
}

// Walk implements visiting.Walks.
func (w *Walks) Walk(turn visiting.Turn) visiting.Walk {
	return &walk{Walks: w, turn: turn}
}
