package visiting

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/collect/match"
	"carillon/eventstore"
)

// ErrLost is returned when a visit did not renew its turn in time, so that another process may have continued the
// walk.
var ErrLost = errors.New("turn lost: another process may continue the walk")

// ErrPaused is returned while the source is paused.
var ErrPaused = source.ErrPaused

// Walks stores walks through sources, and hands out turns at those that are due. It may be lost at any time, which
// costs only requests.
type Walks interface {
	// Take returns up to limit turns, the longest due first: one a host, and none at busy hosts or of paused sources.
	Take(ctx context.Context, limit int, busy []string) ([]Turn, error)
	// Hold renews the turns for a minute, and returns the lost ones.
	Hold(ctx context.Context, holders []uuid.UUID) (lost []uuid.UUID, err error)
	// Walk returns the walk of a turn.
	Walk(turn Turn) Walk
}

// Turn permits this process to visit a source until its slice of time is over.
type Turn struct {
	Source collect.Source
	Host   string     // paces the visit
	Holder uuid.UUID  // identifies the visit
	Number int        // of the walk; if Fresh, of the one to begin
	Fresh  bool       // the walk has not begun
	Wanted bool       // a caller requested it
	Wish   *time.Time // time of the last request that it serves; nil if there was none
	// Recorded is the source as its events show it; it may be stale.
	Recorded         eventstore.Loaded[source.State]
	Interval         time.Duration // between two walks
	Failures         int           // in a row
	UnreadableInARow int           // unreadable pages in a row
	Tally            Tally         // of the walk so far
	// Unsettled is the page of the previous visit of which not all new happenings were compared. uuid.Nil means none. It
	// belongs to the memory of the walk.
	Unsettled uuid.UUID
}

// Tally sums a walk up.
type Tally struct {
	Requests  int           `json:"requests,omitempty"`
	Read      int           `json:"read,omitempty"` // pages that had changed
	New       int           `json:"new,omitempty"`
	Revised   int           `json:"revised,omitempty"`
	WentStale int           `json:"wentStale,omitempty"`
	Ahead     bool          `json:"ahead,omitempty"` // a happening still to come has changed
	Notes     []source.Note `json:"notes,omitempty"` // beside those of the pages
}

// Walk is the stored state of one walk through a source. All methods except Next fail with [ErrLost] once the turn is
// lost; Next fails with [ErrPaused] while the source is paused.
type Walk interface {
	collect.Frontier

	// Begin begins the walk.
	Begin(ctx context.Context, start []collect.Link) error
	// Identify returns the happenings of the source that share evidence with a page.
	Identify(ctx context.Context, page collect.Known, evidence []uuid.UUID) ([]Shown, error)
	// Restored returns the happenings of the source that are known from the events alone.
	Restored(ctx context.Context) ([]Shown, error)
	// DetailsOf returns the details of happenings that pages of the source show, and the recorded ones of all sources.
	// Happenings without details are left out.
	DetailsOf(ctx context.Context, happenings []uuid.UUID) (map[uuid.UUID][]happening.Details, error)
	// Record stores the result of a page: its links and its sightings. Earlier sightings that it no longer has are
	// deleted, unless the page is partial.
	Record(ctx context.Context, visited collect.Visited, sightings []Sighting, tally Tally) error
	// Waiting returns happenings whose details have changed since the last comparison, unless a page ahead may show more
	// of them, as any may of one whose page has moved: up to MaxWaiting, and fewer only at the end.
	Waiting(ctx context.Context) ([]View, error)
	// Settle stores the result of comparisons. It is written with the next record, at the latest when the visit ends; if
	// it is lost, the happenings are compared again. Therefore the next call reports a lost turn.
	Settle(ctx context.Context, settled []Settled, tally Tally) error
	// Conclude deletes the pages that a complete walk did not find, and their sightings.
	Conclude(ctx context.Context) error
	// Result sums up the walk.
	Result(ctx context.Context) (Result, error)
	// Leave ends the visit.
	Leave(ctx context.Context, next Next) error
}

// MaxWaiting limits the happenings that are compared at a time.
const MaxWaiting = 256

// Identity is a happening of a source, and its evidence.
type Identity struct {
	Happening uuid.UUID
	Key       string // origin of the id; "" if it was lost
	Evidence  []uuid.UUID
}

// Shown is a happening that a source is known to show.
type Shown struct {
	Identity

	Dates [][]byte // digests of the dates on its pages, see [Sighting]; empty if they are unknown
	Here  bool     // no page but the one that asks is known to show it
}

// Sighting is a happening as a page shows it.
type Sighting struct {
	Identity

	Observation collect.Observation
	Dates       []byte // digest of its dates and statuses
	New         bool   // the source has not shown the happening before
	Rekeyed     bool   // the page alone showed it, by other evidence, before

	// These are set once it is stored.
	Page    uuid.UUID
	Since   time.Time // first shown by the page
	DatedAt time.Time // last change of its dates and statuses

	subject  *match.Subject // nil until it is compared
	bonds    []match.Bond   // made by its evidence, of which the own ids have none
	marks    []uuid.UUID    // of its title, by which it is looked for on other pages
	assigned bool
}

// View is a happening as a source shows it.
type View struct {
	Identity

	Digest    []byte     // of the recorded details; nil if there are none
	Now       []byte     // of the current details; nil if it is to be computed
	Sightings []Sighting // empty if no page shows it any more
}

// Settled is a happening that was compared.
type Settled struct {
	Happening uuid.UUID
	Digest    []byte
	Gone      bool // no page shows it
}

// Result sums up a walk.
type Result struct {
	Observed int           // happenings that are visible
	Empty    bool          // no page shows a readable happening
	Notes    []source.Note // of its pages
}

// Next schedules the next visit of a source, with the state until then.
type Next struct {
	In               time.Duration
	Over             bool // the walk has ended
	Completed        bool // and has completed
	Interval         time.Duration
	Failures         int
	UnreadableInARow int
	Remark           string // why the walk pauses; "" if it does not
	Observed         int
}
