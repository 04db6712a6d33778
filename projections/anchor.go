package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
)

// anchor is the last event that a consumer took in. A copy of the event store has it at the same revision of the same
// stream, though at another position.
type anchor struct {
	stream   string // "" before the first event
	revision eventstore.Revision
	event    uuid.UUID
}

// after is the anchor after a batch, which may be empty.
func (a anchor) after(batch []eventstore.Recorded) anchor {
	if len(batch) == 0 {
		return a
	}
	last := &batch[len(batch)-1]
	return anchor{stream: last.Stream, revision: last.Revision, event: last.ID}
}

// find looks the anchor up in a store. An event whose stream has ended is retired: it was there, and has no position.
func (a anchor) find(
	ctx context.Context, store eventstore.Store,
) (at eventstore.Position, found, retired bool, err error) {
	if a.stream == "" {
		return eventstore.Start, false, false, nil
	}
	for recorded, err := range store.Read(ctx, a.stream, a.revision) {
		switch {
		case errors.Is(err, eventstore.ErrStreamDeleted):
			return eventstore.Start, false, true, nil
		case err != nil:
			return eventstore.Start, false, false, fmt.Errorf("find the last event: %w", err)
		}
		return recorded.Position, recorded.ID == a.event && recorded.Revision == a.revision, false, nil
	}
	return eventstore.Start, false, false, nil
}

// storeMatch is the decision about a checkpoint.
type storeMatch struct {
	why     string              // "" if it holds
	resume  bool                // go on after this position with the present rows, else begin from nothing
	at      eventstore.Position // in the present store
	present string              // the present store; "" while it is empty
}

const endsBefore = "the event store ends before the checkpoint"

// compareStore compares a checkpoint with the store that the process runs on. A checkpoint of another store is
// worthless: its position is in the middle of something else there. So is one whose last event is gone, as after a
// restore of an older backup. A checkpoint beyond the store's end whose last event is there continues after that.
//
// Read models are then rebuilt, as they hold positions themselves. A process manager goes on after its last event, if
// the store has it: it has acted on all events up to there, which are in the copy too, and must not act on them again.
func (r *Runner) compareStore(ctx context.Context, c checkpoint) (storeMatch, error) {
	present, err := r.Identity(ctx)
	if err != nil {
		return storeMatch{}, fmt.Errorf("identify the event store: %w", err)
	}
	v := storeMatch{present: present, why: c.outdated}
	if c.position == eventstore.Start {
		return v, nil
	}
	at, found, retired, err := c.anchor.find(ctx, r.Store)
	if err != nil {
		return storeMatch{}, err
	}
	head, err := r.Store.Head(ctx)
	if err != nil {
		return storeMatch{}, fmt.Errorf("head: %w", err)
	}
	switch {
	case c.store != "" && c.store != present:
		v.why = "the event store is another one than the checkpoint's"
	case head.Before(c.position) && found:
		// It was restored from an older backup, or it has sent a checkpoint past its newest event, as some servers do. All
		// processed events are there either way, and the next ones may stand before the checkpoint.
		return storeMatch{
			why:     endsBefore,
			resume:  true,
			at:      at,
			present: present,
		}, nil
	case head.Before(c.position):
		v.why = "the event store ends before the checkpoint: it was restored from an older backup"
	case c.anchor.stream != "" && !found && !retired:
		v.why = "the event store does not have the last event that was taken in"
	}
	v.resume, v.at = found, at
	return v, nil
}

// reconcile acts on the storeMatch, before a consumer goes on.
func (r *Runner) reconcile(ctx context.Context, s *session, c consumer, log *slog.Logger) error {
	if r.Identity == nil {
		return nil
	}
	v, err := r.compareStore(ctx, s.checkpoint)
	if err != nil {
		return err
	}
	return r.act(ctx, s, c, v, log)
}

