package projections

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
	"carillon/eventstore/panics"
	"carillon/projections/sessionlock"
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
	c, there, err := settledCheckpoint(ctx, r.Pool, m.Name)
	if err != nil || !there || c.outdated != "" || !m.made(c.fingerprint) {
		return at, false, err
	}
	if r.Identity == nil {
		return c.position, true, nil
	}
	v, err := r.compareStore(ctx, c)
	return c.position, (v.why == "" || v.why == endsBefore && v.resume) && v.present == c.store, err
}

const (
	awaited   = "carillon_awaited" // the channel of Postgres on which processes say what they wait for
	maxUrgent = 2 * time.Second    // no caller waits for longer
)

// Listen hurries consumers of this process that another process waits for, until the context ends. Without it they wait
// for as long as a batch lingers, or until a process manager saves.
func (p *Progress) Listen(ctx context.Context, locks *sessionlock.Locks) {
	locks.Listen(ctx, awaited, func(payload string) {
		var (
			name            string
			commit, prepare int64
		)
		if _, err := fmt.Sscan(payload, &name, &commit, &prepare); err != nil {
			return // of another version
		}
		if heard := p.notified(name); heard != nil {
			heard()
		} else if _, here, _ := p.get(name); here {
			go panics.Func("progress", func() { p.waitAndSave(ctx, position(commit, prepare), name) })()
		}
	})
}

func (p *Progress) waitAndSave(ctx context.Context, to eventstore.Position, name string) {
	ctx, cancel := context.WithTimeout(ctx, maxUrgent)
	defer cancel()
	if p.Await(ctx, to, name) {
		p.save(name) // who waits elsewhere goes by the checkpoint
	}
}

// OnNotified calls a function whenever a process, this one included, announces a name to the others. It must wait for
// nothing.
func (p *Progress) OnNotified(name string, heard func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard[name] = heard
}

func (p *Progress) notified(name string) func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heard[name]
}

// QueueTell announces a name to all processes when the batch is committed.
func (p *Progress) QueueTell(batch *pgx.Batch, name string) {
	batch.Queue("SELECT pg_notify($1, $2)", awaited, name+" 0 0")
}

// ask notifies the process that runs a consumer that this one waits for it. If that fails it waits a little longer.
func (p *Progress) ask(ctx context.Context, to eventstore.Position, name string) {
	_, _ = p.pool.Exec(ctx, "SELECT pg_notify($1, $2)", awaited, fmt.Sprint(name, " ", to.Commit, " ", to.Prepare))
}

// due is the channel of Postgres on which processes say when something can be claimed that could not before.
const due = "carillon_due"

// Due lets a read model announce when the first of the deliveries can be claimed that its transaction makes claimable.
// All processes get it once the transaction is committed: a notification inside of it would take a lock that all
// commits of the server share.
func Due(tx pgx.Tx, at time.Time) {
	if t, ok := tx.(*pipelined); ok && (t.due.IsZero() || at.Before(t.due)) {
		t.due = at
	}
}

// NotifyDue notifies all processes that something can be claimed from a time on.
func NotifyDue(locks *sessionlock.Locks, at time.Time) {
	payload := ""
	if now, known := locks.Now(); known && at.After(now) {
		payload = strconv.FormatInt(at.UnixMicro(), 10)
	}
	locks.Notify(due, payload)
}

// ListenDue calls a function with the times that processes announce, until the context ends. The zero time means that
// it is not known what became due meanwhile, or that it is due now.
func ListenDue(ctx context.Context, locks *sessionlock.Locks, heard func(at time.Time)) {
	locks.Listen(ctx, due, func(payload string) {
		if at, err := strconv.ParseInt(payload, 10, 64); err == nil {
			heard(time.UnixMicro(at))
			return
		}
		heard(time.Time{})
	})
}
