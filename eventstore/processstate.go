package eventstore

import (
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
