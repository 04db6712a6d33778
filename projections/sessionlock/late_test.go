//go:build nightly

package sessionlock_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
	"carillon/projections/sessionlock"
)

// A process that hangs neither answers nor goes away. Another one has its lock within 10 s, and it learns that it has
// lost it when it goes on.
func TestLocks_frozenProcess(t *testing.T) {
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
	must.OK(t, err)
	defer func() { _ = child.Wait() }()
	lines := bufio.NewScanner(out)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "holds ") {
		t.Fatalf("the other process says %q", lines.Text())
	}
	process := strings.TrimPrefix(lines.Text(), "holds ")
	assert.Equal(t, must.Get(sessionlock.Holders(ctx, pool))(t)[key].Process, process, "holders")
	mine := pgtest.Locks(t, pool)
	if _, err := mine.TryAcquire(ctx, key); !errors.Is(err, sessionlock.ErrHeld) {
		t.Fatalf("%v while the other process lives", err)
	}
	must.OK(t, child.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	acquire(t, mine, key)
	t.Logf("taken over after %s", time.Since(stopped)) // within 10 s if the machine isn't busy
	must.OK(t, child.Process.Signal(syscall.SIGCONT))
	if !lines.Scan() || lines.Text() != "lost true" {
		t.Errorf("when it goes on, the other process says %q", lines.Text())
	}
	assert.Equal(t, must.Get(sessionlock.Holders(ctx, pool))(t)[key].Process, sessionlock.Process(), "holders")
}

// A session with nothing to do keeps its lock for longer than Postgres bears with silence.
func TestLocks_quietSession(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	mine, theirs := pgtest.Locks(t, pool), pgtest.Locks(t, pool)
	lock := acquire(t, mine, other)
	waiting, cancel := context.WithTimeout(t.Context(), 12*time.Second)
	defer cancel()
	assert.Is(t, assert.Err(theirs.Acquire(waiting, other)), context.DeadlineExceeded,
		"the lock of a live session was taken, or")
	if !lock.Sure(3 * time.Second) {
		t.Errorf("the lock is not sure: %v", lock.Err())
	}
	lock.Release()
	acquire(t, theirs, other)
}

// A holder without limits, whose client says nothing, is ended by who waits.
func TestLocks_endLateHolder(t *testing.T) {
	t.Parallel()
	ctx := within(t)
	pool := pgtest.Pool(t)
	silent := must.Get(pgx.Connect(ctx, pool.Config().ConnString()))(t)
	t.Cleanup(func() { _ = silent.Close(context.WithoutCancel(ctx)) })
	must.Get(silent.Exec(ctx, "SELECT pg_advisory_lock(-7)"))(t)
	acquire(t, pgtest.Locks(t, pool), key)
	assert.True(t, silent.Ping(ctx) != nil, "the session of the silent one lives on")
}