// relocate acts on a checkpoint whose position the store refuses, even if it seems to hold.
func (r *Runner) relocate(ctx context.Context, s *session, c consumer, log *slog.Logger) error {
	if r.Identity == nil {
		return eventstore.ErrInvalidPosition
	}
	v, err := r.compareStore(ctx, s.checkpoint)
	if err != nil {
		return err
	}
	if v.why == "" {
		v.why = "the event store does not have the checkpoint's position"
	}
	return r.act(ctx, s, c, v, log)
}

func (r *Runner) act(ctx context.Context, s *session, c consumer, v storeMatch, log *slog.Logger) error {
	switch {
	case v.why == "" && v.present == s.store:
		return nil
	case v.why == "":
		return s.belongTo(ctx, v.present)
	case v.resume && v.why == endsBefore: // nothing of it is missing
		log.Info("checkpoint moved back to the last processed event", "why", v.why, "was", s.position.String(),
			"now", v.at.String())
		return s.moveTo(ctx, v.present, v.at)
	case c.model != nil:
		log.Warn("rebuilding the read model; the old one serves until then", "why", v.why,
			"was", s.position.String())
		return r.replace(ctx, s, *c.model, v.why)
	case v.resume:
		log.Warn("checkpoint moved: continuing after the last processed event, which the event store has", "why", v.why,
			"was", s.position.String(), "now", v.at.String())
		return s.moveTo(ctx, v.present, v.at)
	}
	log.Warn("checkpoint dropped, starting from the first event", "why", v.why,
		"was", s.position.String())
	return s.restart(ctx, v.present, c.schema)
}

// replace builds a read model beside the one that is there, and waits until it has taken its place.
func (r *Runner) replace(ctx context.Context, s *session, m ReadModel, why string) error {
	if s.outdated == "" {
		if err := s.outdate(ctx, why); err != nil {
			return err
		}
	}
	return r.rebuildFor(ctx, s, m)
}

// reload reads the checkpoint after a rebuild for this session, which has moved the epoch.
func (s *session) reload(ctx context.Context) error {
	found, _, err := loadCheckpoint(ctx, s.pool, s.name)
	if err == nil && found.epoch != s.epoch {
		err = errFenced
	}
	if err != nil {
		return err
	}
	s.checkpoint = found
	return nil
}

// outdate records that the rows are not made of the present store. Its position must not be used with the present
// store.
func (s *session) outdate(ctx context.Context, why string) error {
	err := s.update(ctx, "outdated = $3, commit = 0, prepare = 0, store = '', last_stream = NULL, last_revision = NULL, "+
		"last_event = NULL", why)
	if err != nil {
		return fmt.Errorf("outdate the read model: %w", err)
	}
	return nil
}

// belongTo records which store the checkpoint is of.
func (s *session) belongTo(ctx context.Context, store string) error {
	if err := s.update(ctx, "store = $3", store); err != nil {
		return fmt.Errorf("identify the event store: %w", err)
	}
	s.store = store
	return nil
}

// moveTo translates the checkpoint into another store.
func (s *session) moveTo(ctx context.Context, store string, to eventstore.Position) error {
	err := s.update(ctx, "store = $3, commit = $4, prepare = $5, updated_at = now()",
		store, int64(to.Commit), int64(to.Prepare)) //nolint:gosec // positions fit an int64
	if err != nil {
		return fmt.Errorf("translate the checkpoint: %w", err)
	}
	s.store, s.position = store, to
	return nil
}

// restart throws away what the consumer has written.
func (s *session) restart(ctx context.Context, store, ddl string) error {
	err := s.inTransaction(ctx, func(tx pgx.Tx) error {
		held, _, err := lockCheckpoint(ctx, tx, s.name)
		if err == nil && held.epoch != s.epoch {
			err = errFenced
		}
		if err == nil {
			err = s.begin(ctx, tx, ddl)
		}
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "UPDATE carillon.checkpoints SET store = $2 WHERE name = $1", s.name, store)
		return err
	})
	if err != nil {
		return fmt.Errorf("begin from nothing: %w", err)
	}
	s.store = store
	return nil
}
