package collection

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Memory keeps what a curation of feeds knows of happenings. They are too many to be held: it is asked for those that
// the events at hand concern.
type Memory interface {
	// Recall reads what is known of happenings. Those that nothing is known of are left out.
	Recall(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]*Known, error)
	// Carried reads what is known of some of the happenings that a source carries, and the mark after which the next
	// ones are. It tells of each once, also where Keep changes feeds meanwhile. None: those were all.
	Carried(ctx context.Context, which Carried, after Mark) (map[uuid.UUID]*Known, Mark, error)
	// Keep stores what was changed, all or nothing. With events, the next ones that were dealt with, it also saves the
	// rest of the curation's state. Without, the event at hand is still being dealt with, and is seen again after a crash.
	Keep(ctx context.Context, changed map[uuid.UUID]*Known, dealtWith []eventstore.Recorded) error
}

// Known is what is known of a happening: its dates as each source that carries it gives them, and where it is shown.
type Known struct {
	Sources map[uuid.UUID]SourceDates
	Feeds   map[uuid.UUID]bool // of which it is an item
	Merged  bool               // into another one, which is shown in its place
	Dropped []uuid.UUID        // sources that carry it no longer: to be forgotten
}

// NewKnown is what is known of a happening before anything was told of it.
func NewKnown() *Known {
	return &Known{Sources: map[uuid.UUID]SourceDates{}, Feeds: map[uuid.UUID]bool{}}
}

// SourceDates decide whether what a source carries is recent. They are in microseconds, as a Memory keeps them.
type SourceDates struct {
	FirstSeen time.Time
	Published time.Time // zero where the source doesn't say
	Last      time.Time // end of the last occurrence; zero without any
}

// recent says that a happening belongs to a backfill that begins at a time.
func (d SourceDates) recent(at time.Time) bool {
	return !d.Newest().Before(at.Add(-backfillWindow))
}

// Newest is the latest of the dates.
func (d SourceDates) Newest() time.Time {
	newest := d.FirstSeen
	for _, at := range []time.Time{d.Published, d.Last} {
		if at.After(newest) {
			newest = at
		}
	}
	return newest
}

// Carried says which happenings of a source.
type Carried struct {
	Source  uuid.UUID
	Since   time.Time // only those of which a date is not before that
	ItemsOf uuid.UUID // only items of this feed; uuid.Nil: all
}

// Mark is a place in the order in which happenings are told. The zero one is the beginning.
type Mark struct {
	Newest time.Time
	ID     uuid.UUID
}

// carriedBySourceOf says that a source of the feed carries the happening.
func (k *Known) carriedBySourceOf(f *feedState) bool {
	for sourceID := range k.Sources {
		if f.Sources[sourceID] != nil {
			return true
		}
	}
	return false
}

// instant is a time as fine as it is kept.
func instant(at time.Time) time.Time {
	if at.IsZero() {
		return time.Time{}
	}
	return at.UTC().Truncate(time.Microsecond)
}

// recalled is the part of a Memory that is at hand.
type recalled struct {
	known   map[uuid.UUID]*Known
	changed map[uuid.UUID]*Known
}

func newRecalled(known map[uuid.UUID]*Known) recalled {
	return recalled{known: known, changed: map[uuid.UUID]*Known{}}
}

// get returns what is known of a happening, or nil. What is changed in place has to be set again.
func (r recalled) get(id uuid.UUID) *Known { return r.known[id] }

func (r recalled) set(id uuid.UUID, k *Known) {
	r.known[id] = k
	r.changed[id] = k
}
