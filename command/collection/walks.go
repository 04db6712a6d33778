package collection

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/eventstore"
)

// ErrLost: a visit took too long to give a sign of life, and somebody else may have gone on with the walk.
var ErrLost = errors.New("the turn at the source is lost")

// ErrPaused: nobody may visit the source now.
var ErrPaused = source.ErrPaused

// Walks remembers walks through sources, and gives turns at those that are due. It may be lost at any time, which costs
// requests and nothing else.
type Walks interface {
	// Take gives up to so many turns, the longest due first: one a host, none at hosts that are busy
	// or of sources that are paused.
	Take(ctx context.Context, limit int, busy []string) ([]Turn, error)
	// Hold keeps the turns, for a minute from now, and says which of them are lost.
	Hold(ctx context.Context, holders []uuid.UUID) (lost []uuid.UUID, err error)
	// Walk gives what is remembered of the walk that a turn is for.
	Walk(turn Turn) Walk
}

// Turn is a visit that this process may make: it walks a source until its slice of time is over.
type Turn struct {
	Source collect.Source
	Host   string     // whose pace the visit has to keep
	Holder uuid.UUID  // the visit
	Number int        // of the walk: where it is Fresh, of the one to begin
	Fresh  bool       // the walk has not begun
	Wanted bool       // somebody asked for it
	Wish   *time.Time // the last wish that it is for; nil: none
	// Recorded is the source as its events tell it, maybe not up to date.
	Recorded eventstore.Loaded[source.State]
	Interval time.Duration // between two walks
	Failures int           // in a row
	Stumbles int           // pages in a row that could not be read
	Tally    Tally         // of the walk so far
	// Unsettled is the page that the visit before recorded, and of which it did not compare all that was new to the
	// source; uuid.Nil: none. It is for the memory of the walk.
	Unsettled uuid.UUID
}

// Tally is what a walk has come to.
type Tally struct {
	Requests  int           `json:"requests,omitempty"`
	Read      int           `json:"read,omitempty"` // pages that were not as they had been
	New       int           `json:"new,omitempty"`
	Revised   int           `json:"revised,omitempty"`
	WentStale int           `json:"wentStale,omitempty"`
	Ahead     bool          `json:"ahead,omitempty"` // something still to come has changed
	Notes     []source.Note `json:"notes,omitempty"` // beside those of the pages
}

// Walk is what is remembered of one walk through a source. All but Next fail with [ErrLost] once the turn is somebody
// else's; Next fails with [ErrPaused] while the source is paused.
type Walk interface {
	collect.Frontier

	// Begin begins the walk.
	Begin(ctx context.Context, start []collect.Link) error
	// Identify finds which happenings of the source have evidence in common with ids that keys would give.
	Identify(ctx context.Context, evidence []uuid.UUID) ([]Shown, error)
	// Told gives what pages of the source tell of happenings, and what was recorded of them, whoever told it. Those of
	// which there is nothing are left out.
	Told(ctx context.Context, happenings []uuid.UUID) (map[uuid.UUID][]happening.Details, error)
	// Untold gives happenings that a page told of when it was last read, and that no other page of the source tells of,
	// but those that are kept; with them those of which nobody remembers a page, if it was never read.
	Untold(ctx context.Context, page collect.Known, kept []uuid.UUID) ([]Shown, error)
	// Record keeps what came of a page: its links, and what it tells. What it told before and tells no longer is
	// forgotten, unless the page could not be read whole.
	Record(ctx context.Context, visited collect.Visited, tellings []Telling, tally Tally) error
	// Waiting gives happenings of which something else is told than was compared last, unless a page is still ahead
	// that may tell more of them; up to MostWaiting, and fewer only where there are no more.
	Waiting(ctx context.Context) ([]View, error)
	// Settle says what was recorded of happenings that were waiting. It is kept with what is recorded next, at the latest
	// when the visit ends: where it is lost, they are compared again. So it is the next call that tells of a lost turn.
	Settle(ctx context.Context, settled []Settled, tally Tally) error
	// Conclude forgets the pages that the walk did not come across, if it was whole, and what they told.
	Conclude(ctx context.Context) error
	// Result sums the walk up.
	Result(ctx context.Context) (Result, error)
	// Leave ends the visit.
	Leave(ctx context.Context, next Next) error
}

// MostWaiting bounds the happenings that are compared at one time.
const MostWaiting = 256

// Identity is a happening of a source, and the evidence by which it is known.
type Identity struct {
	Happening uuid.UUID
	Key       string // that the id is derived from; "" where it was lost
	Evidence  []uuid.UUID
}

// Shown is a happening that a source is known to show.
type Shown struct {
	Identity

	Dates [][]byte // digests of what its pages tell, see [Telling]; none where that is not remembered
}

// Telling is what a page tells of a happening.
type Telling struct {
	Identity

	Observation collect.Observation
	Dates       []byte // a digest of its dates and statuses
	New         bool   // the source was not known to show the happening
	Rekeyed     bool   // the source knew it by other evidence, which it shows no longer
}

// View is a happening as a source shows it.
type View struct {
	Identity

	Digest   []byte // of what was recorded last, nil if nothing was
	Now      []byte // of what is told now; nil where that is to be found out
	Tellings []Told // none: no page shows it any more
}

// Told is a telling that is remembered.
type Told struct {
	Observation collect.Observation
	Page        uuid.UUID
	Since       time.Time // the page tells of the happening
	DatedAt     time.Time // its dates and statuses are as they are
}

// Settled is a happening that was compared.
type Settled struct {
	Happening uuid.UUID
	Digest    []byte
	Gone      bool // no page shows it
}

// Result is what a walk came to.
type Result struct {
	Observed int           // happenings on show
	Empty    bool          // no page shows any that could be read
	Notes    []source.Note // of its pages
}

// Next says when a source is visited again, and what is remembered until then.
type Next struct {
	In        time.Duration
	Over      bool // the walk has ended
	Completed bool // and went through
	Interval  time.Duration
	Failures  int
	Stumbles  int
	Remark    string // why the walk stands still, if it does
	Observed  int
}
