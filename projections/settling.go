package projections

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/eventstore"
)

// settlePoll is how often the checkpoint of a read model that is waited for is looked at.
const settlePoll = 10 * time.Millisecond

// ErrBehind: the rows of a read model are older than the recorded events.
var ErrBehind = errors.New("the read model is behind the event store")

// Settling reports whether a read model is made of the present event store and has taken in everything that was
// recorded before it was asked. Callers that act on its rows, and not only show them, wait for that: until then the
// rows may be old, or made of another store. It reads the checkpoint from Postgres, which is older after a crash than a
// process remembers. It is not safe for concurrent use.
type Settling struct {
	runner *Runner
	model  ReadModel
	goal   eventstore.Position // to be reached; Start: none yet
}

// Settling makes one of a read model.
func (r *Runner) Settling(m ReadModel) *Settling { return &Settling{runner: r, model: m} }

// Again makes what is recorded by now count.
func (s *Settling) Again() { s.goal = eventstore.Start }

// Settle waits for a time. After ErrBehind it is to be asked again, and goes on to wait for the same events.
func (s *Settling) Settle(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s.runner.Progress.hurry(s.model.Name, 1)
	defer s.runner.Progress.hurry(s.model.Name, -1)
	for {
		at, holds, err := s.runner.stored(ctx, s.model)
		if err == nil && holds && s.goal == eventstore.Start {
			var newest eventstore.Position
			if newest, err = s.newest(ctx, at); err == nil { // else it was found in part, and the rest counts too
				s.goal = newest
			}
		}
		switch {
		case ctx.Err() != nil:
			return ErrBehind
		case err != nil:
			return fmt.Errorf("how far %s is: %w", s.model.Name, err)
		case holds && !at.Before(s.goal):
			s.goal = eventstore.Start
			return nil
		}
		select {
		case <-ctx.Done():
			return ErrBehind
		case <-time.After(settlePoll):
		}
	}
}

// newest finds the last event that concerns the read model.
func (s *Settling) newest(ctx context.Context, after eventstore.Position) (eventstore.Position, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	last := after
	for message, err := range s.runner.Store.Subscribe(ctx, after, s.model.Filter) {
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
	if err != nil || !there || c.outdated != "" || c.fingerprint != fingerprint(m.ddl()) {
		return at, false, err
	}
	if r.Identity == nil {
		return c.position, true, nil
	}
	v, err := r.judge(ctx, c)
	return c.position, (v.why == "" || v.why == endsBefore && v.resume) && v.present == c.store, err
}
