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
	mu      sync.Mutex    // guards the rest, and calls of Changed
	lingers time.Duration // if it need not act at once
	seen    eventstore.Position
	last    anchor
	events  int             // since the last save began
	written int             // events of the batch at hand that a Keeper has committed itself
	began   time.Time       // the last save
	saving  chan error      // the save that is in progress, which has the session's position; nil means none
	owed    bool            // one more is to follow it
	ending  context.Context // of the saves: it outlives the run, so that the last one can end
	cancel  context.CancelFunc
}

// Schema implements consumer.
func (p *reacting) Schema() string {
	ddl := fmt.Sprintf(`-- version %d
CREATE TABLE state (
    kind text NOT NULL,
    id   text NOT NULL,
    data json NOT NULL,
    PRIMARY KEY (kind, id)
);`, p.Version())
	if keeper, ok := p.ProcessManager.(Keeper); ok {
		ddl += keeper.DDL()
	}
	return ddl
}

// keeperLinger is how long a Keeper lets events come together: it commits each batch, which costs more than processing
// a few events.
const keeperLinger = 50 * time.Millisecond

// linger implements consumer: process managers act at once, but for a Keeper and those that say otherwise.
func (p *reacting) linger() time.Duration {
	if _, keeps := p.ProcessManager.(Keeper); keeps {
		return keeperLinger
	}
	if l, ok := p.ProcessManager.(eventstore.Lingerer); ok && l.Lingers() {
		return p.lingers
	}
	return 0
}

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
	if keeper, ok := p.ProcessManager.(Keeper); ok {
		keeper.Open(&Tables{p: p, s: s})
	}
	p.Begin(head)
	p.seen, p.last, p.began = s.position, s.anchor, time.Now()
	p.ending, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	return nil
}

func (p *reacting) handle(ctx context.Context, s *session, batch Batch) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, keeps := p.ProcessManager.(Keeper)
	if err := p.saved(ctx, keeps && len(batch.Events) > 0); err != nil { // a Keeper may commit while it reacts
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
	p.owed = (p.owed || batch.Quiet) && p.saving != nil
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
	if d := p.deferring(); d != nil {
		pending = d.Pending()
	}
	seen, last, events := p.seen, p.last, p.events
	p.events, p.began = 0, time.Now()
	p.saving = make(chan error, 1)
	done := p.saving
	go panics.Func("consumer "+p.Name(), func() {
		done <- panics.Catch("consumer "+p.Name(), func() error {
			if pending != nil {
				if err := pending(p.ending); err != nil {
					return err
				}
			}
			return s.commit(p.ending, seen, last, events, func(tx pgx.Tx) error { return save(p.ending, tx, rows) })
		})
		p.saveOwed(s)
	})()
	return nil
}

// saveNow saves without delay, because a caller waits.
func (p *reacting) saveNow(s *session) {
	p.mu.Lock()
	p.owed = true
	underWay := p.saving != nil && len(p.saving) == 0
	p.mu.Unlock()
	if !underWay { // else it sees to it when it ends
		p.saveOwed(s)
	}
}

// saveOwed saves the changes made during the last save, if no event has come since that would cause a save.
func (p *reacting) saveOwed(s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.owed {
		return
	}
	p.owed = false
	err := panics.Catch("consumer "+p.Name(), func() error {
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
	p.owed = false
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

func (p *reacting) giveUp() {
	if p.cancel != nil {
		p.cancel()
	}
	if d := p.deferring(); d != nil {
		d.End()
	}
}

func (p *reacting) saver(s *session) func() { return func() { p.saveNow(s) } }

func (p *reacting) deferring() eventstore.Deferring {
	d, _ := p.ProcessManager.(eventstore.Deferring)
	return d
}

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
