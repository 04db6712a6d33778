package projections

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore"
	"carillon/projections/analytics"
	"carillon/projections/sessionlock"
)

// errFenced means that another build or runner has taken over the checkpoint.
var errFenced = errors.New("fenced: another process or build has taken over the checkpoint")

// fenced is how Postgres says so, in carillon.move_checkpoint.
const fenced = "CF001"

const schemaPoll = 250 * time.Millisecond

// writer writes into a schema, on connections of the pool.
type writer struct {
	pool   *pgxpool.Pool
	schema string
}

// scoped begins each transaction of a writer. All settings end with the transaction, so that it makes no difference
// which connection, or which session behind a pooler, the next one gets.
//
// Rows and checkpoint are one transaction: a crash of Postgres loses both together, and the event store, which is
// synced, still has the events. So no commit waits for the disk.
//
// A transaction whose process was stopped in the middle of it is ended after 7 s, as the session of its locks is.
const scoped = `SELECT set_config('search_path', $1, true), set_config('synchronous_commit', 'off', true),
	set_config('idle_in_transaction_session_timeout', '7s', true)`

func (w *writer) path() string { return pgx.Identifier{w.schema}.Sanitize() + ", public" }

// inTransaction commits what do does, or nothing.
func (w *writer) inTransaction(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, scoped, w.path()); err != nil {
			return err
		}
		return do(tx)
	})
}

func (w *writer) exec(ctx context.Context, sql string) error {
	return w.inTransaction(ctx, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, sql)
		return err
	})
}

// session is a consumer's turn: it holds the lock of its name, and writes under an epoch that fences who had the lock
// before.
type session struct {
	writer
	checkpoint
	lock  *sessionlock.Lock
	locks *sessionlock.Locks
	name  string
}

// openSession waits until the lock of the name is free, takes it, fences earlier holders, and prepares the schema.
func (r *Runner) openSession(ctx context.Context, c consumer) (*session, error) {
	lock, err := r.Locks.Acquire(ctx, consumerLock(c.name))
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	s := &session{
		writer: writer{r.Pool, c.name},
		lock:   lock,
		locks:  r.Locks,
		name:   c.name,
	}
	if err := s.takeOver(ctx, c); err != nil {
		lock.Release()
		return nil, err
	}
	return s, nil
}

