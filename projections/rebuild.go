package projections

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"carillon/eventstore"
	"carillon/projections/analytics"
	"carillon/projections/sessionlock"
)

// ErrRebuilding: this read model is being rebuilt or verified already, here or on another node.
var ErrRebuilding = errors.New("read model is being rebuilt or verified already")

// holdAtMost is for how long a transaction that others wait for catches up.
const holdAtMost = 5 * time.Second // shorter than Postgres bears with a quiet transaction

// mayRetry reports whether a swap failed by what passes.
func mayRetry(err error) bool {
	return errors.Is(err, errHeldTooLong) || errors.Is(err, analytics.ErrInUse)
}

var errHeldTooLong = errors.New("the event store did not say in time what is new")

// Rebuild builds a read model beside the one that serves, and then takes its place in one transaction: readers see the
// old one, then the new one, never nothing. report is optional and gets the progress: the position, and the head of the
// store when it began. A *LeftOutError means that the new one serves, and names the missing data.
func (r *Runner) Rebuild(ctx context.Context, m ReadModel, report func(at, head eventstore.Position)) error {
	return r.rebuild(ctx, m, nil, report)
}

// rebuild is Rebuild, for the session of the runner of the old one if that asks for it: then it fails when that was
// fenced, and moves its epoch along.
func (r *Runner) rebuild(
	ctx context.Context, m ReadModel, by *session, report func(at, head eventstore.Position),
) error {
	ctx, release, err := r.lockRebuild(ctx, m.Name)
	if err != nil {
		return fmt.Errorf("rebuild %s: %w", m.Name, err)
	}
	defer release()
	b, err := r.beginRebuild(ctx, m)
	if err != nil {
		return fmt.Errorf("rebuild %s: %w", m.Name, err)
	}
	b.by = by
	if r.Identity != nil {
		if b.identity, err = r.Identity(ctx); err != nil {
			return fmt.Errorf("rebuild %s: identify the event store: %w", m.Name, err)
		}
	}
	head, err := r.Store.Head(ctx)
	if err != nil {
		return fmt.Errorf("rebuild %s: %w", m.Name, err)
	}
	progress := newBuildProgress(r.Pool, m.Name, head)
	defer progress.end(ctx)
	b.report = func(at eventstore.Position) {
		progress.at(ctx, at)
		if report != nil {
			report(at, head)
		}
	}
	b.report(eventstore.Start)
	if err = b.fill(ctx); err == nil {
		err = b.complete(ctx)
	}
	if err != nil {
		return fmt.Errorf("rebuild %s: %w", m.Name, err)
	}
	if err := b.dropOld(ctx); err != nil { // left by a crash
		return fmt.Errorf("rebuild %s: %w", m.Name, err)
	}
	b.report = func(eventstore.Position) {} // the checkpoint's row is held from here on
	if err := b.inTime(ctx, b.takeOver); err != nil {
		return fmt.Errorf("rebuild %s: %w", m.Name, err)
	}
	if err := b.dropOld(ctx); err != nil {
		b.log.Warn("the tables of the old read model stay until the next rebuild", "error", err)
	}
	if report != nil {
		report(head, head)
	}
	if b.leftOut != nil {
		b.log.Warn("rebuilt without what no event says, which could not be carried over", "error", b.leftOut)
		return fmt.Errorf("rebuild %s: %w", m.Name, &LeftOutError{b.leftOut})
	}
	return nil
}

// lockRebuild takes the lock of a read model's rebuilds. The returned context ends when it is lost.
func (r *Runner) lockRebuild(ctx context.Context, name string) (_ context.Context, release func(), err error) {
	lock, err := r.Locks.TryAcquire(ctx, sessionlock.Key(lockKey("rebuild of "+name)))
	switch {
	case errors.Is(err, sessionlock.ErrHeld):
		return nil, nil, ErrRebuilding
	case err != nil:
		return nil, nil, err
	}
	ctx, cancel := lock.While(ctx)
	return ctx, func() {
		cancel()
		lock.Release()
	}, nil
}

// rebuild is one read model on its way.
type rebuild struct {
	identity string // of the store
	model    ReadModel
	store    eventstore.Store
	log      *slog.Logger
	by       *session // of the runner of the old one. Optional.
	shadow   writer   // into a schema beside the one that serves
	position eventstore.Position
	to       eventstore.Position // the limit of what is read. Optional.
	anchor   anchor
	events   int
	report   func(eventstore.Position)
	leftOut  error    // why nothing was carried over; nil means it was
	later    []string // statements that make the indexes of model.DeferredIndexes
}

