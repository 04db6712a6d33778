package collection

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command/collect/match"
	"carillon/eventstore"
)

// profile is what is known of a happening for comparing it. What its sources tell is by far the most of it, and is only
// wanted of those that are merged: it is let go of when the happening is not dealt with any more.
type profile struct {
	id uuid.UUID
	eventstore.Loaded[happening.State]

	whole   bool                      // with what its sources tell
	told    bool                      // some source tells of it
	shownBy map[uuid.UUID]match.Dates // when it begins as sources tell it that show it
	subject match.Subject
	since   time.Time
	at      time.Time // dates are as of then
}

func newProfile(id uuid.UUID, loaded eventstore.Loaded[happening.State], at time.Time) *profile {
	state := loaded.State
	p := &profile{
		id:      id,
		subject: match.Of(state.Combine().Details, state.Keys(), at),
		since:   state.Since(),
		at:      at,
	}
	p.know(loaded)
	return p
}

// know takes over what has been found out of it, or come of changing it.
func (p *profile) know(loaded eventstore.Loaded[happening.State]) {
	p.Loaded, p.whole, p.told = loaded, true, len(loaded.State.Tellings) > 0
	p.shownBy = make(map[uuid.UUID]match.Dates, len(loaded.State.Tellings))
	for teller, t := range loaded.State.Tellings {
		if !t.Stale {
			p.shownBy[teller.Source] = append(p.shownBy[teller.Source], match.DatesOf(t.Details, p.at)...)
		}
	}
}

func (p *profile) lighten() { p.State.Tellings, p.whole = nil, false }

// beside reports whether a source shows both, and means two by that. Single dates that another source tells as a
// series are no two events.
func (p *profile) beside(o *profile) bool {
	for source := range p.shownBy {
		if _, both := o.shownBy[source]; both && !p.hasDates(o, source) && !o.hasDates(p, source) {
			return true
		}
	}
	return false
}

// hasDates reports whether all that a source tells of another happening is dates that other sources tell of this one,
// and that it does not tell of this one itself.
func (p *profile) hasDates(o *profile, source uuid.UUID) bool {
	var others match.Dates
	for by, dates := range p.shownBy {
		if by != source {
			others = append(others, dates...)
		}
	}
	return o.shownBy[source].In(others) && !o.shownBy[source].Meets(p.shownBy[source])
}

// whole reads what sources tell of a happening, where that was let go of.
func (m *merging) whole(ctx context.Context, p *profile) error {
	if p.whole {
		return nil
	}
	loaded, err := happening.Aggregate.Load(ctx, m.store, p.id)
	if err != nil {
		return fmt.Errorf("happening %s: %w", p.id, err)
	}
	p.know(loaded)
	return nil
}

// profiles are what is known of happenings, of the last that were asked for: at least so many, and not much more than
// twice as many. They are read and changed by one goroutine; what one of them holds is for whoever deals with its
// happening.
type profiles struct {
	enough     int
	young, old map[uuid.UUID]*profile
	held       []*profile // that may be whole, since the last age
}

func newProfiles(enough int) *profiles {
	return &profiles{enough: enough, young: map[uuid.UUID]*profile{}}
}

// age forgets those that were not asked for in a while, and lightens all.
func (p *profiles) age() {
	p.lighten(0)
	if len(p.young) >= p.enough {
		p.young, p.old = map[uuid.UUID]*profile{}, p.young
	}
}

// hold says that some are whole, or about to be.
func (p *profiles) hold(some ...*profile) { p.held = append(p.held, some...) }

// lighten lightens those that are held, but so many of the first.
func (p *profiles) lighten(but int) {
	for _, known := range p.held[but:] {
		known.lighten()
	}
	clear(p.held[but:])
	p.held = p.held[:but]
}

// get returns what is known of a happening, or nil.
func (p *profiles) get(id uuid.UUID) *profile {
	if found := p.young[id]; found != nil {
		return found
	}
	found := p.old[id]
	if found != nil {
		p.young[id] = found
	}
	return found
}

func (p *profiles) put(id uuid.UUID, known *profile) {
	p.young[id] = known
	p.hold(known)
}

func (p *profiles) forget(id uuid.UUID) {
	delete(p.young, id)
	delete(p.old, id)
}
