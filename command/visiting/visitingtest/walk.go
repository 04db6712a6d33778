package visitingtest

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/visiting"
)

// walk is the walk of a turn.
type walk struct {
	*Walks

	turn visiting.Turn
}

// held does something while the turn is the visit's.
func (w *walk) held(do func(m *walks)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.walks[w.turn.Source.ID]
	if m == nil || m.turn.Holder != w.turn.Holder {
		return visiting.ErrLost
	}
	m.until = w.now().Add(turnLength)
	do(m)
	return nil
}

// Begin implements visiting.Walk.
func (w *walk) Begin(_ context.Context, start []collect.Link) error {
	return w.held(func(m *walks) {
		m.walking = true
		m.turn.Number, m.turn.Wanted, m.turn.Tally = w.turn.Number, w.turn.Wanted, visiting.Tally{}
		if w.turn.Wish != nil {
			m.served = w.turn.Wish
		}
		m.pages.Begin(start, w.now())
	})
}

// Next implements collect.Frontier.
func (w *walk) Next(ctx context.Context) (next collect.Known, ok bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.follow(ctx); err != nil {
		return next, false, err
	}
	if w.sources[w.turn.Source.ID].State.Paused != "" {
		return next, false, visiting.ErrPaused
	}
	return w.walks[w.turn.Source.ID].pages.Next(ctx)
}

// Identify implements visiting.Walk.
func (w *walk) Identify(_ context.Context, at collect.Known, evidence []uuid.UUID) ([]visiting.Shown, error) {
	id := visiting.PageID(at.Address)
	return w.shown(func(v *view) (found, here bool) {
		_, own := v.pages[id]
		return v.has(evidence), len(v.pages) == 0 || own && len(v.pages) == 1
	})
}

// Restored implements visiting.Walk.
func (w *walk) Restored(context.Context) ([]visiting.Shown, error) {
	return w.shown(func(v *view) (found, here bool) { return !v.restored.IsZero() && len(v.pages) == 0, true })
}

func (w *walk) shown(which func(*view) (found, here bool)) (list []visiting.Shown, err error) {
	return list, w.held(func(m *walks) {
		for _, v := range m.views {
			found, here := which(v)
			if !found {
				continue
			}
			s := visiting.Shown{Identity: v.Identity, Here: here}
			for _, t := range v.pages {
				s.Dates = append(s.Dates, t.Dates)
			}
			list = append(list, s)
		}
		slices.SortFunc(list, func(a, b visiting.Shown) int { return bytes.Compare(a.Happening[:], b.Happening[:]) })
	})
}

func (v *view) has(evidence []uuid.UUID) bool {
	return slices.ContainsFunc(v.Evidence, func(e uuid.UUID) bool { return slices.Contains(evidence, e) })
}

// DetailsOf implements visiting.Walk.
func (w *walk) DetailsOf(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID][]happening.Details, error) {
	all := map[uuid.UUID][]happening.Details{}
	w.mu.Lock()
	err := w.follow(ctx)
	w.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return all, w.held(func(m *walks) {
		for _, id := range ids {
			if v := m.views[id]; v != nil {
				for _, t := range v.pages {
					all[id] = append(all[id], t.Observation.Details)
				}
			}
			if h, recorded := w.happenings[id]; recorded {
				all[id] = append(all[id], h.Combine().Details)
			}
		}
	})
}

// Record implements visiting.Walk.
func (w *walk) Record(
	_ context.Context, visited collect.Visited, sightings []visiting.Sighting, tally visiting.Tally,
) error {
	return w.held(func(m *walks) {
		now, gone := w.now(), collect.Gone(visited.Err)
		m.turn.Tally = tally
		m.pages.Record(visited, now)
		p := m.read[visited.Known.Address]
		if p == nil {
			p = &page{}
			m.read[visited.Known.Address] = p
		}
		p.list, p.notes = visited.Known.List, visited.Page.Notes
		p.whole = gone || visited.Err == nil && !visited.Page.Partial
		if visited.Err != nil && !gone || visited.Page.Unchanged {
			return // it shows what it showed
		}
		if visited.Err == nil {
			p.shown = len(sightings)
		}
		m.see(visiting.PageID(visited.Known.Address), sightings, visited.Page.Partial, now)
	})
}