// inTime does what holds others up, until it is done in time. Between two tries, of which the first is rolled back,
// others have as much time as it took, and the shadow catches up without.
func (b *rebuild) inTime(ctx context.Context, do func(context.Context) error) error {
	for {
		was, last, events, began := b.position, b.anchor, b.events, time.Now()
		err := do(ctx)
		if !mayRetry(err) || ctx.Err() != nil {
			return err
		}
		b.position, b.anchor, b.events = was, last, events
		b.log.Info("not done in time, trying again", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Since(began)):
		}
		if err := b.fill(ctx); err != nil {
			return err
		}
	}
}

// old is the schema of the read model that was replaced.
func (b *rebuild) old() string { return pgx.Identifier{b.model.Name + "__old"}.Sanitize() }

// dropOld drops the schema of the read model that was replaced. A transaction that reads it still may need more of its
// tables: waiting for it with some of them locked would be a deadlock, so that the wait is short, and tried again.
func (b *rebuild) dropOld(ctx context.Context) error {
	const lockNotAvailable = "55P03"
	for {
		err := b.shadow.exec(ctx, "SET LOCAL lock_timeout = '100ms'; DROP SCHEMA IF EXISTS "+b.old()+" CASCADE")
		if err == nil {
			return nil
		}
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != lockNotAvailable {
			return fmt.Errorf("drop the old read model: %w", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("drop the old read model: %w", ctx.Err())
		case <-time.After(lagPoll):
		}
	}
}

// beginRebuild makes a schema whose name no other rebuild has: a replaced one writes into its own schema, which is
// gone.
func (r *Runner) beginRebuild(ctx context.Context, m ReadModel) (*rebuild, error) {
	b := &rebuild{
		model:  m,
		store:  r.Store,
		log:    r.Log.With("consumer", "rebuild of "+m.Name),
		shadow: writer{r.Pool, m.Name + shadowInfix + uuid.NewString()[:8]},
	}
	if err := b.dropUnfinished(ctx); err != nil {
		return nil, err
	}
	if err := b.shadow.inTransaction(ctx, func(tx pgx.Tx) error { return b.prepare(ctx, tx) }); err != nil {
		return nil, err
	}
	return b, nil
}

const shadowInfix = "__rebuild_"

// dropUnfinished drops what earlier rebuilds of the read model have left.
func (b *rebuild) dropUnfinished(ctx context.Context) error {
	rows, err := b.shadow.pool.Query(ctx, "SELECT nspname::text FROM pg_namespace WHERE starts_with(nspname::text, $1)",
		b.model.Name+"__rebuild")
	if err != nil {
		return fmt.Errorf("unfinished rebuilds: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("unfinished rebuilds: %w", err)
	}
	for _, name := range names {
		if err := b.shadow.exec(ctx, "DROP SCHEMA IF EXISTS "+pgx.Identifier{name}.Sanitize()+" CASCADE"); err != nil {
			return fmt.Errorf("drop an unfinished rebuild: %w", err)
		}
	}
	return nil
}

// prepare makes the tables, without the indexes that come later.
func (b *rebuild) prepare(ctx context.Context, tx pgx.Tx) error {
	if err := createSchema(ctx, tx, b.shadow.schema, b.model.ddl()); err != nil {
		return err
	}
	for _, index := range b.model.DeferredIndexes {
		var makes string
		name := pgx.Identifier{b.shadow.schema, index}.Sanitize()
		if err := tx.QueryRow(ctx, "SELECT pg_get_indexdef($1::regclass)", name).Scan(&makes); err != nil {
			return fmt.Errorf("index %s: %w", index, err)
		}
		if _, err := tx.Exec(ctx, "DROP INDEX "+name); err != nil {
			return fmt.Errorf("index %s: %w", index, err)
		}
		b.later = append(b.later, makes)
	}
	return nil
}

// complete makes the indexes and the statistics, which is faster for all rows at once.
func (b *rebuild) complete(ctx context.Context) error {
	for _, makes := range b.later {
		if err := b.shadow.exec(ctx, makes); err != nil {
			return fmt.Errorf("%s: %w", makes, err)
		}
	}
	return b.analyze(ctx)
}

// analyze makes Postgres's statistics.
func (b *rebuild) analyze(ctx context.Context) error {
	// Without it, statements are planned as for empty tables until autovacuum comes by.
	const analyze = `DO $$ DECLARE t regclass; BEGIN
		PERFORM set_config('default_statistics_target', '10', true); -- it looks at a tenth of the rows that it would, ` +
		`which does
		FOR t IN SELECT oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' LOOP
			EXECUTE format('ANALYZE %s', t);
		END LOOP; END $$`
	if err := b.shadow.exec(ctx, analyze); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	return nil
}

// fill folds the log up to the head into the shadow.
func (b *rebuild) fill(ctx context.Context) error {
	return b.catchUp(ctx, func(next stretch) error {
		return b.shadow.inTransaction(ctx, func(tx pgx.Tx) error { return next.project(ctx, tx) })
	})
}

// catchUp reads from the shadow's position to the head, or to the limit.
func (b *rebuild) catchUp(ctx context.Context, apply func(stretch) error) error {
	return catchUp(ctx, b.store, span{b.position, b.to}, b.model, b.log, func(next stretch) error {
		if err := apply(next); err != nil {
			return err
		}
		b.events += len(next.events)
		b.position, b.anchor = next.end(), b.anchor.after(next.events)
		b.report(b.position)
		return nil
	})
}

// takeOver holds the runner of the old read model at its checkpoint, applies what is still missing, and swaps. The
// runner then finds another epoch and begins again on the new one.
func (b *rebuild) takeOver(ctx context.Context) error {
	err := b.shadow.inTransaction(ctx, func(tx pgx.Tx) error { return b.swap(ctx, tx) })
	if err == nil && b.by != nil {
		b.by.epoch++
	}
	return err
}

func (b *rebuild) swap(ctx context.Context, tx pgx.Tx) error {
	name := b.model.Name
	if _, err := tx.Exec(ctx, "SET LOCAL synchronous_commit = on"); err != nil {
		return err
	}
	held, there, err := lockCheckpoint(ctx, tx, name)
	if err == nil && !there {
		err = errors.New("no position is stored")
	}
	if err == nil && b.by != nil && held.epoch != b.by.epoch {
		err = errFenced
	}
	if err != nil {
		return fmt.Errorf("hold the checkpoint: %w", err)
	}
	if err := b.reach(ctx, tx, held); err != nil {
		return err
	}
	at := b.position
	if at.Before(held.position) {
		at = held.position // between the two no event concerns it: the last one that does is the same
	}
	live, shadow := pgx.Identifier{name}.Sanitize(), pgx.Identifier{b.shadow.schema}.Sanitize()
	if b.model.CarryOver != nil && held.outdated == "" {
		if err := b.carry(ctx, tx, live); err != nil {
			return fmt.Errorf("carry over: %w", err)
		}
	}
	// Renamed and dropped later: current readers of the old tables read on. If readers had to wait for the new ones here,
	// their snapshots would be older than this transaction's rows.
	if err := analytics.Around(ctx, tx, name, func() error {
		// The old one may have been dropped.
		_, err := tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+live+"; ALTER SCHEMA "+live+" RENAME TO "+b.old()+
			"; ALTER SCHEMA "+shadow+" RENAME TO "+live)
		return err
	}); err != nil {
		return fmt.Errorf("swap: %w", err)
	}
	_, err = tx.Exec(ctx, `UPDATE carillon.checkpoints SET fingerprint = $2, epoch = epoch + 1, commit = $3, prepare = $4,
		events = $5, updated_at = now(), stopped = NULL, last_stream = nullif($6, ''), last_revision = $7, last_event = $8,
		outdated = NULL, incomplete = false, built = NULL, build_to = NULL, store = $9
		WHERE name = $1`, name, fingerprint(b.model.ddl()),
		int64(at.Commit), int64(at.Prepare), b.events, //nolint:gosec // positions fit an int64
		b.anchor.stream, b.anchor.revision, b.anchor.event, b.identity)
	if err != nil {
		return fmt.Errorf("move checkpoint: %w", err)
	}
	if _, err = tx.Exec(ctx, "DELETE FROM carillon.verifications WHERE name = $1", name); err != nil {
		return fmt.Errorf("forget the verification of the old one: %w", err)
	}
	// Last, as readers wait for it: Around may wait for analysts.
	if _, err = tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", swapKey(name)); err != nil {
		return fmt.Errorf("lock the swap: %w", err)
	}
	return nil
}

