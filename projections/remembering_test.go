package projections_test

import (
	"context"

	"carillon/eventstore"
)

// remembering is a process manager that keeps what it is given.
type remembering struct {
	eventstore.ProcessState

	rows *eventstore.SavedTable[rowName, string]
	name string
	seen chan eventstore.Position
}

type rowName string

func (n rowName) String() string { return string(n) }

func newRemembering(name string, seen chan eventstore.Position) *remembering {
	r := &remembering{name: name, seen: seen}
	r.rows = eventstore.NewSavedTable[rowName, string](&r.ProcessState, "thing", func(s string) (rowName, error) {
		return rowName(s), nil
	})
	return r
}

func (r *remembering) Traits() eventstore.Traits {
	return eventstore.Traits{Name: r.name, Version: 1, Filter: eventstore.Categories("thing")}
}

func (r *remembering) React(_ context.Context, batch []eventstore.Recorded) error {
	for i := range batch {
		value := batch[i].Type
		r.rows.Set(rowName(batch[i].Stream), &value)
		r.seen <- batch[i].Position
	}
	return nil
}
