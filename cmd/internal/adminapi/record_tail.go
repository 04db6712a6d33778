package adminapi

import (
	"context"
	"log/slog"
	"sync"

	"carillon/cmd/internal/wire"
	"carillon/eventstore"
	"carillon/projections/audit"
	"carillon/query"
)

// recordTail remembers how far the log was searched for events of the record. The newest event of all is seldom one of
// them, and the read model reports no position after its last one.
type recordTail struct {
	mu   sync.Mutex
	last search
}

// search is a search of the log for events of the record.
type search struct {
	to     eventstore.Position
	newest eventstore.Position // of the record, up to there
}

// advance remembers a search, and returns the one that went furthest. Nothing is searched meanwhile, so that a request
// whose store hangs holds up no other.
func (t *recordTail) advance(s search) search {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last.to.Before(s.to) {
		t.last = s
	}
	return t.last
}

// awaitRecord waits until the read model has all events so far: an auditor sees all changes, whichever node or process
// manager made them. If the event store does not answer, the present rows are shown.
func (a *API) awaitRecord(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, wire.AwaitLimit)
	defer cancel()
	newest, err := a.newestOnRecord(ctx)
	if err != nil {
		wire.Note(ctx, slog.Bool("notCompared", true))
	}
	if newest != eventstore.Start {
		a.See(ctx, newest, audit.ReadModel.Name)
	}
}

// newestOnRecord returns the position of the newest event that belongs to the record.
func (a *API) newestOnRecord(ctx context.Context) (eventstore.Position, error) {
	latest, err := a.Queries.RecordEntries(ctx, query.EntryFilter{Limit: 1})
	s := a.recordTail.advance(search{})
	if err != nil {
		return s.newest, err
	}
	for _, e := range latest {
		//nolint:gosec // stored from positions
		known := eventstore.Position{Commit: uint64(e.Commit), Prepare: uint64(e.Prepare)}
		s = a.recordTail.advance(search{known, known})
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for message, err := range a.Commands.Store.Subscribe(ctx, s.to, audit.ReadModel.Filter) {
		switch {
		case err != nil:
			return s.newest, err
		case message.CaughtUp:
			return a.recordTail.advance(s).newest, nil
		case message.Event != nil:
			s.newest = message.Position
		}
		s.to = message.Position
	}
	return s.newest, ctx.Err()
}
