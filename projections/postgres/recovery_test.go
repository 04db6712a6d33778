//go:build nightly && unix

package postgres

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

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
	eventually(t, "initdb is at work", func() bool {
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
	eventually(t, "the orphan is up", func() bool {
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
	eventually(t, "the server ends", func() bool { return !isPostmaster(pid, filepath.Join(dir, "pgdata")) })
	eventually(t, "the directory goes", func() bool {
		_, err := os.Stat(dir)
		return os.IsNotExist(err)
	})
}
