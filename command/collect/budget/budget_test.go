package budget_test

import (
	"context"
	"errors"
	"testing"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/eventstore/storetest/assert"
)

func TestWorkEnds(t *testing.T) {
	t.Parallel()
	b := budget.Of(t.Context(), 100, 100)
	turns := 0
	for b.Work(10) {
		turns++
	}
	if turns != 10 || !errors.Is(b.Err(), collect.ErrTooComplex) {
		t.Errorf("ended after %d turns: %v", turns, b.Err())
	}
	assert.True(t, !b.Memory(1) && !b.Work(0), "a budget that is used up has some left")
}

func TestMemoryEnds(t *testing.T) {
	t.Parallel()
	b := budget.Of(t.Context(), 100, 100)
	if !b.Memory(100) || b.Err() != nil {
		t.Errorf("all of it is too much: %v", b.Err())
	}
	if b.Memory(1) || !errors.Is(b.Err(), collect.ErrTooComplex) {
		t.Errorf("more than all is not too much: %v", b.Err())
	}
}

func TestContextEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	b := budget.New(ctx)
	cancel()
	turns := 0
	for b.Work(1) {
		turns++
	}
	if turns > 10_000 || !errors.Is(b.Err(), context.Canceled) {
		t.Errorf("ended after %d turns: %v", turns, b.Err())
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	b := budget.New(t.Context())
	b.Refuse("for a reason")
	if b.Work(1) || !errors.Is(b.Err(), collect.ErrTooComplex) {
		t.Errorf("goes on: %v", b.Err())
	}
}

func TestNoBudgetHasNoBounds(t *testing.T) {
	t.Parallel()
	var b *budget.Budget
	b.Refuse("for a reason")
	assert.True(t, b.Work(1<<40) && b.Memory(1<<40) && b.Err() == nil, "nil has bounds")
}
