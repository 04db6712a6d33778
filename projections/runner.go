package projections

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore"
	"carillon/eventstore/panics"
	"carillon/eventstore/reach"
	"carillon/projections/sessionlock"
)

const (
	minPause       = 50 * time.Millisecond // before a consumer that failed starts again
	maxPause       = 5 * time.Second
	connectPause   = 500 * time.Millisecond // at most, where Postgres takes no connection: it may be all taken, or away
	defaultLinger  = 250 * time.Millisecond
	finishLimit    = 5 * time.Second // for the last save; unsaved work is done again
	idleCheckpoint = 5 * time.Second // between two checkpoints if no event concerns the consumer
)

// Runner runs consumers. Any number of processes may run the same ones: for each, one process at a time works and the
// others stand by.
type Runner struct {
	Pool     *pgxpool.Pool
	Locks    *sessionlock.Locks
	Store    eventstore.Store
	Log      *slog.Logger
	Progress *Progress
	// Linger is how far a read model, or a process manager that lingers, may be behind while no caller
	// waits for it, if the store batches events (lingerer): a transaction for each event costs more processor time than
	// all else that is done for it. Default 250 ms.
	Linger time.Duration
	// Identity returns the store's identity, which no other store has, a copy included; "" while it is empty. With it,
	// checkpoints of another store are detected when a consumer starts. Nil trusts them.
	Identity func(ctx context.Context) (string, error)
	// Reach ends what runs here, and leaves its locks to other processes, while the store is unreachable. nil trusts that
	// it is reached.
	Reach *reach.Watch
}

// consumer is a read model or a process manager, driven by a session.
type consumer struct {
	driver
	model    *ReadModel // nil means a process manager
	name     string
	filter   eventstore.Filter
	schema   string              // its DDL
	linger   time.Duration       // how far it may be behind while no caller waits for it
	deferred eventstore.Deferred // nil means all is done when handle returns
}

// driver is the part of a consumer that works.
type driver interface {
	open(ctx context.Context, r *Runner, s *session) error
	handle(ctx context.Context, s *session, batch Batch) error
	finish(ctx context.Context, s *session) error
	abort()                  // ends what is still in progress, before the lock is released; it may be called twice
	saver(s *session) func() // commits what was handled; nil means handle does
}

// Project writes a read model until the context ends or an event can't be decoded; the latter is the error it returns.
func (r *Runner) Project(ctx context.Context, m ReadModel) error {
	return r.run(ctx, func() consumer {
		return consumer{
			driver: &projecting{model: m},
			model:  &m,
			name:   m.Name,
			filter: m.Filter,
			schema: m.ddl(),
			linger: cmp.Or(r.Linger, defaultLinger),
		}
	})
}

// React runs a process manager, as Project does. Each start gets a fresh one, with the separate tables that its traits
// declare, and restores the saved state.
func (r *Runner) React(ctx context.Context, fresh func(*Tables) eventstore.ProcessManager) error {
	return r.run(ctx, func() consumer {
		tables := &Tables{}
		manager := fresh(tables)
		traits := manager.Traits()
		tables.p = &reacting{ProcessManager: manager, traits: traits, tables: tables}
		c := consumer{
			driver:   tables.p,
			name:     traits.Name,
			filter:   traits.Filter,
			schema:   stateSchema(&traits),
			deferred: traits.Deferred,
		}
		switch {
		case traits.Tables != "":
			c.linger = tablesLinger
		case traits.Lingers:
			c.linger = cmp.Or(r.Linger, defaultLinger)
		}
		return c
	})
}

