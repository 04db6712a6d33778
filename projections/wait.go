package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/eventstore"
)

// ErrBehind: the rows of a read model are older than the recorded events.
var ErrBehind = errors.New("the read model is behind the event store")

// Wait is for callers that act on the rows of a read model, and not only show them: the rows may be old, or made of
// another store, until they have all that is recorded. It goes by the checkpoint in Postgres, which is older after a
// crash than a process remembers. It is not safe for concurrent use.
type Wait struct {
	runner *Runner
	model  ReadModel
	goal   eventstore.Position // to be reached; Start: none yet
}

// Wait makes one for a read model.
func (r *Runner) Wait(m ReadModel) *Wait { return &Wait{runner: r, model: m} }

// Again makes what is recorded by now count.
func (w *Wait) Again() { w.goal = eventstore.Start }

// For waits for a time at most until the read model has all that was recorded when it was asked. After ErrBehind it is
// to be asked again, and goes on to wait for the same events.
func (w *Wait) For(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return w.until(ctx)
}

// Newest waits until read models have all that is recorded by now, or the context ends.
func (r *Runner) Newest(ctx context.Context, models ...ReadModel) error {
	for _, m := range models {
		if err := r.Wait(m).until(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *Wait) until(ctx context.Context) error {
	p := w.runner.Progress
	p.addWaiters(w.model.Name, 1)
	defer p.addWaiters(w.model.Name, -1)
	for asked := false; ; {
		at, holds, err := w.runner.stored(ctx, w.model)
		if err == nil && holds && w.goal == eventstore.Start {
			var newest eventstore.Position
			if newest, err = w.newest(ctx, at); err == nil { // else it was found in part, and the rest counts too
				w.goal = newest
			}
		}
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", w.model.Name, ErrBehind)
		case err != nil:
			return fmt.Errorf("how far %s is: %w", w.model.Name, err)
		case holds && !at.Before(w.goal):
			w.goal = eventstore.Start
			return nil
		}
		if _, here, _ := p.get(w.model.Name); !here && !asked {
			p.ask(ctx, w.goal, w.model.Name)
			asked = true
		}
		select {
		case <-ctx.Done():
		case <-time.After(awaitPoll):
		}
	}
}

// newest finds the last event that concerns the read model.
func (w *Wait) newest(ctx context.Context, after eventstore.Position) (eventstore.Position, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	last := after
	for message, err := range w.runner.Store.Subscribe(ctx, after, w.model.Filter) {
		switch {
		case err != nil:
			return last, err
		case message.CaughtUp:
			return last, nil
		case message.Event != nil:
			last = message.Position
		}
	}
	return last, ctx.Err()
}

// stored is how far the rows of a read model go that Postgres has, and whether they are of the present event store.
func (r *Runner) stored(ctx context.Context, m ReadModel) (at eventstore.Position, holds bool, err error) {
	c, there, err := loadCheckpoint(ctx, r.Pool, m.Name)
	if err != nil || !there || c.outdated != "" || !m.made(c.fingerprint) {
		return at, false, err
	}
	if r.Identity == nil {
		return c.position, true, nil
	}
	v, err := r.compareStore(ctx, c)
	return c.position, (v.why == "" || v.why == endsBefore && v.resume) && v.present == c.store, err
}
