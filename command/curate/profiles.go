package curate

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command/collect/match"
	"carillon/eventstore"
)

// profile is a happening as comparisons need it. The observations of its sources are most of the data and are needed
// for merges only: they are evicted when the happening is processed.
type profile struct {
	id uuid.UUID
	eventstore.Loaded[happening.State]

	whole    bool                      // with the observations of its sources
	observed bool                      // a source shows it
	shownBy  map[uuid.UUID]match.Dates // starts as its sources show them
	subject  match.Subject
	since    time.Time
	at       time.Time // time of the dates
	overAt   time.Time // see happening.State
}

func newProfile(id uuid.UUID, loaded eventstore.Loaded[happening.State], at time.Time) *profile {
	state := loaded.State
	p := &profile{
		id:      id,
		subject: match.Of(state.Combine().Details, state.Keys(), at),
		since:   state.Since(),
		at:      at,
	}
	p.update(loaded)
	return p
}

// update takes over a state that was read or written.
func (p *profile) update(loaded eventstore.Loaded[happening.State]) {
	p.overAt = loaded.State.OverAt()
	p.Loaded, p.whole, p.observed = loaded, true, len(loaded.State.Sightings) > 0
	p.shownBy = make(map[uuid.UUID]match.Dates, len(loaded.State.Sightings))
	for from, t := range loaded.State.Sightings {
		if !t.Stale {
			p.shownBy[from.Source] = append(p.shownBy[from.Source], match.DatesOf(t.Details, p.at)...)
		}
	}
}

func (p *profile) evictData() { p.State.Sightings, p.whole = nil, false }

// bond returns what connects two profiles. Single dates that another source shows as a series are not two events.
func (p *profile) bond(o *profile) match.Bond {
	for source := range p.shownBy {
		if _, both := o.shownBy[source]; both && !p.hasDates(o, source) && !o.hasDates(p, source) {
			return match.Beside
		}
	}
	return match.Nothing
}

// hasDates reports whether all dates that a source shows of another happening are dates that other sources show of
// this one, and the source does not show this one itself.
func (p *profile) hasDates(o *profile, source uuid.UUID) bool {
	var others match.Dates
	for by, dates := range p.shownBy {
		if by != source {
			others = append(others, dates...)
		}
	}
	return o.shownBy[source].In(others) && !o.shownBy[source].Meets(p.shownBy[source])
}

// whole reads the observations of a happening again if they were evicted.
func (m *merging) whole(ctx context.Context, p *profile) error {
	if p.whole {
		return nil
	}
	loaded, err := happening.Aggregate.Load(ctx, m.store, p.id)
	if err != nil {
		return fmt.Errorf("happening %s: %w", p.id, err)
	}
	p.update(loaded)
	return nil
}

// profiles caches the profiles that were used last: at least minKept, and not much more than twice as many. One
// goroutine reads and changes them; a single profile belongs to the goroutine that processes its happening.
type profiles struct {
	minKept           int
	current, previous map[uuid.UUID]*profile
	held              []*profile // with observations, since the last call of age
}

func newProfiles(minKept int) *profiles {
	return &profiles{minKept: minKept, current: map[uuid.UUID]*profile{}}
}

// age drops the profiles that were not used lately, and evicts the observations of all.
func (p *profiles) age() {
	p.evictData(0)
	if len(p.current) >= p.minKept {
		p.current, p.previous = map[uuid.UUID]*profile{}, p.current
	}
}

// hold registers profiles that have, or will get, observations.
func (p *profiles) hold(some ...*profile) { p.held = append(p.held, some...) }

// evictData evicts the observations of all held profiles but the first n.
func (p *profiles) evictData(n int) {
	for _, known := range p.held[n:] {
		known.evictData()
	}
	clear(p.held[n:])
	p.held = p.held[:n]
}

// get returns a profile, or nil.
func (p *profiles) get(id uuid.UUID) *profile {
	if found := p.current[id]; found != nil {
		return found
	}
	found := p.previous[id]
	if found != nil {
		p.current[id] = found
	}
	return found
}

func (p *profiles) put(id uuid.UUID, known *profile) {
	p.current[id] = known
	p.hold(known)
}

func (p *profiles) forget(id uuid.UUID) {
	delete(p.current, id)
	delete(p.previous, id)
}
