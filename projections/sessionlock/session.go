package sessionlock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"carillon/eventstore/panics"
)

const (
	beat      = time.Second            // between two signs of life
	limit     = 7 * time.Second        // Postgres ends a session that has said nothing for so long
	patience  = 5 * time.Second        // with Postgres, for an answer
	poll      = 250 * time.Millisecond // between two attempts at locks that other processes hold
	reconnect = 250 * time.Millisecond // before a session that was lost is opened again
	closing   = time.Second            // for the end of a session, which no caller waits for

	part = "session of locks" // as panics name it
)

// ErrPooled means that the address leads through a pooler, where each transaction has another session.
var ErrPooled = errors.New("locks need a session of their own, and this address leads through a pooler that has none")

// session is one connection. Only the goroutine of Locks.run uses it.
type session struct {
	conn      *pgx.Conn
	backend   backend
	listening map[string]bool
	senders   map[uint32]sender // sessions that notified, by process id
	beaten    time.Time         // the last heartbeat
	tried     time.Time         // the last attempt at the locks that are waited for
	looked    time.Time         // the last look at whether their holders are late
	notified  time.Time         // the last notification
	proven    time.Time         // when Postgres was asked what it last answered; guarded by the mutex of Locks
}

// backend names a session of Postgres.
type backend struct {
	pid     int32
	started *time.Time // nil if the role may not see it
}

// run keeps a session open until the context ends.
func (l *Locks) run(ctx context.Context, s *session) {
	var last backend
	logged := false
	for {
		err := panics.Catch(part, func() (err error) {
			if s == nil {
				if s, err = l.connect(ctx, last); err != nil {
					return err
				}
			}
			last, logged = s.backend, false
			return l.use(ctx, s)
		})
		if lost := s; lost != nil {
			s = nil
			_ = panics.Catch(part, func() error { lost.close(); return nil })
		}
		_ = panics.Catch(part, func() error { l.lose(fmt.Errorf("%w: %w", ErrLost, err), false); return nil })
		if ctx.Err() != nil {
			return
		}
		if !logged {
			l.log.Warn("no Postgres session for locks, opening another", "error", err)
		}
		logged = true
		select {
		case <-ctx.Done():
			return
		case <-time.After(reconnect):
		}
	}
}

// connect opens a session. An earlier one of this process, which Postgres may not know to be over, is ended.
func (l *Locks) connect(ctx context.Context, earlier backend) (*session, error) {
	config := l.config.Copy()
	milliseconds := strconv.FormatInt(limit.Milliseconds(), 10)
	for _, setting := range []string{"idle_session_timeout", "idle_in_transaction_session_timeout", "tcp_user_timeout"} {
		config.RuntimeParams[setting] = milliseconds
	}
	config.RuntimeParams["application_name"] = applicationName
	config.DefaultQueryExecMode = pgx.QueryExecModeExec // a few short statements, once a second
	conn, err := pgx.ConnectConfig(ctx, config)
	const protocolViolation = "08P01" // how pgbouncer refuses a setting
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == protocolViolation {
		return nil, fmt.Errorf("%w: %w", ErrPooled, err)
	}
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	s := &session{conn: conn, listening: map[string]bool{}, senders: map[uint32]sender{}}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var idle string
	err = conn.QueryRow(ctx, `SELECT pid, backend_start, current_setting('idle_session_timeout') FROM pg_stat_activity
		WHERE pid = pg_backend_pid()`).Scan(&s.backend.pid, &s.backend.started, &idle)
	if err == nil && idle != limit.String() {
		err = ErrPooled // the pooler drops unknown settings
	}
	if err == nil && earlier.started != nil {
		_, err = conn.Exec(ctx, "SELECT pg_terminate_backend(pid, 1000) FROM pg_stat_activity WHERE pid = $1 "+
			"AND backend_start = $2",
			earlier.pid, *earlier.started)
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("open the session: %w", err)
	}
	return s, nil
}

func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closing)
	defer cancel()
	_ = s.conn.Close(ctx)
}

// use serves who waits for locks and notifications until the session is lost.
func (l *Locks) use(ctx context.Context, s *session) error {
	for {
		waits, err := l.step(ctx, s)
		if err == nil {
			err = l.wait(ctx, s, waits)
		}
		if err != nil {
			return err
		}
	}
}

// wait hears notifications until something is to be done.
func (l *Locks) wait(ctx context.Context, s *session, waits bool) error {
	now := time.Now()
	until := s.beaten.Add(beat)
	if next := s.tried.Add(poll); waits && next.Before(until) {
		until = next
	}
	l.mu.Lock()
	if next := s.notified.Add(together); len(l.pending) > 0 && next.Before(until) {
		until = next
	}
	waiting, cancel := context.WithDeadline(ctx, until)
	defer cancel()
	if l.woken || !now.Before(until) {
		l.woken = false
		l.mu.Unlock()
		return nil
	}
	l.interrupt = cancel
	l.mu.Unlock()
	notification, err := s.conn.WaitForNotification(waiting)
	l.mu.Lock()
	l.interrupt, l.woken = nil, false
	heard := func(string) {}
	if err == nil && l.channels[notification.Channel] != nil {
		heard = l.channels[notification.Channel]
	}
	l.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		ours, err := s.trusts(ctx, notification.PID, time.Now())
		if ours {
			heard(notification.Payload)
		}
		return err
	case waiting.Err() == nil || s.conn.IsClosed():
		return err
	}
	return nil
}

