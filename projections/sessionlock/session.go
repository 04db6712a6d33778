// Package sessionlock holds Postgres advisory locks on sessions that show that they are alive.
//
// A lock of a session is gone when the session is. Postgres itself ends one that says nothing for 7 s, in a transaction
// or outside of one, so that the holder's process may be stopped, or lose its power, or its network: a session that is
// in use is never that quiet, because it says something every 2 s. Whoever waits for a lock also ends the session of a
// holder that is 10 s late, which is for what the limits of Postgres don't catch, such as an answer that nobody takes.
// A holder that comes back finds its session gone. What it wrote meanwhile it wrote on that session, so not at all.
package sessionlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	beat     = 2 * time.Second        // between two signs of life
	limit    = 7 * time.Second        // Postgres ends a session that has said nothing for so long
	patience = 5 * time.Second        // with Postgres, for the answer to a sign of life
	poll     = 250 * time.Millisecond // between two attempts at a lock that another session holds
	closing  = time.Second            // for the end of a session, which nobody waits for
)

// ErrLost: the session is over, and with it every lock that it held.
var ErrLost = errors.New("the Postgres session is lost")

// Session is a connection outside the pool that holds locks, and does what must not be done without them.
type Session struct {
	alone sync.Mutex // the connection is one statement's at a time
	conn  *pgx.Conn
	used  time.Time // when the last statement ended

	once  sync.Once
	lost  chan struct{}
	cause error // why it was lost; read after lost is closed
	stop  context.CancelFunc
}

// Open connects as the pool does. name says what the session is for; Postgres lists it under that name and the
// process's. settings are settings of the session, such as search_path.
func Open(ctx context.Context, pool *pgxpool.Pool, name string, settings map[string]string) (*Session, error) {
	config := pool.Config().ConnConfig.Copy()
	for setting, value := range settings {
		config.RuntimeParams[setting] = value
	}
	milliseconds := strconv.FormatInt(limit.Milliseconds(), 10)
	for _, setting := range []string{"idle_session_timeout", "idle_in_transaction_session_timeout", "tcp_user_timeout"} {
		config.RuntimeParams[setting] = milliseconds
	}
	config.RuntimeParams["application_name"] = applicationName(name)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	beating, stop := context.WithCancel(context.WithoutCancel(ctx))
	s := &Session{conn: conn, used: time.Now(), lost: make(chan struct{}), stop: stop}
	go s.beat(beating)
	return s, nil
}

// Do lends the connection. Nothing else uses it meanwhile.
func (s *Session) Do(use func(*pgx.Conn) error) error {
	s.alone.Lock()
	defer s.alone.Unlock()
	select {
	case <-s.lost:
		return s.cause
	default:
	}
	err := use(s.conn)
	s.used = time.Now()
	if s.conn.IsClosed() {
		s.end(fmt.Errorf("%w: %w", ErrLost, err))
	}
	return err
}

// Lost is closed when the session is over: Postgres ended it, or can't be reached, or Close was called.
func (s *Session) Lost() <-chan struct{} { return s.lost }

// Err is why the session is over; nil while it is not.
func (s *Session) Err() error {
	select {
	case <-s.lost:
		return s.cause
	default:
		return nil
	}
}

// Close ends the session and gives its locks back.
func (s *Session) Close() {
	s.alone.Lock()
	defer s.alone.Unlock()
	s.end(fmt.Errorf("%w: it was closed", ErrLost))
}

// end is called by whoever has the connection for itself.
func (s *Session) end(cause error) {
	s.once.Do(func() {
		s.stop()
		s.cause = cause
		close(s.lost)
		ctx, cancel := context.WithTimeout(context.Background(), closing)
		defer cancel()
		_ = s.conn.Close(ctx)
	})
}

// beat says now and then that the session is alive, unless its statements do. All sessions of a process say so at the same
// moments: to wake up costs more than what is done then.
func (s *Session) beat(ctx context.Context) {
	for {
		timer := time.NewTimer(Until(time.Now(), beat))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if !s.alone.TryLock() {
			continue // a statement runs
		}
		if ctx.Err() == nil && time.Since(s.used) >= beat/2 {
			s.ping(ctx)
		}
		s.alone.Unlock()
	}
}

// Until is how long it is to the next multiple of a time, at which all of a process does what it does as often.
func Until(now time.Time, multiple time.Duration) time.Duration {
	return now.Truncate(multiple).Add(multiple).Sub(now)
}

func (s *Session) ping(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := s.conn.Ping(ctx); err != nil {
		s.end(fmt.Errorf("%w: %w", ErrLost, err))
		return
	}
	s.used = time.Now()
}

const (
	maxName = 63     // bytes of an application_name
	on      = " on " // between what a session is for and the process
)

// Process names this process as other processes and operators see it: machine and process id.
func Process() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "localhost"
	}
	const room = 30
	return host[:min(len(host), room)] + ":" + strconv.Itoa(os.Getpid())
}

func applicationName(name string) string {
	process := on + Process()
	name = "carillon " + name
	return name[:min(len(name), maxName-len(process))] + process
}
