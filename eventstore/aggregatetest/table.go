package aggregatetest

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"carillon/eventstore"
	"carillon/eventstore/storetest/must"
)

// Decisions is a table of an aggregate's decisions by state and command.
type Decisions[S, E, C any] struct {
	t         testing.TB
	aggregate eventstore.Aggregate[S, E, C]
	states    []namedState[S]
}

type namedState[S any] struct {
	name  string
	state S
}

// Table begins a table without states.
func Table[S, E, C any](t testing.TB, a eventstore.Aggregate[S, E, C]) *Decisions[S, E, C] {
	t.Helper()
	return &Decisions[S, E, C]{t: t, aggregate: a}
}

// State adds a column: the state that some events lead to.
func (d *Decisions[S, E, C]) State(name string, events ...E) *Decisions[S, E, C] {
	d.t.Helper()
	state := Stream(d.t, d.aggregate).Of(events...).State()
	d.states = append(d.states, namedState[S]{name: name, state: state})
	return d
}

// When adds a row: the outcome of a command in each state. It is an error if the command is refused, else the names of
// the new events' types, as in "Created SecretMinted"; "" if it changes nothing.
func (d *Decisions[S, E, C]) When(command C, want ...any) *Decisions[S, E, C] {
	d.t.Helper()
	must.Equal(d.t, len(want), len(d.states), "%T … cells, want one for each states", command)
	for i, column := range d.states {
		events, err := d.aggregate.Decide(column.state, command)
		names := make([]string, len(events))
		for j, event := range events {
			names[j] = reflect.TypeOf(event).Name()
		}
		got := strings.Join(names, " ")
		switch want := want[i].(type) {
		case error:
			if !errors.Is(err, want) || len(events) != 0 {
				d.t.Errorf("%s × %T: %q, %v; want the refusal %q", column.name, command, got, err, want)
			}
		case string:
			if err != nil || got != want {
				d.t.Errorf("%s × %T: %q, %v; want %q", column.name, command, got, err, want)
			}
		default:
			d.t.Fatalf("%s × %T: a cell is an error or a string, not %T", column.name, command, want)
		}
	}
	return d
}
