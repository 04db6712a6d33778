// Package retirement records which published events and happenings leave the system because they are over for longer
// than CARILLON_RETAIN_DELIVERIES and CARILLON_RETAIN_HAPPENINGS, and keeps what has to outlive them: the counts of
// deliveries and attempts, of feedback, and of what sources have shown.
//
//	LogID:           (none) ──Retire──▶ retired ──Retire──▶ retired …
//	HappeningsLogID: (none) ──RetireHappenings──▶ retired …
//	the batch:       (none) ──Remove──▶ removed (final)
//
// All batches of a kind are in one stream, so that its revision says which are known: who decides on the rows of a read
// model that has applied revision n appends at n, and nothing is retired twice. That the streams of a batch are removed
// is in a stream of the batch.
//
// The counts are recorded before anything is removed. A read model that has the rows of a batch drops them; one that is
// rebuilt without them takes the counts.
package retirement

import (
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Ids of the streams of all batches, of published events and of happenings.
var (
	LogID           = uuid.MustParse("5d0c9a66-53f5-4e0a-8f5e-5b1f2a0f7c31")
	HappeningsLogID = uuid.MustParse("0b7a1c52-9d7e-4b55-8f0c-3f6f5a4c2e19")
)

// Event is a stored fact about a batch.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// Retired lists published events that leave the system with all their deliveries, which have come to their end.
	Retired struct {
		Batch        uuid.UUID     `json:"batch"`
		Before       time.Time     `json:"before"` // nothing happened to them since
		Publications []Publication `json:"publications"`
		Destinations []Destination `json:"destinations,omitempty"` // others refer to them by their index
		Outcomes     []Outcomes    `json:"outcomes,omitempty"`
		Attempts     []Attempts    `json:"attempts,omitempty"`
		At           time.Time     `json:"at"`
	}
	// HappeningsRetired lists happenings that leave the system with their items in all feeds: they are over, each with all
	// that was merged into it.
	HappeningsRetired struct {
		Batch      uuid.UUID   `json:"batch"`
		Before     time.Time   `json:"before"` // nothing happened to them since
		Happenings []Happening `json:"happenings"`
		Feeds      []uuid.UUID `json:"feeds,omitempty"` // others refer to them by their index
		Shown      []Shown     `json:"shown,omitempty"`
		Feedback   []Feedback  `json:"feedback,omitempty"`
		Backfills  []Backfill  `json:"backfills,omitempty"`
		At         time.Time   `json:"at"`
	}
	// Removed records that the streams of the batch are deleted.
	Removed struct {
		At time.Time `json:"at"`
	}
)

// Publication is a published event, with the destinations of its deliveries.
type Publication struct {
	ID uuid.UUID `json:"id"`
	To []int     `json:"to,omitempty"`
}

// Destination is a destination of retired deliveries, with its health when they were retired: the attempts that it
// follows from may be among them.
type Destination struct {
	ID           uuid.UUID `json:"id"`
	Organization uuid.UUID `json:"organization"`
	Health       Health    `json:"health,omitzero"`
}

// Health is how a destination has answered.
type Health struct {
	ConsecutiveFailures int       `json:"consecutiveFailures,omitzero"`
	StreakStartedAt     time.Time `json:"streakStartedAt,omitzero"`
	LastSuccessAt       time.Time `json:"lastSuccessAt,omitzero"`
	LastFailureAt       time.Time `json:"lastFailureAt,omitzero"` // since the last success
	LastErrorMessage    string    `json:"lastErrorMessage,omitempty"`
}

// Old can be retired: a published event with the time at which the store recorded it, or a happening with the end of a
// sighting of it. A happening may have several.
type Old struct {
	ID uuid.UUID
	At time.Time
}

// Filled is a source in a feed.
type Filled struct{ Feed, Source uuid.UUID }

// Backfilled is a source in a feed, and the number of items that came by its backfill.
type Backfilled struct {
	Filled

	AttachedAt time.Time
	Added      int
}

// Outcomes counts deliveries to a destination that were created on a UTC day.
type Outcomes struct {
	To         int       `json:"to"`
	Day        string    `json:"day"` // 2026-11-27
	Type       string    `json:"type"`
	FeedID     uuid.UUID `json:"feedId,omitzero"`
	Succeeded  int64     `json:"succeeded,omitzero"`
	Failed     int64     `json:"failed,omitzero"`
	Superseded int64     `json:"superseded,omitzero"`
	Discarded  int64     `json:"discarded,omitzero"`
}

// Attempts counts attempts at a destination on a UTC day that ended in the same way and took about as long.
type Attempts struct {
	To             int       `json:"to"`
	Day            string    `json:"day"`
	FailureReason  string    `json:"failureReason,omitempty"` // empty for successes
	ResponseStatus int       `json:"responseStatus,omitzero"`
	DurationMicros int64     `json:"durationMicros"` // two significant digits
	Count          int64     `json:"count"`
	Deliveries     int64     `json:"deliveries,omitzero"` // that failed first on that day with this reason and status
	LastAt         time.Time `json:"lastAt,omitzero"`     // of failures
}

// Happening is a retired happening, with the feeds in which it is or was an item.
type Happening struct {
	ID uuid.UUID `json:"id"`
	In []int     `json:"in,omitempty"`
}

// Shown counts the retired happenings that a source has shown.
type Shown struct {
	SourceID   uuid.UUID `json:"sourceId"`
	Happenings int64     `json:"happenings"`
}

// Feedback counts the feedback of an organization to retired items of a feed on a UTC day.
type Feedback struct {
	In           int       `json:"in"`
	Organization uuid.UUID `json:"organization"`
	Day          string    `json:"day"` // 2026-11-27
	Rating       string    `json:"rating"`
	Count        int64     `json:"count"`
}

// Backfill is a source in a feed, with all items that came by its backfill, retired or not: some of them are.
type Backfill struct {
	In         int       `json:"in"`
	SourceID   uuid.UUID `json:"sourceId"`
	AttachedAt time.Time `json:"attachedAt"`
	Added      int       `json:"added"`
}

// Total is the number of deliveries.
func (o Outcomes) Total() int64 { return o.Succeeded + o.Failed + o.Superseded + o.Discarded }

// State is the state for decisions.
type State struct {
	Batch   uuid.UUID // the last one
	Removed bool
}

func (e Retired) evolve(s State) State           { s.Batch = e.Batch; return s }
func (e HappeningsRetired) evolve(s State) State { s.Batch = e.Batch; return s }
func (Removed) evolve(s State) State             { s.Removed = true; return s }

// Command is an intention.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Retire records a batch.
	Retire Retired
	// RetireHappenings records a batch of happenings.
	RetireHappenings HappeningsRetired
	// Remove records that a batch is removed.
	Remove Removed
)

func (c Retire) decide(s State) ([]Event, error) {
	if s.Batch == c.Batch {
		return nil, nil
	}
	return []Event{Retired(c)}, nil
}

func (c RetireHappenings) decide(s State) ([]Event, error) {
	if s.Batch == c.Batch {
		return nil, nil
	}
	return []Event{HappeningsRetired(c)}, nil
}

func (c Remove) decide(s State) ([]Event, error) {
	if s.Removed {
		return nil, nil
	}
	return []Event{Removed(c)}, nil
}

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Retired]("retirement.events-retired.v1"),
	eventstore.Case[Event, HappeningsRetired]("retirement.happenings-retired.v1"),
	eventstore.Case[Event, Removed]("retirement.events-removed.v1"),
)

// Aggregate binds the functions to the streams "retirement-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "retirement",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]
