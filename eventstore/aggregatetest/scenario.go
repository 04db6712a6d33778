// Package aggregatetest is the test harness of the aggregates:
//
//	aggregatetest.Stream(t, destination.Aggregate).Of(created, secretMinted).
//		When(destination.Disable{Reason: "maintenance"}).
//		Then(destination.Disabled{Reason: "maintenance"})
//
// Each event passes through the codec on its way in and out, as it would through the store, and each command that is
// accepted is given twice: the second time it may record nothing, unless the test says Repeatable.
package aggregatetest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Scenario is one given–when–then.
type Scenario[S, E, C any] struct {
	t          testing.TB
	aggregate  eventstore.Aggregate[S, E, C]
	state      S
	repeatable bool
	events     []E
	err        error
}

// Stream begins a scenario on an empty stream.
func Stream[S, E, C any](t testing.TB, a eventstore.Aggregate[S, E, C]) *Scenario[S, E, C] {
	t.Helper()
	return &Scenario[S, E, C]{t: t, aggregate: a}
}

// Of sets the events that the stream holds so far.
func (s *Scenario[S, E, C]) Of(events ...E) *Scenario[S, E, C] {
	s.t.Helper()
	s.apply(events)
	return s
}

// Repeatable marks the next command as new each time it runs (feedback, an attempt).
func (s *Scenario[S, E, C]) Repeatable() *Scenario[S, E, C] {
	s.repeatable = true
	return s
}

// When runs a command.
func (s *Scenario[S, E, C]) When(command C) *Scenario[S, E, C] {
	s.t.Helper()
	s.events, s.err = s.aggregate.Decide(s.state, command)
	if s.err != nil {
		assert.Equal(s.t, len(s.events), 0, "%T was refused and still made … events", command)
		return s
	}
	s.apply(s.events)
	if again, err := s.aggregate.Decide(s.state, command); !s.repeatable && (err == nil && len(again) != 0) {
		s.t.Errorf("%T given twice recorded %+v the second time", command, again)
	}
	s.repeatable = false
	return s
}

// Then expects exactly these new events; none means that the command changed nothing.
func (s *Scenario[S, E, C]) Then(want ...E) *Scenario[S, E, C] {
	s.t.Helper()
	if s.err != nil {
		s.t.Fatalf("refused: %v", s.err)
	}
	assert.Same(s.t, s.events, want, cmpopts.EquateEmpty())
	return s
}

// Refused expects an error.
func (s *Scenario[S, E, C]) Refused(want error) {
	s.t.Helper()
	assert.Is(s.t, s.err, want, "error")
}

// State is the state after the last command.
func (s *Scenario[S, E, C]) State() S { return s.state }

func (s *Scenario[S, E, C]) apply(events []E) {
	s.t.Helper()
	for _, event := range events {
		name, data, err := s.aggregate.Codec.Encode(event)
		must.OK(s.t, err)
		stored := must.Get(s.aggregate.Codec.Decode(&eventstore.Recorded{Type: name, Data: data}))(s.t)
		if diff := cmp.Diff(event, stored, cmpopts.EquateEmpty()); diff != "" {
			s.t.Errorf("%s changes on its way through the store (-made +stored):\n%s", name, diff)
		}
		s.state = s.aggregate.Evolve(s.state, stored)
	}
}