// carry copies the data that no event has. Unreadable data is left out.
func (b *rebuild) carry(ctx context.Context, tx pgx.Tx, live string) error {
	err := pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error { return b.model.CarryOver(ctx, tx, live) }) // a savepoint
	b.leftOut = nil
	if damaged(err) {
		b.leftOut, err = err, nil
	}
	return err
}

// lagPoll is between two looks at a node of the store that does not have yet what the runner has read from another.
const lagPoll = 50 * time.Millisecond

// reach applies, in a transaction that others wait for, what the read model that serves has in addition.
func (b *rebuild) reach(ctx context.Context, tx pgx.Tx, held checkpoint) error {
	holding, release := context.WithTimeout(ctx, holdAtMost)
	defer release()
	gone := held.anchor.stream == "" // the log has no event to wait for
	for {
		err := b.catchUp(holding, func(next stretch) error { return next.project(ctx, tx) })
		switch {
		case err == nil && (gone || !b.position.Before(held.position) || b.anchor == held.anchor):
			return nil
		case holding.Err() != nil && ctx.Err() == nil:
			return errHeldTooLong
		case err != nil:
			return err
		}
		select {
		case <-holding.Done(): // the next look fails
		case <-time.After(lagPoll):
			_, _, gone, _ = held.anchor.find(holding, b.store)
		}
	}
}
