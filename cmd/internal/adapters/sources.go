package adapters

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/command/collect"
	"carillon/command/collection"
	"carillon/query"
)

// SourceSchedule is collection.Schedule on the read model of sources.
type SourceSchedule struct{ Queries *query.Queries }

var _ collection.Schedule = SourceSchedule{}

// Due implements collection.Schedule.
func (s SourceSchedule) Due(ctx context.Context, now time.Time, limit int) ([]collection.Due, error) {
	rows, err := s.Queries.DueSources(ctx, now, limit)
	if err != nil {
		return nil, err
	}
	due := make([]collection.Due, len(rows))
	for i, r := range rows {
		due[i] = collection.Due{
			Source: collect.Source{ID: r.ID, Type: r.Type, URL: r.URL, Handle: r.Handle, Timezone: r.Timezone},
			Cursor: r.Cursor, Collections: r.Collections, Collecting: r.Collecting,
		}
	}
	return due, nil
}

// Shown implements collection.Schedule.
func (s SourceSchedule) Shown(ctx context.Context, source uuid.UUID) (map[uuid.UUID]collection.Shown, error) {
	rows, err := s.Queries.ShownAt(ctx, source)
	if err != nil {
		return nil, err
	}
	shown := make(map[uuid.UUID]collection.Shown, len(rows))
	for _, r := range rows {
		shown[r.ID] = collection.Shown{Digest: r.Digest, Stale: r.Stale}
	}
	return shown, nil
}

// unlockPatience bounds an unlock, which is done even while the process stops.
const unlockPatience = time.Second

// SourceLocks is collection.Locks on advisory locks. All of a process's locks are held by one session outside the pool; when
// it breaks, they are gone, and the next lock is taken on a new one.
type SourceLocks struct {
	pool *pgxpool.Pool

	mu   sync.Mutex
	conn *pgx.Conn
	held map[uuid.UUID]struct{} // by this session: Postgres would grant them to it again
}

var _ collection.Locks = (*SourceLocks)(nil)

// NewSourceLocks connects at the first lock. Close gives the session back.
func NewSourceLocks(pool *pgxpool.Pool) *SourceLocks {
	return &SourceLocks{pool: pool, held: map[uuid.UUID]struct{}{}}
}

// TryLock implements collection.Locks.
func (l *SourceLocks) TryLock(ctx context.Context, source uuid.UUID) (unlock func(), locked bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, mine := l.held[source]; mine {
		return nil, false, nil
	}
	if err := l.connect(ctx); err != nil {
		return nil, false, err
	}
	if err := l.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", key(source)).Scan(&locked); err != nil {
		l.drop()
		return nil, false, fmt.Errorf("lock source: %w", err)
	}
	if !locked {
		return nil, false, nil
	}
	l.held[source] = struct{}{}
	session := l.conn
	return func() { l.unlock(context.WithoutCancel(ctx), session, source) }, true, nil
}

func (l *SourceLocks) connect(ctx context.Context) error {
	if l.conn != nil && !l.conn.IsClosed() {
		return nil
	}
	l.drop()
	config := l.pool.Config().ConnConfig.Copy()
	config.RuntimeParams["application_name"] = "carillon monitor"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect for locks: %w", err)
	}
	l.conn = conn
	return nil
}

func (l *SourceLocks) unlock(ctx context.Context, session *pgx.Conn, source uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if session != l.conn {
		return // it went with its session
	}
	delete(l.held, source)
	ctx, cancel := context.WithTimeout(ctx, unlockPatience)
	defer cancel()
	if _, err := l.conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", key(source)); err != nil {
		l.drop() // which unlocks it, too
	}
}

// drop ends the session and with it every lock.
func (l *SourceLocks) drop() {
	clear(l.held)
	if l.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), unlockPatience)
	defer cancel()
	_ = l.conn.Close(ctx)
	l.conn = nil
}

// Close ends the session.
func (l *SourceLocks) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
}

// key makes an advisory lock's number of a source's id. Two sources that share one would only wait for each other.
func key(source uuid.UUID) int64 { return int64(binary.BigEndian.Uint64(source[8:])) } //nolint:gosec // any 64 bits will do
