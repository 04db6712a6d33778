//go:build nightly && unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// A start right after the kill must not stumble over the server that is shutting down.
func TestStartRightAfterTheParentWasKilled(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	for range 3 {
		parent, says := startHelper(t, dir)
		address := <-says
		askAt(t, address, "CREATE TABLE IF NOT EXISTS kept (n int); INSERT INTO kept VALUES (1)")
		must.OK(t, parent.Process.Kill())
		_ = parent.Wait() // killed: its lock is free
		stop(t, start(t, Config{Dir: dir}))
	}
	assert.Equal(t, ask(t, start(t, Config{Dir: dir}), "SELECT count(*) FROM kept"), "3", "rows of 3")
}

func TestKilledInTheMiddleOfInitdb(t *testing.T) {
	t.Parallel()
	dir, caught := "", false
	for try := 0; !caught && try < 20; try++ { // on a busy machine initdb may be over before it is noticed
		dir, caught = killInitdb(t)
	}
	must.True(t, caught, "initdb was always too quick for this test")
	assert.Equal(t, ask(t, start(t, Config{Dir: dir}), "SELECT 1"), "1", "no server")
	assert.Equal(t, len(must.Get(filepath.Glob(filepath.Join(dir, unfinished)))(t)), 0, "left")
}

// killInitdb reports whether the process was killed in the middle, and not after it.
func killInitdb(t *testing.T) (dir string, caught bool) {
	t.Helper()
	dir = filepath.Join(reachable(t), "pg")
	parent, _ := startHelper(t, dir)
	data := filepath.Join(dir, "pgdata")
	must.Eventually(t, "initdb is at work", func() bool {
		left, err := filepath.Glob(filepath.Join(dir, unfinished, "base"))
		_, over := os.Stat(data)
		return err == nil && len(left) == 1 || over == nil
	})
	must.OK(t, parent.Process.Kill())
	_ = parent.Wait() // killed
	_, err := os.Stat(data)
	return dir, os.IsNotExist(err)
}

// An orphaned server is stopped by the next start.
func TestOrphanIsReplaced(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	srv := start(t, Config{Dir: dir})
	ask(t, srv, "CREATE TABLE kept AS SELECT 42 AS n")
	stop(t, srv)

	run := must.Get(serverAccount("", ownerOf(srv.data())))(t)
	orphan := exec.Command(srv.cmd.Path, srv.cmd.Args[1:]...) //nolint:gosec // as Start has run it
	orphan.Dir = srv.data()
	orphan.SysProcAttr = run.command(t.Context(), "/", srv.cmd.Path).SysProcAttr
	dieWithParent(orphan.SysProcAttr, 0)
	must.OK(t, orphan.Start())
	ended := make(chan error, 1)
	go func() { ended <- orphan.Wait() }()
	t.Cleanup(func() { _ = orphan.Process.Kill() })
	pidFile := filepath.Join(srv.data(), "postmaster.pid")
	must.Eventually(t, "the orphan is up", func() bool {
		text, err := os.ReadFile(pidFile)
		return err == nil && strings.Contains(string(text), "ready")
	})

	var log recorder
	again := start(t, Config{Dir: dir, Logger: log.logger()})
	must.OK(t, <-ended)
	assert.Equal(t, ask(t, again, "SELECT n FROM kept"), "42", "n")
	assert.True(t, strings.Contains(log.String(), "left running"), "log: %s", log.String())
}

// A postmaster.pid may name a process that has nothing to do with Postgres, and runs as the same user.
func TestStalePIDFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	srv := start(t, Config{Dir: dir})
	stop(t, srv)
	run := must.Get(serverAccount("", ownerOf(srv.data())))(t)
	other := run.command(t.Context(), "/", "/bin/sh", "-c", "echo up; read -r _")
	hold := must.Get(other.StdinPipe())(t)
	must.OK(t, other.Start())
	pidFile := filepath.Join(srv.data(), "postmaster.pid")
	for name, content := range map[string]string{
		"another process": strconv.Itoa(other.Process.Pid) + "\n" + srv.data() + "\n",
		"no process":      "3999999\n" + srv.data() + "\n",
		"cut short":       "",
	} {
		must.OK(t, os.WriteFile(pidFile, []byte(content), 0o600))
		must.OK(t, run.give(pidFile))
		again, err := Start(t.Context(), Config{Dir: dir})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		stop(t, again)
	}
	must.OK(t, other.Process.Signal(syscall.Signal(0)))
	must.OK(t, hold.Close())
	_ = other.Wait() // a read at the end of its input fails
}

// A disposable server and its directory are gone after its process, however that ended.
func TestDisposableLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	parent, says := startHelper(t, dir, helperEnv+"_DISPOSABLE=1")
	address := <-says
	askAt(t, address, "SELECT 1")
	pid := must.Get(readPID(filepath.Join(dir, "pgdata", "postmaster.pid")))(t)
	must.OK(t, parent.Process.Kill())
	must.Eventually(t, "the server ends", func() bool { return !isPostmaster(pid, filepath.Join(dir, "pgdata")) })
	must.Eventually(t, "the directory goes", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
}

func TestStopGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	srv := start(t, Config{Dir: dir})
	ask(t, srv, "CREATE TABLE kept AS SELECT 42 AS n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// Either the shutdown was quick or it was cut short; in both cases the server is gone and loses nothing.
	err := srv.Stop(ctx)
	must.True(t, err == nil || errors.Is(err, context.Canceled), "%v", err)
	<-srv.Done()
	assert.Equal(t, ask(t, start(t, Config{Dir: dir}), "SELECT n FROM kept"), "42", "n")
}

func TestLongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), strings.Repeat("a-long-name/", 9), "pg")
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // the server's user passes through it
		t.Fatal(err)
	}
	srv := start(t, Config{Dir: dir})
	got := ask(t, srv, "SELECT 1")
	assert.True(t, got == "1" && !strings.HasPrefix(srv.sockets, dir), "socket in %s", srv.sockets)
	stop(t, srv)
	if _, err := os.Stat(srv.sockets); !os.IsNotExist(err) {
		t.Errorf("the socket's directory after Stop: %v", err)
	}
}

// Guests connect at the loopback address with their password; the owner has none, and nothing else is reachable there.
func TestGuestsConnectOverLoopback(t *testing.T) {
	// The system gives this port to none who asks for a free one.
	address := fmt.Sprint("127.0.0.1:", 19_000+os.Getpid()%1_000)
	srv := start(t, Config{Dir: t.TempDir(), Guests: "readers", Loopback: address})
	ask(t, srv, "CREATE ROLE readers")
	ask(t, srv, "CREATE ROLE ana LOGIN PASSWORD 'right' IN ROLE readers")
	ask(t, srv, "CREATE ROLE bob LOGIN PASSWORD 'right'")
	for _, c := range []struct {
		user, password string
		admitted       bool
	}{{"ana", "right", true}, {"ana", "wrong", false}, {"bob", "right", false}, {"carillon", "", false}} {
		u := url.URL{
			Scheme:   "postgres",
			User:     url.UserPassword(c.user, c.password),
			Host:     address,
			Path:     "/carillon",
			RawQuery: "sslmode=disable",
		}
		conn, err := pgx.Connect(t.Context(), u.String())
		assert.Equal(t, err == nil, c.admitted, "%s with the %s password: %v", c.user, c.password, err)
		if err == nil {
			_ = conn.Close(t.Context())
		}
	}
}

func TestUnreachableDirectory(t *testing.T) {
	t.Parallel()
	needRoot(t)
	home, elsewhere := hidden(t), reachable(t)
	dir := filepath.Join(home, "clone", "data", "postgres")
	var log recorder
	first := start(t, Config{Dir: dir, Elsewhere: elsewhere, Logger: log.logger()})
	ask(t, first, "CREATE TABLE kept AS SELECT 42 AS n")
	assert.True(t, strings.HasPrefix(first.home, elsewhere) && strings.Contains(log.String(), first.home),
		"cluster in %s; the log says: %s", first.home, log.String())
	_, err := Start(t.Context(), Config{Dir: dir, Elsewhere: elsewhere})
	assert.True(t, err != nil, "a second server on the same directory")
	stop(t, first)

	again := start(t, Config{Dir: dir, Elsewhere: elsewhere})
	assert.Equal(t, ask(t, again, "SELECT n FROM kept"), "42", "at the next start n")
	stop(t, again)

	t.Run("a copy gets a cluster of its own", func(t *testing.T) {
		other := filepath.Join(home, "copy")
		must.OK(t, os.Mkdir(other, 0o700))
		must.OK(t, os.Symlink(first.home, filepath.Join(other, homeLink)))
		srv := start(t, Config{Dir: other, Elsewhere: elsewhere})
		got := ask(t, srv, "SELECT count(*) FROM pg_class WHERE relname = 'kept'")
		assert.True(t, got == "0" && srv.home != first.home, "the copy uses the cluster of the original")
	})

	t.Run("a move takes the cluster along", func(t *testing.T) {
		moved := filepath.Join(home, "moved")
		must.OK(t, os.Rename(dir, moved))
		srv := start(t, Config{Dir: moved, Elsewhere: elsewhere})
		assert.Equal(t, ask(t, srv, "SELECT n FROM kept"), "42", "n")
	})

	t.Run("a new directory of the old name starts empty", func(t *testing.T) {
		var log recorder
		srv := start(t, Config{Dir: dir, Elsewhere: elsewhere, Logger: log.logger()})
		assert.Equal(t, ask(t, srv, "SELECT count(*) FROM pg_class WHERE relname = 'kept'"), "0", "it found the old cluster")
		assert.True(t, strings.Contains(log.String(), first.home), "the log does not name the old cluster: %s", log.String())
	})

	t.Run("a lost cluster is made anew", func(t *testing.T) {
		lost := filepath.Join(home, "lost")
		must.OK(t, os.Mkdir(lost, 0o700))
		must.OK(t, os.Symlink(filepath.Join(elsewhere, "nowhere"), filepath.Join(lost, homeLink)))
		assert.Equal(t, ask(t, start(t, Config{Dir: lost, Elsewhere: elsewhere}), "SELECT 1"), "1", "no server")
	})
}
