package sessionlock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
	"carillon/projections/sessionlock"
)

const (
	childDatabase = "CARILLON_SESSIONLOCK_CHILD"
	patience      = 2 * time.Minute

	key, other sessionlock.Key = -7, 7<<32 | 9
)

// TestMain makes this binary the other process of a test: it takes the lock, says so, and says when it has lost it.
func TestMain(m *testing.M) {
	url := os.Getenv(childDatabase)
	if url == "" {
		os.Exit(m.Run())
	}
	if err := hold(url); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func hold(url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return err
	}
	lock, err := sessionlock.New(config, slog.New(slog.DiscardHandler)).Acquire(context.Background(), key)
	if err != nil {
		return err
	}
	fmt.Println("holds", sessionlock.Process())
	<-lock.Lost()
	fmt.Println("lost", errors.Is(lock.Err(), sessionlock.ErrLost))
	return nil
}

// within bounds what a test waits for.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

func acquire(t *testing.T, locks *sessionlock.Locks, key sessionlock.Key) *sessionlock.Lock {
	t.Helper()
	lock := must.Get(locks.Acquire(within(t), key))(t)
	return lock
}

func endSessions(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	must.Get(pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE 'carillon locks on %'`))(t)
}

func lost(t *testing.T, locks ...*sessionlock.Lock) {
	t.Helper()
	for _, lock := range locks {
		select {
		case <-lock.Lost():
		case <-within(t).Done():
			t.Fatal("the lock was not lost")
		}
		assert.Is(t, lock.Err(), sessionlock.ErrLost, "lost by")
	}
}

func TestLocks_shareOneSession(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	locks := pgtest.Locks(t, pool)
	for n := range sessionlock.Key(20) {
		acquire(t, locks, n)
	}
	var sessions, held int
	err := pool.QueryRow(t.Context(), `SELECT count(DISTINCT pid), count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
		WHERE locktype = 'advisory' AND granted AND datname = current_database()`).Scan(&sessions, &held)
	assert.True(t, err == nil && sessions == 1 && held == 20,
		"%d sessions hold %d locks, %v; want one and 20", sessions, held, err)
}

// A session that Postgres ends takes all locks along, and those who wait get theirs on the next one.
func TestLocks_sessionIsLost(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	locks := pgtest.Locks(t, pool)
	first, second := acquire(t, locks, key), acquire(t, locks, other)
	assert.True(t, first.Sure(time.Minute), "a lock that was just taken is not sure")
	endSessions(t, pool)
	lost(t, first, second)
	assert.True(t, !first.Sure(time.Minute), "a lost lock is sure")
	first.Release() // does nothing
	acquire(t, locks, key)
	acquire(t, locks, other)
}

func TestLocks_excludeOthers(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	mine, theirs := pgtest.Locks(t, pool), pgtest.Locks(t, pool)
	lock := acquire(t, mine, key)
	for name, locks := range map[string]*sessionlock.Locks{"this process": mine, "another process": theirs} {
		assert.Is(t, assert.Err(locks.TryAcquire(within(t), key)), sessionlock.ErrHeld, "%s", name)
		waiting, cancel := context.WithCancel(t.Context())
		cancel()
		assert.Is(t, assert.Err(locks.Acquire(waiting, key)), context.Canceled, "%s", name)
	}
	lock.Release()
	lost(t, lock)
	must.Get(theirs.TryAcquire(within(t), key))(t)
	holders, err := sessionlock.Holders(t.Context(), pool)
	assert.True(t, err == nil && len(holders) == 1 && holders[key].Process == sessionlock.Process(),
		"holders: %v, %v", holders, err)
}

// Notifications are heard by all, in order and once if they are the same. While the session of the sender is being
// opened again they wait. A listener whose session was opened again learns that some may have been missed.
func TestLocks_tell(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	teller, hearer := pgtest.Locks(t, pool), pgtest.Locks(t, pool)
	heard := make(chan string, 100)
	hear := func(want string) {
		t.Helper()
		select {
		case got := <-heard:
			must.True(t, got == want, "heard %q, want %q", got, want)
		case <-within(t).Done():
			t.Fatalf("not heard: %q", want)
		}
	}
	go hearer.Listen(t.Context(), "greetings", func(payload string) { heard <- payload })
	hear("") // it listens
	lock := acquire(t, teller, key)
	for range 10 {
		teller.Notify("greetings", "hello")
	}
	teller.Notify("other", "without listeners")
	teller.Notify("greetings", "bye")
	hear("hello")
	for got := "hello"; got == "hello"; { // again if the first had gone before the last was sent
		got = <-heard
		if got != "hello" && got != "bye" {
			t.Fatalf("heard %q", got)
		}
	}
	endSessions(t, pool)
	lost(t, lock)
	hear("")                            // it listens again
	teller.Notify("greetings", "again") // at the latest when its session is open again
	hear("again")
}

func TestLocks_afterClose(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	locks := pgtest.Locks(t, pool)
	lock := acquire(t, locks, key)
	ended := make(chan error)
	go func() {
		_, err := locks.Acquire(t.Context(), key)
		ended <- err
	}()
	locks.Close()
	lost(t, lock)
	assert.Is(t, <-ended, sessionlock.ErrLost, "who waited")
	acquire(t, pgtest.Locks(t, pool), key)
}

// A listener that panics costs no lock, and hears what comes then. A panic of the session costs the session: those who
// wait get their locks on the next one.
func TestLocks_surviveAPanic(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	locks := pgtest.Locks(t, pool)
	heard := make(chan string, 100)
	go locks.Listen(t.Context(), "greetings", func(payload string) {
		heard <- payload
		if payload == "panic" {
			panic("planted")
		}
	})
	hear := func(want string) {
		t.Helper()
		for {
			select {
			case got := <-heard:
				if got == want {
					return
				}
			case <-within(t).Done():
				t.Fatalf("not heard: %q", want)
			}
		}
	}
	hear("") // it listens
	lock := acquire(t, locks, key)
	locks.Notify("greetings", "panic")
	hear("panic")
	locks.Notify("greetings", "hello")
	hear("hello")
	must.OK(t, lock.Err())
	sessionlock.Break(locks)
	lost(t, lock)
	acquire(t, locks, key)
	hear("") // it listens again
}

// A panic at the end of a session does not keep the next one from being opened.
func TestLocks_surviveAPanicAtTheEnd(t *testing.T) {
	t.Parallel()
	locks := pgtest.Locks(t, pgtest.Pool(t))
	sessionlock.StartBroken(locks)
	acquire(t, locks, key)
}
