//go:build unix

package postgres

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore/storetest/must"
)

// template keeps one cluster for all tests of the run, so that initdb runs but once or twice.
var template string

// patience limits waiting, on a busy machine.
const patience = 2 * time.Minute

// helperEnv makes the test binary start a server in the directory it names, say its URL, and wait to be killed.
const helperEnv = "CARILLON_POSTGRES_TEST_HELPER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		os.Exit(helper(dir))
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	var err error
	if template, err = os.MkdirTemp(fastDir(), "carillon-template-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(template) }()
	return m.Run()
}

func helper(dir string) int {
	srv, err := Start(context.Background(), Config{Dir: dir, Disposable: os.Getenv(helperEnv+"_DISPOSABLE") != ""})
	if err != nil {
		fmt.Println("failed:", err)
		return 1
	}
	fmt.Println(srv.URL())
	<-srv.Done()
	return 2
}

// startHelper runs a server under another process; the channel has the output of that process, and ends with it.
func startHelper(t *testing.T, dir string, env ...string) (*exec.Cmd, <-chan string) {
	t.Helper()
	self := must.Get(os.Executable())(t)
	cmd := exec.Command(self)
	cmd.Env = append(append(os.Environ(), helperEnv+"="+dir), env...)
	cmd.Stderr = os.Stderr
	out := must.Get(cmd.StdoutPipe())(t)
	must.OK(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := make(chan string, 100)
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	return cmd, lines
}

// fastDir is memory if there is plenty of it, unless TMPDIR says otherwise: clusters are many small files.
func fastDir() string {
	const memory, plenty = "/dev/shm", 4 << 30
	var st syscall.Statfs_t
	if os.Getenv("TMPDIR") == "" && syscall.Statfs(memory, &st) == nil &&
		uint64(st.Bavail)*uint64(st.Bsize) > plenty { //nolint:gosec,unconvert // sizes; their types differ by system
		return memory
	}
	return os.TempDir()
}

// reachable is a temporary directory that other users can pass into.
func reachable(t *testing.T) string {
	t.Helper()
	base := must.Get(os.MkdirTemp(fastDir(), "pg-"))(t)
	t.Cleanup(func() {
		must.OK(t, os.RemoveAll(base))
	})
	must.OK(t, os.Chmod(base, 0o711))
	resolved := must.Get(filepath.EvalSymlinks(base))(t)
	return resolved
}

func start(t *testing.T, cfg Config) *Server {
	t.Helper()
	cfg.Template = template
	srv := must.Get(Start(t.Context(), cfg))(t)
	t.Cleanup(func() { stop(t, srv) })
	return srv
}

func stop(t *testing.T, srv *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	must.OK(t, srv.Stop(ctx))
}

// ask runs a statement, and returns the text of the one value of its answer, if it has one.
func ask(t *testing.T, srv *Server, sql string) string {
	t.Helper()
	return askAt(t, srv.URL(), sql)
}

func askAt(t *testing.T, address, sql string) string {
	t.Helper()
	conn := must.Get(pgx.Connect(t.Context(), address))(t)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	rows, err := conn.PgConn().Exec(t.Context(), sql).ReadAll()
	must.True(t, err == nil, "%s: %v", sql, err)
	last := rows[len(rows)-1]
	if len(last.Rows) == 0 {
		return ""
	}
	return string(last.Rows[0][0])
}

// recorder is a logger whose lines a test can read.
type recorder struct{ strings.Builder }

func (r *recorder) logger() *slog.Logger { return slog.New(slog.NewTextHandler(r, nil)) }

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root drops to another user")
	}
}
