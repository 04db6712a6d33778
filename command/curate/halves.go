package curate

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

// oneSidedMerge is a merge or a split that only one of the two happenings has recorded.
type oneSidedMerge struct {
	stays, goes uuid.UUID
	split       bool
}

// recordSide adds one side of a merge or split. The second side completes the pair and removes it.
// Each names the other happening.
func recordSide(oneSided map[oneSidedMerge]happening.Event, which oneSidedMerge, own uuid.UUID, event happening.Event) {
	if which.goes == uuid.Nil {
		which.goes = own
	} else {
		which.stays = own
	}
	if _, other := oneSided[which]; other {
		delete(oneSided, which)
		return
	}
	oneSided[which] = event
}

// finish records the missing side of merges and splits, which a crash or a concurrent process left open. The remaining
// happening comes first.
func (m *merging) finish(ctx context.Context, oneSided map[oneSidedMerge]happening.Event) error {
	for _, h := range slices.SortedFunc(maps.Keys(oneSided), oneSidedMerge.compare) {
		var at time.Time
		var verdict match.Verdict
		switch e := oneSided[h].(type) {
		case happening.Merged:
			at, verdict = e.At, match.Verdict{Reason: match.Reason(e.Reason), Score: e.Score}
		case happening.Split:
			at = e.At
		// neither merge nor split
		case happening.Observed, happening.Revised, happening.WentStale, happening.OccurrenceChanged:
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
			// They were split, or another process merged one of them elsewhere.
			m.profiles.forget(h.stays)
			m.profiles.forget(h.goes)
			_, err = command.Separate(ctx, m.store, h.stays, h.goes, at, eventstore.Metadata{Actor: FeedCurationName})
			err = unlessRetired(err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (h oneSidedMerge) compare(o oneSidedMerge) int {
	if c := bytes.Compare(h.stays[:], o.stays[:]); c != 0 {
		return c
	}
	return bytes.Compare(h.goes[:], o.goes[:])
}

// apart reports whether two happenings, or any that were merged into them, have been split.
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
