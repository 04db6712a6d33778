package curate

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Memory stores what a curation of feeds knows of happenings. They are too many for the process memory; only those of
// the current events are read.
type Memory interface {
	// Recall reads known happenings. Unknown ones are missing in the result.
	Recall(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]*Known, error)
	// Carried reads a page of the happenings that a source carries, and the mark after it. It returns each of them once,
	// even if Keep changes feeds meanwhile. An empty page is the end.
	Carried(ctx context.Context, which Carried, after Mark) (map[uuid.UUID]*Known, Mark, error)
	// Keep stores changed happenings, all or nothing. If dealtWith names the events that were processed next, it also
	// saves the rest of the curation's state. Without them, the current event is not finished, and is seen again after a
	// crash.
	Keep(ctx context.Context, changed map[uuid.UUID]*Known, dealtWith []eventstore.Recorded) error
	// Forget drops happenings, and the results of comparing them, and saves the rest of the curation's state as Keep does.
	Forget(ctx context.Context, happenings []uuid.UUID, dealtWith []eventstore.Recorded) error
}

// Known is the state of a happening: its dates by source, and its feeds.
type Known struct {
	Sources map[uuid.UUID]SourceDates
	Feeds   map[uuid.UUID]bool // feeds that have it as an item
	Merged  bool               // into another one, which replaces it
	Dropped []uuid.UUID        // sources that no longer carry it; to be forgotten
}

// NewKnown returns the state of a happening before its first event.
func NewKnown() *Known {
	return &Known{Sources: map[uuid.UUID]SourceDates{}, Feeds: map[uuid.UUID]bool{}}
}

// SourceDates decide whether a happening of a source is recent. They have microseconds, as a Memory stores them.
type SourceDates struct {
	FirstSeen time.Time
	Published time.Time // zero if the source does not show it
	Last      time.Time // end of the last occurrence; zero if there is none
}

// recent reports whether a happening belongs to a backfill of a window that begins at a time.
func (d SourceDates) recent(at time.Time, window time.Duration) bool {
	return !d.Newest().Before(at.Add(-window))
}

// Newest returns the latest of the dates.
func (d SourceDates) Newest() time.Time {
	newest := d.FirstSeen
	for _, at := range []time.Time{d.Published, d.Last} {
		if at.After(newest) {
			newest = at
		}
	}
	return newest
}

// Carried selects happenings of a source.
type Carried struct {
	Source  uuid.UUID
	Since   time.Time // Optional. Only those with a date from then on
	ItemsOf uuid.UUID // Optional. Only items of this feed
}

// Mark is a position in the order of happenings. The zero value is the beginning.
type Mark struct {
	Newest time.Time
	ID     uuid.UUID
}

// carriedBySourceOf reports whether a source of the feed carries the happening.
func (k *Known) carriedBySourceOf(f *feedState) bool {
	for sourceID := range k.Sources {
		if f.Sources[sourceID] != nil {
			return true
		}
	}
	return false
}

// instant truncates a time to the precision of a Memory.
func instant(at time.Time) time.Time {
	if at.IsZero() {
		return time.Time{}
	}
	return at.UTC().Truncate(time.Microsecond)
}

// recalled holds the part of a Memory that is loaded.
type recalled struct {
	known   map[uuid.UUID]*Known
	changed map[uuid.UUID]*Known
}

func newRecalled(known map[uuid.UUID]*Known) recalled {
	return recalled{known: known, changed: map[uuid.UUID]*Known{}}
}

// get returns a happening, or nil. A value that is changed in place has to be set again.
func (r recalled) get(id uuid.UUID) *Known { return r.known[id] }

func (r recalled) set(id uuid.UUID, k *Known) {
	r.known[id] = k
	r.changed[id] = k
}
