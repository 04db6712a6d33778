package eventstore

import "context"

// ProcessManager is a process manager: it answers events with commands. Its state is in memory and is saved now and
// then together with its checkpoint; after a crash it gets the events since then again. So what it does must be
// idempotent (derived ids), and its decisions must follow from the events alone, never from the clock.
type ProcessManager interface {
	Traits() Traits
	// Restore puts back a row that Changed gave, before the first React.
	Restore(row SavedRow) error
	// Begin ends the restoring. Events up to replayTo, the head of the store at this moment, may have been seen before.
	Begin(replayTo Position)
	// React handles a batch in order. An error makes it start again from its checkpoint, in a fresh ProcessManager.
	React(ctx context.Context, batch []Recorded) error
	// Changed returns the rows that changed since the last call.
	Changed() ([]SavedRow, error)
}

// Traits are what a process manager declares about itself: it is run by them.
type Traits struct {
	Name    string // its own, and that of its checkpoint: lower case and "_"
	Version int    // of the saved state. Under another version it starts from nothing, with all events.
	Filter  Filter
	// Lingers is set if it need not act at once: while no caller waits for it, it gets events in batches, as read models
	// do.
	Lingers bool
	// Tables is the DDL of separate tables, for state that is too large to be held in memory. They lie in its schema,
	// beside the state that is restored. If they were made with another one, it starts from nothing, with all events.
	// Optional.
	Tables string
	// Folded is the part of the state that can be compared with the log. Optional.
	Folded *Folded
	// Deferred is what may be recorded after React has returned. Optional.
	Deferred Deferred
}

// Folded is a part of a process manager's state that follows from events that are never removed: it can be folded
// again, without effects, and compared with what is saved.
type Folded struct {
	Filter Filter                // of the events
	Fold   func(*Recorded) error // applies an event to that part of the state, and does nothing else
	Rows   func() ([]SavedRow, error)
}

// Deferred is the part of a process manager that records consequences of a batch when React has returned. The state is
// saved, and others rely on the events, only after they have waited for the rest.
type Deferred interface {
	// Pending returns a function that waits until all work that React has accepted by now is recorded. It fails if that
	// won't happen any more, or the context ends first. nil means it is recorded. Safe for concurrent use.
	Pending() func(ctx context.Context) error
	// Failed is closed when something could not be recorded, and Err returns why: it is handled like an error of React.
	Failed() <-chan struct{}
	Err() error
	// End ends what is in progress, and waits for that: nothing is recorded afterwards. It may be called more than once.
	End()
}

// SavedRow is a piece of a process manager's state. A row without data is to be deleted.
type SavedRow struct {
	Kind, ID string
	Data     []byte // JSON
}
