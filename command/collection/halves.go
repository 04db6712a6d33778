package collection

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command"
	"carillon/command/collect/match"
	"carillon/eventstore"
)

// half is a merge or a split as one of the two happenings has recorded it.
type half struct {
	stays, goes uuid.UUID
	split       bool
}

// halfOf notes what an event says of a pair. Two halves are whole, and nothing is left to do.
func halfOf(halves map[half]happening.Event, stays, goes half, event happening.Event) {
	which := stays
	if which.goes == uuid.Nil {
		which = goes
	}
	if _, other := halves[which]; other {
		delete(halves, which)
		return
	}
	halves[which] = event
}

// finish records the other half of what only one of two says: whoever did that was killed over it, or is about to do
// it. The one that stays, or stayed, says it first.
func (m *merging) finish(ctx context.Context, halves map[half]happening.Event) error {
	for _, h := range slices.SortedFunc(maps.Keys(halves), half.compare) {
		var at time.Time
		var verdict match.Verdict
		switch e := halves[h].(type) {
		case happening.Merged:
			at, verdict = e.At, match.Verdict{Reason: match.Reason(e.Reason), Score: e.Score}
		case happening.Split:
			at = e.At
		case happening.Observed, happening.Revised, happening.WentStale, happening.OccurrenceChanged: // are no halves
		}
		if err := m.load(ctx, []uuid.UUID{h.stays, h.goes}, at); err != nil {
			return err
		}
		stays, goes := m.profiles.get(h.stays), m.profiles.get(h.goes)
		_, held := stays.State.Holds[h.goes]
		var err error
		switch into := goes.State.Into; {
		case held && into == uuid.Nil && !goes.State.Apart[h.stays]:
			err = m.merge(ctx, stays, goes, verdict, at)
		case held != (into == h.stays):
			// They were split, or somebody else has merged it elsewhere.
			m.profiles.forget(h.stays)
			m.profiles.forget(h.goes)
			_, err = command.Separate(ctx, m.store, h.stays, h.goes, at, eventstore.Metadata{Actor: FeedCurationName})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h half) compare(o half) int {
	if c := bytes.Compare(h.stays[:], o.stays[:]); c != 0 {
		return c
	}
	return bytes.Compare(h.goes[:], o.goes[:])
}

// apart says that somebody has split two or, where they would be merged, any that were merged into them.
func (m *merging) apart(ctx context.Context, merging *merges, a, b *profile, same bool, at time.Time) (bool, error) {
	if a.State.Apart[b.id] || b.State.Apart[a.id] {
		return true, nil
	}
	one, other := a.State.Group(a.id), b.State.Group(b.id)
	all := slices.Concat(one, other)
	if !same || len(all) == 2 {
		return false, nil
	}
	if err := merging.await(all...); err != nil {
		return false, err
	}
	if err := m.load(ctx, all, at); err != nil {
		return false, err
	}
	for _, x := range one {
		for _, y := range other {
			if m.profiles.get(x).State.Apart[y] || m.profiles.get(y).State.Apart[x] {
				return true, nil
			}
		}
	}
	return false, nil
}
