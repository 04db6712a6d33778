package projections

import (
	"context"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
)

// Tables are the separate tables of a process manager while it runs, those of eventstore.Traits. After a takeover they
// read nothing and write nothing: both compare the epoch of its session.
type Tables struct {
	p *reacting
	s *session
}

// Read runs queries in one transaction. It sees the rows of earlier Writes.
func (t *Tables) Read(ctx context.Context, queries *pgx.Batch) error {
	return t.s.read(ctx, queries)
}

// Write commits rows. With events, the next ones that were processed, it also commits the rest of the state and moves
// the checkpoint behind them. Without, the checkpoint stays: after a crash the current event is seen again, with the
// rows that are written now.
func (t *Tables) Write(ctx context.Context, dealtWith []eventstore.Recorded, write func(pgx.Tx) error) error {
	p, s := t.p, t.s
	if len(dealtWith) == 0 {
		return s.commit(ctx, s.position, s.anchor, 0, write)
	}
	rows, err := p.Changed()
	if err != nil {
		return err
	}
	to, last := dealtWith[len(dealtWith)-1].Position, s.anchor.after(dealtWith)
	err = s.commit(ctx, to, last, p.events+len(dealtWith), func(tx pgx.Tx) error {
		if err := save(ctx, tx, rows); err != nil {
			return err
		}
		return write(tx)
	})
	if err != nil {
		return err
	}
	p.written += len(dealtWith)
	p.events, p.seen, p.last = 0, to, last
	return nil
}
