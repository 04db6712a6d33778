// Package curatetest has the memory of a curation in this process, for tests of its decisions, and the contract of all
// such memories.
package curatetest

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/command/collect/match"
	"carillon/command/curate"
	"carillon/eventstore"
)

// Memory is curate.Memory and curate.Likeness in memory.
type Memory struct {
	// Save saves the rest of the curation's state, which has dealt with events. Optional.
	Save func(dealtWith []eventstore.Recorded) error

	// Comparisons are the results of all comparisons.
	Comparisons []curate.Comparison

	known map[uuid.UUID]*curate.Known
	marks map[uuid.UUID][]match.Mark
}

var (
	_ curate.Memory   = (*Memory)(nil)
	_ curate.Likeness = (*Memory)(nil)
)

// New returns an empty memory.
func New() *Memory {
	return &Memory{known: map[uuid.UUID]*curate.Known{}, marks: map[uuid.UUID][]match.Mark{}}
}

// Copy returns a copy.
func (m *Memory) Copy() *Memory {
	return &Memory{known: m.All(), marks: maps.Clone(m.marks)}
}

// All returns all happenings.
func (m *Memory) All() map[uuid.UUID]*curate.Known {
	all := map[uuid.UUID]*curate.Known{}
	for id, k := range m.known {
		all[id] = copied(k)
	}
	return all
}

// copied is a happening without what is to be forgotten.
func copied(k *curate.Known) *curate.Known {
	sources := maps.Clone(k.Sources)
	maps.DeleteFunc(sources, func(id uuid.UUID, _ curate.SourceDates) bool { return slices.Contains(k.Dropped, id) })
	return &curate.Known{Sources: sources, Feeds: maps.Clone(k.Feeds), Merged: k.Merged}
}

// Recall implements curate.Memory.
func (m *Memory) Recall(_ context.Context, ids []uuid.UUID) (map[uuid.UUID]*curate.Known, error) {
	known := map[uuid.UUID]*curate.Known{}
	for _, id := range ids {
		if m.known[id] != nil {
			known[id] = copied(m.known[id])
		}
	}
	return known, nil
}

// Carried implements curate.Memory, one at a time.
func (m *Memory) Carried(
	_ context.Context, which curate.Carried, after curate.Mark,
) (map[uuid.UUID]*curate.Known, curate.Mark, error) {
	var marks []curate.Mark
	for id, k := range m.known {
		d, carried := k.Sources[which.Source]
		mark := curate.Mark{Newest: d.Newest(), ID: id}
		if carried && !mark.Newest.Before(which.Since) && compare(mark, after) > 0 &&
			(which.ItemsOf == uuid.Nil || k.Feeds[which.ItemsOf]) {
			marks = append(marks, mark)
		}
	}
	if len(marks) == 0 {
		return nil, after, nil
	}
	first := slices.MinFunc(marks, compare)
	return map[uuid.UUID]*curate.Known{first.ID: copied(m.known[first.ID])}, first, nil
}

func compare(a, b curate.Mark) int {
	return cmp.Or(a.Newest.Compare(b.Newest), bytes.Compare(a.ID[:], b.ID[:]))
}

// Keep implements curate.Memory.
func (m *Memory) Keep(
	_ context.Context, changed map[uuid.UUID]*curate.Known, dealtWith []eventstore.Recorded,
) error {
	for id, k := range changed {
		m.known[id] = copied(k)
	}
	return m.save(dealtWith)
}

// Forget implements curate.Memory.
func (m *Memory) Forget(_ context.Context, happenings []uuid.UUID, dealtWith []eventstore.Recorded) error {
	for _, id := range happenings {
		delete(m.known, id)
		delete(m.marks, id)
	}
	return m.save(dealtWith)
}

func (m *Memory) save(dealtWith []eventstore.Recorded) error {
	if m.Save == nil || len(dealtWith) == 0 {
		return nil
	}
	return m.Save(dealtWith)
}

// Note implements curate.Likeness.
func (m *Memory) Note(
	_ context.Context, all map[uuid.UUID][]match.Mark, _ time.Time,
) (map[uuid.UUID][]uuid.UUID, error) {
	maps.Copy(m.marks, all)
	alike := map[uuid.UUID][]uuid.UUID{}
	for id, its := range all {
		for other, marks := range m.marks {
			if other != id && similar(its, marks) {
				alike[id] = append(alike[id], other)
			}
		}
		slices.SortFunc(alike[id], func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	}
	return alike, nil
}

// similar reports whether marks have a key in common, a place or a title at about one time, or both on one day.
func similar(a, b []match.Mark) bool {
	kinds := map[match.Kind]bool{}
	for _, x := range a {
		for _, y := range b {
			if x.Hash() != y.Hash() {
				continue
			}
			if kinds[x.Kind] = true; x.Kind == match.Key || x.At.IsZero() || y.At.IsZero() ||
				x.At.Sub(y.At).Abs() <= match.Together {
				return true
			}
		}
	}
	return len(kinds) > 1
}

// Compared implements curate.Likeness.
func (m *Memory) Compared(_ context.Context, all []curate.Comparison) error {
	m.Comparisons = append(m.Comparisons, all...)
	return nil
}
