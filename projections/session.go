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

// errFenced: the checkpoint is not where this session left it; another build or runner has taken over.
var errFenced = errors.New("fenced: the checkpoint was moved by somebody else")

// fenced is how Postgres says so, in carillon.move_checkpoint.
const fenced = "CF001"

const schemaPoll = 250 * time.Millisecond

// session is one Postgres session that holds a consumer's lock and does all its writing. Losing it loses the lock and
// the ability to write at the same instant.
type session struct {
	*sessionlock.Session
	checkpoint
	name   string
	schema string
}

// openSession waits until the lock of the name is free, takes it, and prepares the schema.
func openSession(ctx context.Context, pool *pgxpool.Pool, name, ddl string) (*session, error) {
	s, err := connect(ctx, pool, name, name)
	if err != nil {
		return nil, err
	}
	err = s.Lock(ctx, consumerLock(name))
	if err == nil {
		err = s.inTransaction(ctx, func(tx pgx.Tx) error { return s.prepare(ctx, tx, ddl) })
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// connect opens a session whose search path begins with a schema.
func connect(ctx context.Context, pool *pgxpool.Pool, name, schema string) (*session, error) {
	held, err := sessionlock.Open(ctx, pool, schema, map[string]string{
		"search_path": pgx.Identifier{schema}.Sanitize() + ", public",
		// Rows and checkpoint are one transaction: what a crash of Postgres loses of them it loses together, and the
		// event store, which is synced, tells it again. So nobody waits for the disk here.
		"synchronous_commit": "off",
	})
	if err != nil {
		return nil, err
	}
	return &session{Session: held, name: name, schema: schema}, nil
}

// inTransaction commits what do does, or nothing.
func (s *session) inTransaction(ctx context.Context, do func(pgx.Tx) error) error {
	return s.Do(func(conn *pgx.Conn) error { return pgx.BeginFunc(ctx, conn, do) })
}

// prepare makes the tables that are missing; whatever stopped the consumer is tried again.
func (s *session) prepare(ctx context.Context, tx pgx.Tx, ddl string) error {
	if err := s.prepareSchema(ctx, tx, ddl); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "UPDATE carillon.checkpoints SET stopped = NULL WHERE name = $1", s.name); err != nil {
		return fmt.Errorf("prepare: %w", err)
	}
	return nil
}

// prepareSchema makes the read model's tables, anew where the code's DDL is not the one they were made with.
func (s *session) prepareSchema(ctx context.Context, tx pgx.Tx, ddl string) error {
	found, there, err := loadCheckpoint(ctx, tx, s.name)
	switch {
	case err != nil:
		return err
	case there && found.fingerprint == fingerprint(ddl):
		s.checkpoint = found
		return nil
	}
	return s.begin(ctx, tx, ddl)
}

// begin makes the read model's tables anew, empty, with a checkpoint at the start.
func (s *session) begin(ctx context.Context, tx pgx.Tx, ddl string) error {
	if err := analytics.Around(ctx, tx, s.schema, func() error { return createSchema(ctx, tx, s.schema, ddl) }); err != nil {
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
// begun. One that is there stays as it is.
func EnsureSchema(ctx context.Context, pool *pgxpool.Pool, m ReadModel) error {
	name, ddl := m.Name, m.ddl()
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
			s := &session{name: name, schema: name}
			there = true
			return s.prepareSchema(ctx, tx, ddl)
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
	if _, err := tx.Exec(ctx, "DROP SCHEMA IF EXISTS "+name+" CASCADE; CREATE SCHEMA "+name+"; SET LOCAL search_path TO "+name+", public;"+ddl); err != nil {
		return fmt.Errorf("create schema %s: %w", schema, err)
	}
	return nil
}

// commit runs write in a transaction that moves the checkpoint to a position. The checkpoint is moved first: whoever
// was fenced touches no row of the read model. last is the last event taken in, of that many since the last commit.
func (s *session) commit(ctx context.Context, to eventstore.Position, last anchor, events int, write func(pgx.Tx) error) error {
	err := s.Do(func(conn *pgx.Conn) error {
		tx := pipeline(conn, "SELECT carillon.move_checkpoint($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
			s.name, s.epoch, int64(s.position.Commit), int64(s.position.Prepare), int64(to.Commit), int64(to.Prepare), //nolint:gosec // positions fit an int64
			events, last.stream, last.revision, last.event)
		err := write(tx)
		if err == nil {
			err = tx.Commit(ctx)
		} else if first := tx.flush(ctx); first != nil {
			err = first // what a runner comes to that was fenced is of no interest
		}
		if err != nil {
			err = errors.Join(err, tx.Rollback(context.WithoutCancel(ctx)))
		}
		return err
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

// stop records for operators why the consumer stands still.
func (s *session) stop(ctx context.Context, reason error) error {
	if err := s.exec(ctx, "UPDATE carillon.checkpoints SET stopped = $2 WHERE name = $1", s.name, reason.Error()); err != nil {
		return fmt.Errorf("record stop: %w", err)
	}
	return nil
}

func (s *session) exec(ctx context.Context, sql string, arguments ...any) error {
	return s.Do(func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql, arguments...)
		return err
	})
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
