package treeheads_test

import (
	"fmt"
	"testing"

	"carillon/eventstore"
)

func TestSealCoversLog(t *testing.T) {
	t.Parallel()
	l, heads := sealed(t)
	report := verify(t, l, heads)
	if !report.OK() || report.Events != 43 || report.Heads != 4 || report.Elsewhere != 4 || report.Unsealed != 1 {
		t.Errorf("%+v", report)
	}
	if more, err := sealer(l).Seal(t.Context(), by); len(more) > 0 || err != nil {
		t.Errorf("without news: %d heads, %v", len(more), err)
	}
	last, count, err := sealer(l).Last(t.Context())
	if err != nil || count != 4 || last.Size != heads[3].Size {
		t.Errorf("last: %+v of %d, %v", last, count, err)
	}
}

// A process that starts goes on where the last one stopped, also if the last sealed events are gone since.
func TestSealResumes(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"all is there": false, "the last sealed event is gone": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, _ := sealed(t)
			last := l.headAt(3) - 1
			name := (*l)[last].Stream
			l.add(t, 5)
			if lost {
				revision := (*l)[last].Revision
				cut(l, name, fmt.Sprintf(`{"$tb":%d}`, revision+1))
				*l = without(*l, name, revision)
				l.number()
			}
			heads, err := sealer(l).Seal(t.Context(), by)
			if err != nil || len(heads) != 1 || heads[0].Size != 43+1+5 {
				t.Fatalf("%+v, %v", heads, err)
			}
			report := verify(t, l, heads)
			if cuts := map[bool]uint64{true: 1}[lost]; report.Count != cuts || report.Elsewhere != 1 {
				t.Errorf("%+v", report)
			}
		})
	}
}

// Much is sealed by several heads.
func TestSealSplits(t *testing.T) {
	t.Parallel()
	l := &log{}
	for i := range 10_000 {
		at := uint64(i + 1)
		*l = append(*l, eventstore.Recorded{
			Stream:   "feed-0c000000-0000-4000-8000-000000000001",
			Revision: eventstore.Revision(i),
			Type:     "feed.revised.v1",
			Position: eventstore.Position{Commit: at, Prepare: at},
		})
	}
	heads, err := sealer(l).Seal(t.Context(), by)
	if err != nil || len(heads) != 2 || heads[1].Size != 10_000 {
		t.Fatalf("%d heads, %v", len(heads), err)
	}
	if report := verify(t, l, nil); !report.OK() || report.Unsealed != 2 {
		t.Errorf("%+v", report)
	}
}

// without is a log of which a stream was scavenged up to a revision.
func without(events log, stream string, until eventstore.Revision) (left log) {
	for _, e := range events {
		if e.Stream != stream || e.Revision > until {
			left = append(left, e)
		}
	}
	return left
}
