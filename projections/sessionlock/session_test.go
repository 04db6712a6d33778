package sessionlock_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
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

// A process that hangs neither answers nor goes away. Another one has its lock within 10 s, and it learns that it has
// lost it when it goes on.
func TestAProcessThatHangsLosesItsLock(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pool := pgtest.Pool(t)
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), childDatabase+"="+pool.Config().ConnString())
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := child.StdoutPipe()
	if err == nil {
		err = child.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = child.Wait() }()
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "holds ") {
		t.Fatalf("the other process says %q", lines.Text())
	}
	process := strings.TrimPrefix(lines.Text(), "holds ")
	if holders, err := sessionlock.Holders(ctx, pool); err != nil || holders[key] != process {
		t.Errorf("holders = %v, %v; want %s", holders, err, process)
	}
	mine := open(t, pool, "mine")
	if locked, err := mine.TryLock(ctx, key); err != nil || locked {
		t.Fatalf("locked = %t, %v, while the other process lives", locked, err)
	}
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	if err := mine.Lock(ctx, key); err != nil {
		t.Fatal(err)
	}
	t.Logf("taken over after %s", time.Since(stopped)) // within 10 s where the machine isn't busy
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != "lost true" {
		t.Errorf("when it goes on, the other process says %q", lines.Text())
	}
	if holders, err := sessionlock.Holders(ctx, pool); err != nil || holders[key] != sessionlock.Process() {
		t.Errorf("holders = %v, %v; want this process", holders, err)
	}
}

// A session with nothing to do keeps its lock for longer than Postgres bears with silence.
func TestAQuietSessionKeepsItsLock(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	mine, theirs := open(t, pool, "mine"), open(t, pool, "theirs")
	if locked, err := mine.TryLock(t.Context(), other); err != nil || !locked {
		t.Fatalf("locked = %t, %v", locked, err)
	}
	waiting, cancel := context.WithTimeout(t.Context(), 12*time.Second)
	defer cancel()
	if err := theirs.Lock(waiting, other); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the lock of a live session was taken, or: %v", err)
	}
	if err := mine.Err(); err != nil {
		t.Errorf("the session is over: %v", err)
	}
	mine.Unlock(t.Context(), other)
	if err := open(t, pool, "later").Lock(t.Context(), other); err != nil { // "theirs" may have ended in the middle of a try
		t.Error(err)
	}
}

// A holder without limits of its own, whose client says nothing.
func TestWhoWaitsEndsTheSessionOfOneThatIsLate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pool := pgtest.Pool(t)
	silent, err := pgx.Connect(ctx, pool.Config().ConnString())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close(context.WithoutCancel(ctx)) })
	if _, err := silent.Exec(ctx, "SELECT pg_advisory_lock(-7)"); err != nil {
		t.Fatal(err)
	}
	mine := open(t, pool, "mine")
	if err := mine.Lock(ctx, key); err != nil {
		t.Fatal(err)
	}
	if err := silent.Ping(ctx); err == nil {
		t.Error("the session of the silent one lives on")
	}
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
