package sessionlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/projections/pgtest"
	"carillon/projections/sessionlock"
)

const (
	childDatabase = "CARILLON_SESSIONLOCK_CHILD"
	patience      = 2 * time.Minute
)

var key, other = sessionlock.Number(-7), sessionlock.Pair(7, -7)

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
	pool, err := pgxpool.New(context.Background(), url)
	if err != nil {
		return err
	}
	session, err := sessionlock.Open(context.Background(), pool, "child", nil)
	if err != nil {
		return err
	}
	if err := session.Lock(context.Background(), key); err != nil {
		return err
	}
	fmt.Println("holds", sessionlock.Process())
	<-session.Lost()
	fmt.Println("lost", errors.Is(session.Err(), sessionlock.ErrLost))
	return nil
}

func open(t *testing.T, pool *pgxpool.Pool, name string) *sessionlock.Session {
	t.Helper()
	session, err := sessionlock.Open(t.Context(), pool, name, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return session
}

func TestALostSessionSaysSo(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pool := pgtest.Pool(t)
	mine := open(t, pool, "mine")
	if _, err := pool.Exec(ctx, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'carillon mine on %'"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-mine.Lost():
	case <-ctx.Done():
		t.Fatal("nobody noticed")
	}
	if _, err := mine.TryLock(ctx, key); !errors.Is(err, sessionlock.ErrLost) {
		t.Errorf("lock: %v", err)
	}
}
