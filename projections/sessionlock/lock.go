package sessionlock

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// late is how long the holder of a lock may say nothing before who waits for the lock ends its session.
const late = 10 * time.Second

// Key names an advisory lock. Numbers and pairs never mean the same lock.
type Key struct {
	class, object uint32
	pair          bool
}

// Number is the lock of a 64-bit number.
func Number(n int64) Key { return Key{class: uint32(n >> 32), object: uint32(n)} } //nolint:gosec // two halves

// Pair is the lock of two 32-bit numbers.
func Pair(class, object int32) Key { return Key{uint32(class), uint32(object), true} } //nolint:gosec // all bits stay

// function calls one of Postgres' functions on the lock.
func (k Key) function(name string) (sql string, arguments []any) {
	if k.pair {
		return "SELECT " + name + "($1::int, $2::int)", []any{int32(k.class), int32(k.object)} //nolint:gosec // all bits stay
	}
	return "SELECT " + name + "($1::bigint)", []any{int64(k.class)<<32 | int64(k.object)}
}

// subid tells numbers from pairs in pg_locks.
func (k Key) subid() int {
	if k.pair {
		return 2
	}
	return 1
}

// TryLock takes a lock if no other session holds it. A session may take a lock twice.
func (s *Session) TryLock(ctx context.Context, key Key) (locked bool, err error) {
	sql, arguments := key.function("pg_try_advisory_lock")
	err = s.Do(func(conn *pgx.Conn) error { return conn.QueryRow(ctx, sql, arguments...).Scan(&locked) })
	if err != nil {
		return false, fmt.Errorf("lock: %w", err)
	}
	return locked, nil
}

// Lock waits until the lock is free, and takes it.
func (s *Session) Lock(ctx context.Context, key Key) error {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	looked := time.Now()
	for {
		if locked, err := s.TryLock(ctx, key); err != nil || locked {
			return err
		}
		if time.Since(looked) > time.Second {
			if err := s.endLate(ctx, key); err != nil {
				return err
			}
			looked = time.Now()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// endLate ends the session that holds a lock where it has said nothing for too long. A statement that takes its time is
// not nothing, unless it has come to waiting for its client.
func (s *Session) endLate(ctx context.Context, key Key) error {
	err := s.Do(func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `
			SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_stat_activity USING (pid)
			WHERE locktype = 'advisory' AND classid::bigint = $1 AND objid::bigint = $2 AND objsubid = $3 AND granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
				AND (state LIKE 'idle%' OR wait_event_type = 'Client')
				AND greatest(backend_start, query_start, state_change) < clock_timestamp() - make_interval(secs => $4)`,
			int64(key.class), int64(key.object), key.subid(), late.Seconds())
		return err
	})
	if err != nil {
		return fmt.Errorf("end the session of a holder that is late: %w", err)
	}
	return nil
}

// Unlock gives a lock back. Where that fails the session is lost, and the lock with it.
func (s *Session) Unlock(ctx context.Context, key Key) {
	sql, arguments := key.function("pg_advisory_unlock")
	err := s.Do(func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, sql, arguments...)
		return err
	})
	if err != nil {
		s.Close()
	}
}

// Holders says which process holds each lock, by the name that Process gave it there; "" where a session holds it that
// is not of this package. A lock that nobody holds is not among them.
func Holders(ctx context.Context, pool *pgxpool.Pool) (map[Key]string, error) {
	rows, err := pool.Query(ctx, `
		SELECT classid::bigint, objid::bigint, objsubid = 2, coalesce(application_name, '')
		FROM pg_locks LEFT JOIN pg_stat_activity USING (pid)
		WHERE locktype = 'advisory' AND granted
			AND pg_locks.database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
	if err != nil {
		return nil, fmt.Errorf("holders of locks: %w", err)
	}
	holders := map[Key]string{}
	var (
		class, object int64
		pair          bool
		application   string
	)
	_, err = pgx.ForEachRow(rows, []any{&class, &object, &pair, &application}, func() error {
		_, process, _ := strings.Cut(application, on)
		holders[Key{uint32(class), uint32(object), pair}] = process //nolint:gosec // they were oids
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("holders of locks: %w", err)
	}
	return holders, nil
}
