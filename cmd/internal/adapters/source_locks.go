package adapters

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/command/collection"
	"carillon/projections/sessionlock"
)

// unlockPatience bounds an unlock, which is done even while the process stops.
const unlockPatience = time.Second

// SourceLocks is collection.Locks on advisory locks. All of a process's locks are held by one session; when it breaks,
// they are gone, and the next lock is taken on a new one.
type SourceLocks struct {
	pool *pgxpool.Pool

	mu      sync.Mutex
	session *sessionlock.Session
	held    map[uuid.UUID]struct{} // by this session: Postgres would grant them to it again
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
	if err := l.connect(ctx); err != nil {
		return nil, false, err
	}
	if _, mine := l.held[source]; mine {
		return nil, false, nil
	}
	if locked, err = l.session.TryLock(ctx, key(source)); err != nil || !locked {
		return nil, false, err
	}
	l.held[source] = struct{}{}
	session := l.session
	return func() { l.unlock(context.WithoutCancel(ctx), session, source) }, true, nil
}

func (l *SourceLocks) connect(ctx context.Context) (err error) {
	if l.session != nil && l.session.Err() == nil {
		return nil
	}
	clear(l.held)
	l.session, err = sessionlock.Open(ctx, l.pool, "monitor", nil)
	return err
}

func (l *SourceLocks) unlock(ctx context.Context, session *sessionlock.Session, source uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if session != l.session {
		return // it went with its session
	}
	delete(l.held, source)
	ctx, cancel := context.WithTimeout(ctx, unlockPatience)
	defer cancel()
	session.Unlock(ctx, key(source))
}

// Close ends the session.
func (l *SourceLocks) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.session != nil {
		l.session.Close()
	}
}

// key makes an advisory lock of a source's id. Two sources that share one would only wait for each other.
func key(source uuid.UUID) sessionlock.Key {
	return sessionlock.Number(int64(binary.BigEndian.Uint64(source[8:]))) //nolint:gosec // any 64 bits will do
}
