package projections

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
)

// saveInterval is the time between two saves of a process manager's state. What happened since is done again after a
// crash.
const saveInterval = time.Second

// reacting drives a process manager and commits its state now and then, and when it ends.
type reacting struct {
	eventstore.ProcessManager
	seen   eventstore.Position
	last   anchor
	events int
	saved  time.Time
}

// Schema implements consumer.
func (p *reacting) Schema() string {
	return fmt.Sprintf(`-- version %d
CREATE TABLE state (
    kind text NOT NULL,
    id   text NOT NULL,
    data json NOT NULL,
    PRIMARY KEY (kind, id)
);`, p.Version())
}

// linger implements consumer: process managers act at once.
func (*reacting) linger() time.Duration { return 0 }

func (p *reacting) open(ctx context.Context, r *Runner, s *session) error {
	head, err := r.Store.Head(ctx)
	if err != nil {
		return fmt.Errorf("head: %w", err)
	}
	err = s.Do(func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, "SELECT kind, id, data FROM state")
		if err != nil {
			return err
		}
		var row eventstore.SavedRow
		_, err = pgx.ForEachRow(rows, []any{&row.Kind, &row.ID, &row.Data}, func() error { return p.Restore(row) })
		return err
	})
	if err != nil {
		return fmt.Errorf("load state: %w", err)
	}
	p.Begin(head)
	p.seen, p.last, p.saved = s.position, s.anchor, time.Now()
	return nil
}

func (p *reacting) handle(ctx context.Context, s *session, batch Batch) error {
	if len(batch.Events) > 0 {
		if err := p.React(ctx, batch.Events); err != nil {
			return err
		}
	}
	if batch.Quiet {
		return p.finish(ctx, s)
	}
	p.seen, p.last = batch.Position, p.last.after(batch.Events)
	p.events += len(batch.Events)
	if time.Since(p.saved) < saveInterval {
		return nil
	}
	return p.finish(ctx, s)
}

func (p *reacting) finish(ctx context.Context, s *session) error {
	if p.seen == s.position {
		return nil
	}
	rows, err := p.Changed()
	if err != nil {
		return err
	}
	if err := s.commit(ctx, p.seen, p.last, p.events, func(tx pgx.Tx) error { return save(ctx, tx, rows) }); err != nil {
		return err
	}
	p.events, p.saved = 0, time.Now()
	return nil
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
		batch.Queue("INSERT INTO state (kind, id, data) VALUES ($1, $2, $3) ON CONFLICT (kind, id) DO UPDATE SET data = excluded.data",
			row.Kind, row.ID, row.Data)
	}
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return fmt.Errorf("save state: %w", err)
	}
	return nil
}