// see replaces what a page shows.
func (m *walks) see(page uuid.UUID, sightings []visiting.Sighting, partial bool, now time.Time) {
	here := map[uuid.UUID]bool{}
	for i := range sightings {
		t := &sightings[i]
		if here[t.Happening] {
			continue
		}
		here[t.Happening] = true
		v := m.views[t.Happening]
		if v == nil {
			v = &view{pages: map[uuid.UUID]*visiting.Sighting{}}
			v.Identity = t.Identity
			m.views[t.Happening] = v
		}
		stored, known := v.pages[page]
		if known && cmp.Equal(stored.Observation, t.Observation) {
			continue
		}
		v.waiting = true
		if v.Key == "" {
			v.Key = t.Key
		}
		if t.Rekeyed {
			v.Evidence = nil
		}
		for _, e := range t.Evidence {
			if !slices.Contains(v.Evidence, e) {
				v.Evidence = append(v.Evidence, e)
			}
		}
		if !known {
			stored = &visiting.Sighting{Page: page, Since: now}
			v.pages[page] = stored
		}
		if !bytes.Equal(stored.Dates, t.Dates) {
			stored.DatedAt = now
		}
		stored.Observation, stored.Dates = t.Observation, t.Dates
	}
	for id, v := range m.views {
		if _, shown := v.pages[page]; shown && !here[id] && !partial {
			delete(v.pages, page)
			v.waiting = true
		}
	}
}

// Waiting implements visiting.Walk.
func (w *walk) Waiting(context.Context) (list []visiting.View, err error) {
	return list, w.held(func(m *walks) {
		var ahead []uuid.UUID
		for _, address := range m.pages.Ahead() {
			ahead = append(ahead, visiting.PageEvidence(address))
		}
		for _, v := range m.views {
			if !v.waiting || !v.restored.IsZero() || v.has(ahead) || len(v.pages) == 0 && len(ahead) > 0 ||
				len(list) == visiting.MaxWaiting {
				continue
			}
			v.Sightings = nil
			for _, t := range v.pages {
				v.Sightings = append(v.Sightings, *t)
			}
			slices.SortFunc(v.Sightings, func(a, b visiting.Sighting) int {
				return bytes.Compare(a.Page[:], b.Page[:])
			})
			list = append(list, v.View)
		}
	})
}

// Settle implements visiting.Walk.
func (w *walk) Settle(_ context.Context, settled []visiting.Settled, tally visiting.Tally) error {
	return w.held(func(m *walks) {
		m.turn.Tally = tally
		for _, s := range settled {
			if v := m.views[s.Happening]; s.Gone {
				delete(m.views, s.Happening)
			} else if v != nil {
				v.waiting, v.Digest = false, s.Digest
			}
		}
	})
}

// Conclude implements visiting.Walk.
func (w *walk) Conclude(context.Context) error {
	return w.held(func(m *walks) {
		now, lists, pages := w.now(), true, true
		for _, p := range m.read {
			lists, pages = lists && (p.whole || !p.list), pages && p.whole
		}
		if lists {
			for _, address := range m.pages.DropUnlisted() {
				delete(m.read, address)
				m.see(visiting.PageID(address), nil, false, now)
			}
		}
		for _, v := range m.views {
			late := len(v.pages) > 0 && v.restored.Before(now.Add(-24*time.Hour))
			if !v.restored.IsZero() && (pages || late) {
				v.waiting, v.restored = true, time.Time{}
			}
		}
	})
}

// Result implements visiting.Walk.
func (w *walk) Result(context.Context) (result visiting.Result, err error) {
	return result, w.held(func(m *walks) {
		result = visiting.Result{Observed: len(m.views), Empty: true}
		for _, p := range m.read {
			result.Empty = result.Empty && (p.shown == 0 || p.notes.Has(collect.NoteNeedsJavaScript))
			for _, note := range p.notes {
				result.Notes = append(result.Notes, source.Note{Code: string(note.Code), Text: note.Text})
			}
		}
	})
}

// Leave implements visiting.Walk.
func (w *walk) Leave(_ context.Context, next visiting.Next) error {
	return w.held(func(m *walks) {
		m.until, m.next, m.walking = time.Time{}, w.now().Add(next.In), m.walking && !next.Over
		m.turn.Holder, m.turn.Interval = uuid.Nil, next.Interval
		m.turn.Failures, m.turn.UnreadableInARow = next.Failures, next.UnreadableInARow
	})
}
