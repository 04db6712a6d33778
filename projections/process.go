package projections

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
	"carillon/eventstore/panics"
)

// saveInterval is the time between two saves of a process manager's state. Later events are processed again after a
// crash.
const saveInterval = time.Second

// reacting drives a process manager and commits its state now and then, and when it ends.
type reacting struct {
	eventstore.ProcessManager
	mu        sync.Mutex // guards the rest, and calls of Changed
	traits    eventstore.Traits
	tables    *Tables
	seen      eventstore.Position
	last      anchor
	events    int             // since the last save began
	written   int             // events of the batch at hand that were committed by Tables.Write
	began     time.Time       // the last save
	saving    chan error      // the save that is in progress, which has the session's position; nil means none
	saveAgain bool            // one more is to follow it
	ending    context.Context // of the saves: it outlives the run, so that the last one can end
	cancel    context.CancelFunc
}

// stateSchema returns the DDL of a process manager's schema.
func stateSchema(of *eventstore.Traits) string {
	return fmt.Sprintf(`-- version %d
CREATE TABLE state (
    kind text NOT NULL,
    id   text NOT NULL,
    data json NOT NULL,
    PRIMARY KEY (kind, id)
);`, of.Version) + of.Tables
}

// tablesLinger is how long a process manager with tables lets events come together: it commits each batch, which costs
// more than processing a few events.
const tablesLinger = 50 * time.Millisecond

func (p *reacting) open(ctx context.Context, r *Runner, s *session) error {
	head, err := r.Store.Head(ctx)
	if err != nil {
		return fmt.Errorf("head: %w", err)
	}
	var saved pgx.Batch
	saved.Queue("SELECT kind, id, data FROM state").Query(func(rows pgx.Rows) error {
		var row eventstore.SavedRow
		_, err := pgx.ForEachRow(rows, []any{&row.Kind, &row.ID, &row.Data}, func() error { return p.Restore(row) })
		return err
	})
	if err := s.read(ctx, &saved); err != nil {
		return fmt.Errorf("load state: %w", err)
	}
	p.tables.s = s
	p.Begin(head)
	p.seen, p.last, p.began = s.position, s.anchor, time.Now()
	p.ending, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return nil
}

func (p *reacting) handle(ctx context.Context, s *session, batch Batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	writes := p.traits.Tables != "" && len(batch.Events) > 0 // it may commit while it reacts
	if err := p.saved(ctx, writes); err != nil {
		return err
	}
	p.written = 0
	if len(batch.Events) > 0 {
		if err := p.React(ctx, batch.Events); err != nil {
			return err
		}
	}
	if !batch.Quiet {
		p.seen, p.last = batch.Position, p.last.after(batch.Events)
		p.events += len(batch.Events) - p.written
		if time.Since(p.began) < saveInterval {
			return nil
		}
	}
	p.saveAgain = (p.saveAgain || batch.Quiet) && p.saving != nil
	return p.save(s)
}

// save begins to save the changes, unless a save is in progress. It ends when all work that was accepted before is
// recorded. No caller waits for it: while that takes long, or Postgres is slow or away for a moment, the process
// manager goes on. Unsaved work is done again, like after a crash.
func (p *reacting) save(s *session) error {
	if p.saving != nil || p.seen == s.position {
		return nil
	}
	rows, err := p.Changed()
	if err != nil {
		return err
	}
	var pending func(context.Context) error
	if d := p.traits.Deferred; d != nil {
		pending = d.Pending()
	}
	seen, last, events := p.seen, p.last, p.events
	p.events, p.began = 0, time.Now()
	p.saving = make(chan error, 1)
	done := p.saving
	go panics.Func("consumer "+p.traits.Name, func() {
		done <- panics.Catch("consumer "+p.traits.Name, func() error {
			if pending != nil {
				if err := pending(p.ending); err != nil {
					return err
				}
			}
			return s.commit(p.ending, seen, last, events, func(tx pgx.Tx) error { return save(p.ending, tx, rows) })
		})
		p.saveRemaining(s)
	})()
	return nil
}

// saveNow saves without delay, because a caller waits.
func (p *reacting) saveNow(s *session) {
	p.mu.Lock()
	p.saveAgain = true
	inProgress := p.saving != nil && len(p.saving) == 0
	p.mu.Unlock()
	if !inProgress { // else it sees to it when it ends
		p.saveRemaining(s)
	}
}

// saveRemaining saves the changes made during the last save, if no event has come since that would cause a save.
func (p *reacting) saveRemaining(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.saveAgain {
		return
	}
	p.saveAgain = false
	err := panics.Catch("consumer "+p.traits.Name, func() error {
		if err := p.saved(p.ending, false); err != nil {
			return err
		}
		return p.save(s)
	})
	if err != nil {
		p.saving = make(chan error, 1) // the next caller gets it
		p.saving <- err
	}
}

// saved takes the outcome of the save in progress, and waits for it if wait is set.
func (p *reacting) saved(ctx context.Context, wait bool) error {
	if p.saving == nil {
		return nil
	}
	select {
	case err := <-p.saving:
		p.saving = nil
		return err
	default:
		if !wait {
			return nil
		}
	}
	select {
	case err := <-p.saving:
		p.saving = nil
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish saves what is left, when the session ends.
func (p *reacting) finish(ctx context.Context, s *session) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saveAgain = false
	for range 2 { // the save that is in progress, and the last one
		if err := p.saved(ctx, true); err != nil {
			return err
		}
		if err := p.save(s); err != nil {
			return err
		}
	}
	return p.saved(ctx, true)
}

func (p *reacting) abort() {
	if p.cancel != nil {
		p.cancel()
	}
	if d := p.traits.Deferred; d != nil {
		d.End()
	}
}

func (p *reacting) saver(s *session) func() { return func() { p.saveNow(s) } }

func save(ctx context.Context, tx pgx.Tx, rows []eventstore.SavedRow) error {
	if len(rows) == 0 {
		return nil
	}
	batch := &pgx.Batch{}
	for _, row := range rows {
		if row.Data == nil {
			batch.Queue("DELETE FROM state WHERE kind = $1 AND id = $2", row.Kind, row.ID)
			continue
		}
		batch.Queue("INSERT INTO state (kind, id, data) VALUES ($1, $2, $3) ON CONFLICT (kind, id) DO UPDATE "+
			"SET data = excluded.data",
			row.Kind, row.ID, row.Data)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	return nil
}
