package eventstore

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/go-json-experiment/json"
)

// ProcessState is the common part of process managers, to be embedded: their state is a number of saved tables, and
// they know which events they may have seen before. It implements Restore, Begin and Changed of ProcessManager. It is
// not safe for concurrent use.
type ProcessState struct {
	tables   []savedTable
	replayTo Position
}

// savedTable is a SavedTable of any type.
type savedTable interface {
	kindOfRows() string
	restore(row SavedRow) error
	changed(rows []SavedRow) ([]SavedRow, error)
	touch()
}

// Restore implements ProcessManager.
func (s *ProcessState) Restore(row SavedRow) error {
	for _, table := range s.tables {
		if table.kindOfRows() != row.Kind {
			continue
		}
		if err := table.restore(row); err != nil {
			return fmt.Errorf("restore saved %s %s: %w", row.Kind, row.ID, err)
		}
		return nil
	}
	return fmt.Errorf("restore saved %s %s: unknown kind", row.Kind, row.ID)
}

// Begin implements ProcessManager.
func (s *ProcessState) Begin(replayTo Position) { s.replayTo = replayTo }

// Replayed reports whether an event may have been handled before, by this process manager or by one that ended.
func (s *ProcessState) Replayed(recorded *Recorded) bool {
	return !s.replayTo.Before(recorded.Position)
}

// Changed implements ProcessManager.
func (s *ProcessState) Changed() (rows []SavedRow, err error) {
	for _, table := range s.tables {
		if rows, err = table.changed(rows); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// Rows returns all rows of some kinds, as Changed would if all had changed.
func (s *ProcessState) Rows(kinds ...string) (rows []SavedRow, err error) {
	for _, table := range s.tables {
		if !slices.Contains(kinds, table.kindOfRows()) {
			continue
		}
		table.touch()
		if rows, err = table.changed(rows); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(rows, func(row SavedRow) bool { return row.Data == nil }), nil
}

// SavedKey is the key of a row of a SavedTable. Its text is stored.
type SavedKey interface {
	comparable
	fmt.Stringer
}

// SavedTable is a map in memory that knows which of its rows have changed since they were saved. Rows are stored as
// JSON.
type SavedTable[K SavedKey, V any] struct {
	kind  string
	parse func(string) (K, error)
	rows  map[K]*V
	dirty map[K]struct{}
	// Indexed is optional and called with each row that is set or restored: before is nil if it is new, after if it is
	// deleted. It maintains indexes of the rows.
	Indexed func(key K, before, after *V)
}

// NewSavedTable makes an empty table in a state. Its kind is the stored name of its rows, parse reads their keys.
func NewSavedTable[K SavedKey, V any](s *ProcessState, kind string, parse func(string) (K, error)) *SavedTable[K, V] {
	t := &SavedTable[K, V]{
		kind:  kind,
		parse: parse,
		rows:  map[K]*V{},
		dirty: map[K]struct{}{},
	}
	s.tables = append(s.tables, t)
	return t
}

// Get returns a row, or nil. A row that is changed in place has to be set again.
func (t *SavedTable[K, V]) Get(key K) *V { return t.rows[key] }

// All yields the rows in no order. The one at hand may be set or deleted meanwhile.
func (t *SavedTable[K, V]) All() iter.Seq2[K, *V] {
	return func(yield func(K, *V) bool) {
		for key, value := range t.rows {
			if !yield(key, value) {
				return
			}
		}
	}
}

// Len counts the rows.
func (t *SavedTable[K, V]) Len() int { return len(t.rows) }

// Set keeps a row, to be saved next time; nil deletes it.
func (t *SavedTable[K, V]) Set(key K, value *V) {
	t.put(key, value)
	t.dirty[key] = struct{}{}
}

func (t *SavedTable[K, V]) put(key K, value *V) {
	before := t.rows[key]
	if value == nil {
		delete(t.rows, key)
	} else {
		t.rows[key] = value
	}
	if t.Indexed != nil {
		t.Indexed(key, before, value)
	}
}

func (t *SavedTable[K, V]) kindOfRows() string { return t.kind }

// touch marks all rows as changed.
func (t *SavedTable[K, V]) touch() {
	for key := range t.rows {
		t.dirty[key] = struct{}{}
	}
}

func (t *SavedTable[K, V]) restore(row SavedRow) error {
	key, err := t.parse(row.ID)
	if err != nil {
		return err
	}
	value := new(V)
	if err := json.Unmarshal(row.Data, value); err != nil {
		return err
	}
	t.put(key, value)
	return nil
}

func (t *SavedTable[K, V]) changed(rows []SavedRow) ([]SavedRow, error) {
	for key := range t.dirty {
		row := SavedRow{Kind: t.kind, ID: key.String()}
		if value := t.rows[key]; value != nil {
			data, err := json.Marshal(value)
			if err != nil {
				return nil, fmt.Errorf("save %s %s: %w", row.Kind, row.ID, err)
			}
			row.Data = data
		}
		rows = append(rows, row)
	}
	clear(t.dirty)
	return rows, nil
}

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
	// Deferred may be recorded after React has returned. Optional.
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