func (r *Runner) run(ctx context.Context, fresh func() consumer) error {
	pause := minPause
	var mended time.Time // when it was last rebuilt because it was damaged
	claimed := false
	for {
		c := fresh()
		log := r.Log.With("consumer", c.name)
		reached, done := r.Reach.While(ctx)
		started := time.Now()
		err := panics.Catch("consumer "+c.name, func() error {
			if !claimed {
				if err := r.claim(reached, c, log); err != nil {
					return err
				}
				claimed = true
			}
			return r.runSession(reached, c, log, &mended)
		})
		done()
		switch {
		case errors.Is(err, eventstore.ErrUndecodable):
			log.Error("stopped: an event can't be decoded; nothing was skipped, its checkpoint stands before the event",
				"error", err)
			return fmt.Errorf("%s: %w", c.name, err)
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was asked to end, whatever broke meanwhile
		case reach.Gone(reached):
			pause = minPause
			continue // once it is back
		}
		if time.Since(started) > maxPause {
			pause = minPause
		}
		if errors.Is(err, errFenced) && c.model != nil && r.replaced(ctx, *c.model) {
			pause = maxPause // the process that has claimed the read model takes the lock meanwhile
		} else {
			r.Progress.failed(c.name, err)
		}
		pause = min(pause, longest(err))
		log.Warn("consumer interrupted, starting again from its checkpoint", "pause", pause, "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

// replaced reports whether a read model has the tables of another version.
func (r *Runner) replaced(ctx context.Context, m ReadModel) bool {
	found, there, err := loadCheckpoint(ctx, r.Pool, m.Name)
	return err == nil && there && !m.made(found.fingerprint)
}

// longest is the longest pause after an error.
func longest(err error) time.Duration {
	var refused *pgconn.ConnectError
	if errors.As(err, &refused) {
		return connectPause
	}
	return maxPause
}

// runSession runs the consumer while it holds its lock, until something breaks.
func (r *Runner) runSession(ctx context.Context, c consumer, log *slog.Logger, mended *time.Time) error {
	s, err := r.openSession(ctx, c)
	if err != nil {
		return err
	}
	defer s.lock.Release()
	defer c.abort()
	if err = r.reconcile(ctx, s, c, log); err == nil && c.model != nil && !c.model.made(s.fingerprint) {
		err = r.remake(ctx, s, *c.model, log)
	}
	if err == nil {
		err = r.mendMissing(ctx, s, c, log)
	}
	if err == nil {
		if err = c.open(ctx, r, s); errors.Is(err, eventstore.ErrInvalidPosition) {
			return r.relocate(ctx, s, c, log)
		}
	}
	if err != nil {
		return stopped(ctx, s, r.mendDamaged(ctx, s, c, err, mended, log), log)
	}
	r.Progress.begin(c.name, running{at: s.position, deferred: c.deferred, save: c.saver(s)})
	defer r.Progress.lost(c.name)
	log.Debug("consumer runs", "after", s.position.String())
	if c.model != nil { // the earlier holder of the lock may have committed without a notification
		NotifyDue(r.Locks, time.Time{})
	}

	subscriber := &Subscriber{
		Store:  r.storeFor(c),
		After:  s.position,
		Filter: c.filter,
		Log:    r.Log,
	}
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	go panics.Func("consumer "+c.name, func() {
		select {
		case <-s.lock.Lost(): // another process may have taken over by now
			cancel()
			c.abort()
		case <-failureOf(c.deferred):
			cancel()
		case <-running.Done():
		}
	})()
	// Without Watermill's router, which passes each message through three more goroutines.
	messages, err := subscriber.Subscribe(running, c.name)
	if err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	var failed error
	for m := range messages {
		if failed = r.handle(m, c, s); failed != nil {
			m.Nack()
			break
		}
		m.Ack()
	}
	cancel()
	if reach.Gone(ctx) { // unrecorded work can't be recorded any more
		return context.Cause(ctx)
	}
	if err := s.lock.Err(); err != nil && failed == nil {
		return err
	}
	if c.deferred != nil && failed == nil {
		failed = c.deferred.Err()
	}
	if failed == nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishLimit)
		defer cancel()
		err := c.finish(closing, s)
		if err == nil && subscriber.astray.Load() {
			err = r.relocate(ctx, s, c, log)
		}
		return err
	}
	return stopped(ctx, s, r.mendDamaged(ctx, s, c, failed, mended, log), log)
}

// handle passes a batch to the consumer, and reports its position.
func (r *Runner) handle(m *message.Message, c consumer, s *session) error {
	batch, err := BatchOf(m)
	if err == nil { // the router would drop a panic without a word
		err = panics.Catch("consumer "+c.name, func() error { return c.handle(m.Context(), s, batch) })
	}
	if err == nil && s.store == "" && !batch.Quiet { // it was empty when the session began
		err = r.identify(m.Context(), s)
	}
	if err == nil && !batch.Quiet {
		r.Progress.set(c.name, batch.Position)
	}
	return err
}

// failureOf is closed when something deferred has failed.
func failureOf(d eventstore.Deferred) <-chan struct{} {
	if d == nil {
		return nil
	}
	return d.Failed()
}

// lingerer is a store, such as tail.Store, that batches events for consumers that may linger.
type lingerer interface {
	Lingering(linger time.Duration, urgent func() <-chan struct{}) eventstore.Store
}

// storeFor is the store as a consumer reads it.
func (r *Runner) storeFor(c consumer) eventstore.Store {
	store, can := r.Store.(lingerer)
	if !can || c.linger <= 0 {
		return r.Store
	}
	return store.Lingering(c.linger, func() <-chan struct{} { return r.Progress.urgent(c.name) })
}

// stopped records an error that starting again does not mend, and returns it.
func stopped(ctx context.Context, s *session, err error, log *slog.Logger) error {
	if errors.Is(err, eventstore.ErrUndecodable) {
		if err := s.stop(ctx, err); err != nil {
			log.Error("could not record why the consumer stopped", "error", err)
		}
	}
	return err
}

// identify names the store once it has its first event.
func (r *Runner) identify(ctx context.Context, s *session) error {
	if r.Identity == nil {
		return nil
	}
	present, err := r.Identity(ctx)
	if err != nil {
		return fmt.Errorf("identify the event store: %w", err)
	}
	return s.belongTo(ctx, present)
}

// projecting commits every batch.
type projecting struct {
	model     ReadModel
	idleSince time.Time
}

func (p *projecting) handle(ctx context.Context, s *session, batch Batch) error {
	if len(batch.Events) == 0 {
		if batch.Quiet || time.Since(p.idleSince) < idleCheckpoint {
			return nil
		}
		p.idleSince = time.Now()
		return s.commit(ctx, batch.Position, s.anchor, 0, func(pgx.Tx) error { return nil })
	}
	p.idleSince = time.Now()
	return s.commit(ctx, batch.Position, s.anchor.after(batch.Events), len(batch.Events), func(tx pgx.Tx) error {
		return p.model.Project(ctx, tx, batch.Events)
	})
}

func (p *projecting) finish(context.Context, *session) error { return nil }

func (p *projecting) abort() {}

func (p *projecting) saver(*session) func() { return nil }
