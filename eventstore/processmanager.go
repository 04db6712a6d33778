package eventstore

import "context"

// ProcessManager is a process manager: it answers events with commands. Its state is in memory and is saved now and
// then together with its checkpoint; after a crash it gets the events since then again. So what it does must be
// idempotent (derived ids), and its decisions must follow from the events alone, never from the clock.
type ProcessManager interface {
	// Name is its name, and that of its checkpoint: lower case and "_".
	Name() string
	Filter() Filter
	// Version of the saved state. Under another version it starts from nothing, with all events.
	Version() int
	// Restore puts back a row that Changed gave, before the first React.
	Restore(row SavedRow) error
	// Begin ends the restoring. Events up to replayTo, the head of the store at this moment, may have been seen before.
	Begin(replayTo Position)
	// React handles a batch in order. An error makes it start again from its checkpoint, in a fresh ProcessManager.
	React(ctx context.Context, batch []Recorded) error
	// Changed returns the rows that changed since the last call.
	Changed() ([]SavedRow, error)
}

// Comparable is a ProcessManager of whose state a part follows from events that are never removed. It can be folded
// again, without effects, and compared with what is saved.
type Comparable interface {
	ProcessManager
	// Folds are the events that Fold takes.
	Folds() Filter
	// Fold applies an event to that part of the state, and does nothing else.
	Fold(recorded *Recorded) error
	// Folded returns all rows of that part.
	Folded() ([]SavedRow, error)
}

// Lingerer is implemented by a ProcessManager that need not act at once: while no caller waits for it, it gets events
// in batches, as read models do.
type Lingerer interface{ Lingers() bool }

// Deferring is implemented by a ProcessManager whose React may return before all consequences of a batch are recorded.
// Its state is saved, and others rely on its events, only after they have waited for the rest.
type Deferring interface {
	ProcessManager
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