// step unlocks released locks, tries those that are waited for, and shows that the process is alive. It reports whether
// a caller waits for a lock.
func (l *Locks) step(ctx context.Context, s *session) (waits bool, err error) {
	now := time.Now()
	e := l.due(s, now)
	if e.any() || now.Sub(s.beaten) >= beat {
		if err := l.ask(ctx, s, e); err != nil {
			return false, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) > 0, nil
}

// errands are what is to be done on the session.
type errands struct {
	released []*Lock
	wanted   []int64  // locks that are waited for
	channels []string // to listen to
	pending  []notification
}

func (e *errands) any() bool { return len(e.released)+len(e.wanted)+len(e.channels)+len(e.pending) > 0 }

// due lists what is to be done. All locks that a caller waits for are tried when one of them is new, and every 250 ms.
func (l *Locks) due(s *session, now time.Time) (e errands) {
	l.mu.Lock()
	defer l.mu.Unlock()
	again := now.Sub(s.tried) >= poll
	e.released, l.released = l.released, nil
	if now.Sub(s.notified) >= together {
		e.pending, l.pending = l.pending, nil
	}
	for channel := range l.channels {
		if !s.listening[channel] {
			e.channels = append(e.channels, channel)
		}
	}
	for _, waiters := range l.waiting {
		for _, w := range waiters {
			again = again || !w.tried
			w.tried = true
		}
	}
	if !again {
		return e
	}
	s.tried = now
	for key := range l.waiting {
		if l.held[key] == nil {
			e.wanted = append(e.wanted, int64(key))
			continue
		}
		l.refuse(key)
	}
	return e
}

// refuse answers the waiters with one attempt that the lock is held. The mutex is held.
func (l *Locks) refuse(key Key) {
	l.fail(key, ErrHeld, func(w *waiter) bool { return w.once && w.tried })
}

// ask does what is due, in one round trip.
func (l *Locks) ask(ctx context.Context, s *session, e errands) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	done := false
	defer func() {
		if !done {
			l.notDone(e)
		}
	}()
	var batch pgx.Batch
	for _, channel := range e.channels {
		batch.Queue("LISTEN " + pgx.Identifier{channel}.Sanitize())
	}
	keys := make([]int64, len(e.released))
	for i, lock := range e.released {
		keys[i] = int64(lock.key)
	}
	if len(keys) > 0 {
		batch.Queue("SELECT pg_advisory_unlock(key) FROM unnest($1::bigint[]) key", keys)
	}
	var got []int64
	if len(e.wanted) > 0 {
		batch.Queue("SELECT key FROM unnest($1::bigint[]) key WHERE pg_try_advisory_lock(key)", e.wanted).
			Query(func(rows pgx.Rows) (err error) {
				got, err = pgx.CollectRows(rows, pgx.RowTo[int64])
				return err
			})
	}
	for _, n := range e.pending {
		batch.Queue("SELECT pg_notify($1, $2)", n.channel, n.payload)
	}
	var there time.Time
	batch.Queue("SELECT clock_timestamp()").QueryRow(func(row pgx.Row) error { return row.Scan(&there) })
	asked := time.Now()
	if err := s.conn.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("ask on the session of the locks: %w", err)
	}
	done = true
	s.beaten = asked
	if len(e.pending) > 0 {
		s.notified = asked
	}
	l.answered(s, asked, there.Add(-time.Since(asked)/2))
	l.listens(s, e.channels)
	for _, lock := range e.released {
		close(lock.unlocked)
	}
	l.grant(s, e.wanted, got)
	if len(e.wanted) > len(got) && asked.Sub(s.looked) >= beat {
		s.looked = asked
		return endLate(ctx, s.conn, e.wanted)
	}
	return nil
}

func (l *Locks) notDone(e errands) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = append(l.released, e.released...) // lose notifies their waiters
	l.pending = append(e.pending, l.pending...)
}

func (l *Locks) answered(s *session, asked, there time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.proven, l.asked, l.there = asked, asked, there
}

// grant hands the locks that were taken to those who wait for them, and refuses those with one attempt that was in
// vain.
func (l *Locks) grant(s *session, wanted, got []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range got {
		key := Key(n)
		lock := &Lock{
			locks:    l,
			key:      key,
			session:  s,
			lost:     make(chan struct{}),
			unlocked: make(chan struct{}),
		}
		waiters := l.waiting[key]
		if len(waiters) == 0 { // it has gone away
			lock.end(ErrLost)
			l.released = append(l.released, lock)
			l.wake()
			continue
		}
		w := waiters[0]
		l.forget(key, w.is)
		l.held[key] = lock
		w.granted = lock
		close(w.done)
	}
	for _, n := range wanted {
		l.refuse(Key(n))
	}
}
