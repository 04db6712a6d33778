package curate

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// held is a Memory in a map. The adapters test the one in Postgres with the whole curation.
type held map[uuid.UUID]*Known

var _ Memory = held{}

// copied returns a copy.
func (k *Known) copied() *Known {
	return &Known{Sources: maps.Clone(k.Sources), Feeds: maps.Clone(k.Feeds), Merged: k.Merged}
}

// Recall implements Memory.
func (m held) Recall(_ context.Context, ids []uuid.UUID) (map[uuid.UUID]*Known, error) {
	known := map[uuid.UUID]*Known{}
	for _, id := range ids {
		if m[id] != nil {
			known[id] = m[id].copied()
		}
	}
	return known, nil
}

// Carried implements Memory, one at a time.
func (m held) Carried(_ context.Context, which Carried, after Mark) (map[uuid.UUID]*Known, Mark, error) {
	var marks []Mark
	for id, k := range m {
		d, carried := k.Sources[which.Source]
		mark := Mark{Newest: d.Newest(), ID: id}
		if carried && !mark.Newest.Before(which.Since) && mark.compare(after) > 0 && (which.ItemsOf == uuid.Nil ||
			k.Feeds[which.ItemsOf]) {
			marks = append(marks, mark)
		}
	}
	if len(marks) == 0 {
		return nil, after, nil
	}
	first := slices.MinFunc(marks, Mark.compare)
	return map[uuid.UUID]*Known{first.ID: m[first.ID].copied()}, first, nil
}

func (a Mark) compare(b Mark) int {
	return cmp.Or(a.Newest.Compare(b.Newest), bytes.Compare(a.ID[:], b.ID[:]))
}

// Forget implements Memory.
func (m held) Forget(_ context.Context, happenings []uuid.UUID, _ []eventstore.Recorded) error {
	for _, id := range happenings {
		delete(m, id)
	}
	return nil
}

// Keep implements Memory.
func (m held) Keep(_ context.Context, changed map[uuid.UUID]*Known, _ []eventstore.Recorded) error {
	for id, k := range changed {
		m[id] = k.copied()
	}
	return nil
}

func TestInstantPrecision(t *testing.T) {
	t.Parallel()
	if got := instant(noon.Add(1999 * time.Nanosecond)); !got.Equal(noon.Add(time.Microsecond)) {
		t.Error(got)
	}
	if !instant(time.Time{}).IsZero() {
		t.Error("no time became one")
	}
}

// noLikeness is a Likeness that finds nothing alike. The adapters test the one in Postgres with the whole curation.
type noLikeness struct{}

// Note implements Likeness.
func (noLikeness) Note(context.Context, []Findable, time.Time) (map[uuid.UUID][]uuid.UUID, error) {
	return nil, nil
}

// Compared implements Likeness.
func (noLikeness) Compared(context.Context, []Comparison) error { return nil }