// takeOver moves the epoch, so that the previous holder of the lock writes nothing more. Its transaction in progress is
// waited for, and ended if it waits for its client.
func (s *session) takeOver(ctx context.Context, c consumer) error {
	const lockNotAvailable = "55P03"
	for {
		err := s.inTransaction(ctx, func(tx pgx.Tx) error { return s.prepare(ctx, tx, c) })
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != lockNotAvailable {
			return err
		}
		_, err = s.pool.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE relation = 'carillon.checkpoints'::regclass AND mode = 'RowExclusiveLock' AND granted
			AND wait_event_type = 'Client'
				AND greatest(query_start, state_change) < clock_timestamp() -
				make_interval(secs => $1)`, sessionlock.Late.Seconds())
		if err != nil {
			return fmt.Errorf("end a transaction that is late: %w", err)
		}
	}
}

// prepare moves the epoch, and makes missing tables. An event that stopped the consumer is tried again.
func (s *session) prepare(ctx context.Context, tx pgx.Tx, c consumer) error {
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '1s'"); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "UPDATE carillon.checkpoints SET epoch = epoch + 1, stopped = NULL WHERE name = $1",
		s.name); err != nil {
		return fmt.Errorf("take over the checkpoint: %w", err)
	}
	if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = 0"); err != nil {
		return err
	}
	return s.prepareSchema(ctx, tx, c)
}

// prepareSchema makes the consumer's tables. Those of another version stay if they are a read model's, see remake.
func (s *session) prepareSchema(ctx context.Context, tx pgx.Tx, c consumer) error {
	found, there, err := loadCheckpoint(ctx, tx, s.name)
	switch {
	case err != nil:
		return err
	case there && (c.model != nil || found.fingerprint == fingerprint(c.schema)):
		s.checkpoint = found
		return nil
	}
	return s.begin(ctx, tx, c.schema)
}

// begin makes the read model's tables again, empty, with a checkpoint at the start.
func (s *session) begin(ctx context.Context, tx pgx.Tx, ddl string) error {
	if err := analytics.Around(ctx, tx, s.schema, func() error {
		return createSchema(ctx, tx, s.schema, ddl)
	}); err != nil {
		return err
	}
	err := tx.QueryRow(ctx, `INSERT INTO carillon.checkpoints (name, fingerprint) VALUES ($1, $2)
		ON CONFLICT (name) DO UPDATE SET fingerprint = excluded.fingerprint, epoch = checkpoints.epoch + 1,
			commit = 0, prepare = 0, events = 0, updated_at = now(),
			store = '', last_stream = NULL, last_revision = NULL, last_event = NULL,
			outdated = NULL, incomplete = false, built = NULL, build_to = NULL
		RETURNING epoch`, s.name, fingerprint(ddl)).Scan(&s.epoch)
	if err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	s.checkpoint = checkpoint{fingerprint: fingerprint(ddl), epoch: s.epoch}
	return nil
}

// EnsureSchema makes the tables of a read model that has none yet, so that it can be read, empty, before its runner has
// begun. An existing one is not changed.
func EnsureSchema(ctx context.Context, pool *pgxpool.Pool, m ReadModel) error {
	name := m.Name
	for {
		there := false
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			err := tx.QueryRow(ctx, "SELECT EXISTS (SELECT FROM carillon.checkpoints WHERE name = $1)", name).Scan(&there)
			if err != nil || there {
				return err
			}
			var mine bool
			if err := tx.QueryRow(ctx, "SELECT pg_try_advisory_xact_lock($1)", lockKey(name)).Scan(&mine); err != nil || !mine {
				return err // a runner elsewhere is about to make it
			}
			s := &session{writer: writer{pool, name}, name: name}
			there = true
			return s.prepareSchema(ctx, tx, consumer{model: &m, schema: m.ddl()})
		})
		if err != nil {
			return fmt.Errorf("read model %s: %w", name, err)
		}
		if there {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(schemaPoll):
		}
	}
}

func createSchema(ctx context.Context, tx pgx.Tx, schema, ddl string) error {
	name := pgx.Identifier{schema}.Sanitize()
	if _, err := tx.Exec(ctx, "DROP SCHEMA IF EXISTS "+name+" CASCADE; CREATE SCHEMA "+name+"; SET LOCAL search_path TO "+
		name+", public;"+ddl); err != nil {
		return fmt.Errorf("create schema %s: %w", schema, err)
	}
	return nil
}

// commit runs write in a transaction that moves the checkpoint to a position. The checkpoint is moved first: a fenced
// session touches no row of the read model. last is the last event taken in, of that many since the last commit.
func (s *session) commit(
	ctx context.Context, to eventstore.Position, last anchor, events int, write func(pgx.Tx) error,
) error {
	err := s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		tx, err := s.pipeline(ctx, conn.Conn(), "SELECT carillon.move_checkpoint($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
			s.name, s.epoch,
			int64(s.position.Commit), int64(s.position.Prepare), //nolint:gosec // positions fit an int64
			int64(to.Commit), int64(to.Prepare), //nolint:gosec // as above
			events, last.stream, last.revision, last.event)
		if err == nil {
			err = write(tx)
		}
		if err == nil {
			err = tx.Commit(ctx)
		}
		if err != nil {
			return errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
		}
		if !tx.due.IsZero() {
			NotifyDue(s.locks, tx.due)
		}
		return nil
	})
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && refused.Code == fenced:
		return errFenced
	case err != nil:
		return err
	}
	s.position, s.anchor = to, last
	return nil
}

// read sends queries in one transaction, unless the session was fenced before.
func (s *session) read(ctx context.Context, queries *pgx.Batch) error {
	return s.inTransaction(ctx, func(tx pgx.Tx) error {
		var current bool
		err := tx.QueryRow(ctx, "SELECT epoch = $2 FROM carillon.checkpoints WHERE name = $1", s.name, s.epoch).Scan(&current)
		if err == nil && !current {
			err = errFenced
		}
		if err != nil {
			return err
		}
		return tx.SendBatch(ctx, queries).Close()
	})
}

// update sets columns of the checkpoint's row, unless the session was fenced. $1 and $2 are name and epoch.
func (s *session) update(ctx context.Context, set string, arguments ...any) error {
	tag, err := s.pool.Exec(ctx, "UPDATE carillon.checkpoints SET "+set+" WHERE name = $1 AND epoch = $2",
		append([]any{s.name, s.epoch}, arguments...)...)
	if err == nil && tag.RowsAffected() == 0 {
		err = errFenced
	}
	return err
}

// stop records for operators why the consumer stands still.
func (s *session) stop(ctx context.Context, reason error) error {
	if err := s.update(ctx, "stopped = $3", reason.Error()); err != nil {
		return fmt.Errorf("record stop: %w", err)
	}
	return nil
}

func position(commit, prepare int64) eventstore.Position {
	return eventstore.Position{Commit: uint64(commit), Prepare: uint64(prepare)} //nolint:gosec // stored from uint64
}

func fingerprint(ddl string) string {
	sum := sha256.Sum256([]byte(ddl))
	return hex.EncodeToString(sum[:8])
}

func lockKey(name string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte("carillon consumer " + name))
	return int64(h.Sum64()) //nolint:gosec // any 64 bits will do
}
