package adapters

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/command"
	"carillon/eventstore/panics"
)

const (
	// writesAhead is the number of writes of an organization that a process counts at once, so that Postgres is rarely
	// asked.
	writesAhead = 100
	writesWait  = 5 * time.Second // for Postgres
	writesPass  = time.Second     // how long writes pass after it has not answered
)

// Writes counts the requests by which organizations change something, over all processes. If Postgres does not answer,
// they pass.
type Writes struct {
	Quotas *Quotas

	mu  sync.Mutex
	all map[uuid.UUID]*allowance
}

// allowance holds the writes of an organization that are counted already.
type allowance struct {
	mu     sync.Mutex
	left   int
	passes time.Time // until when they are not counted
	asked  *asked    // nil means no question is in flight
}

// asked is a question to Postgres, and its answer once done is closed.
type asked struct {
	done chan struct{}
	wait time.Duration
	err  error
}

// Take counts a write. Beyond the limit it returns an *organization.LimitError, and the time until the next one is
// allowed. Those that come while Postgres is asked wait for the same answer.
func (w *Writes) Take(ctx context.Context, of uuid.UUID) (wait time.Duration, err error) {
	a := w.of(of)
	for {
		question := w.askUnlessLeft(ctx, of, a)
		if question == nil {
			return 0, nil
		}
		select {
		case <-question.done:
		case <-ctx.Done():
			return 0, fmt.Errorf("count writes: %w", ctx.Err())
		}
		if question.err != nil {
			return question.wait, w.Quotas.refusal(question.err)
		}
	}
}

// askUnlessLeft takes a write that is counted already, or returns the question that counts more.
func (w *Writes) askUnlessLeft(ctx context.Context, of uuid.UUID, a *allowance) *asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.left > 0:
		a.left--
		return nil
	case w.Quotas.Now().Before(a.passes):
		return nil
	case a.asked == nil:
		question := &asked{done: make(chan struct{})}
		a.asked = question
		go panics.Func("writes", func() { w.ask(context.WithoutCancel(ctx), of, a, question) })()
	}
	return a.asked
}

// ask counts as many writes ahead as there is room for.
func (w *Writes) ask(ctx context.Context, of uuid.UUID, a *allowance, question *asked) {
	ctx, cancel := context.WithTimeout(ctx, writesWait)
	defer cancel()
	granted, wait, err := 0, time.Duration(0), fmt.Errorf("count writes: %w", command.ErrUnavailable)
	defer func() { // also after a panic
		a.mu.Lock()
		defer a.mu.Unlock()
		a.left, a.asked = granted, nil
		if _, reached := errors.AsType[*organization.LimitError](err); err != nil && !reached {
			a.passes = w.Quotas.Now().Add(writesPass)
		}
		question.wait, question.err = wait, err
		close(question.done)
	}()
	for _, n := range []int{writesAhead, 1} {
		if wait, err = w.Quotas.spend(ctx, of, organization.LimitWritesPerDay, n); err == nil {
			granted = n
			return
		}
		if _, reached := errors.AsType[*organization.LimitError](err); !reached {
			return
		}
	}
}

func (w *Writes) of(organization uuid.UUID) *allowance {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil || len(w.all) >= heldOrgs {
		w.all = map[uuid.UUID]*allowance{}
	}
	if w.all[organization] == nil {
		w.all[organization] = &allowance{}
	}
	return w.all[organization]
}
