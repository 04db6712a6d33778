//go:build unix

package postgres

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// A server on one directory: it is set up as it has to be, lets its caller in alone, and keeps what it has over a stop
// and a kill.
func TestServer(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "data", "postgres")
	srv := start(t, Config{Dir: dir, Settings: map[string]string{
		"application_name": `it's a \ test`, "listen_addresses": "*",
	}})
	showsSettings(t, srv)
	letsNoStrangerIn(t, srv)
	if _, err := Start(t.Context(), Config{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Fatalf("second start: %v, want ErrInUse", err)
	}
	ask(t, srv, "CREATE TABLE kept AS SELECT 42 AS n")
	stop(t, srv)
	select {
	case <-srv.Done():
	default:
		t.Error("Done is open after Stop")
	}
	must.OK(t, srv.Err())
	if _, err := os.Stat(filepath.Join(dir, "pgdata", "postmaster.pid")); !os.IsNotExist(err) {
		t.Errorf("postmaster.pid after Stop: %v", err)
	}

	full := fullLog(t, dir)
	again := start(t, Config{Dir: dir})
	rotated(t, full)
	assert.Equal(t, ask(t, again, "SELECT n FROM kept"), "42", "after a restart n")
	stop(t, srv) // a stopped server's handle must not touch its successor
	must.OK(t, again.Err())
	must.OK(t, syscall.Kill(again.cmd.Process.Pid, syscall.SIGKILL))
	<-again.Done()
	if err := again.Err(); !errors.Is(err, ErrDied) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Err = %v, want ErrDied with the signal", err)
	}
	// At once: the backends of the dead server may still hold its memory.
	assert.Equal(t, ask(t, start(t, Config{Dir: dir}), "SELECT n FROM kept"), "42", "after the crash n")
}

func showsSettings(t *testing.T, srv *Server) {
	t.Helper()
	for name, want := range map[string]string{
		"listen_addresses": "", "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
		"shared_buffers": "128MB", "TimeZone": "UTC", "log_min_error_statement": "panic",
		"server_encoding": "UTF8", "unix_socket_permissions": "0700",
	} {
		assert.Equal(t, ask(t, srv, "SHOW "+name), want, "%s", name)
	}
	assert.Equal(t, ask(t, srv, "SELECT reset_val FROM pg_settings WHERE name = 'application_name'"), `it's a \ test`,
		"application_name")
	assert.Equal(t, ask(t, srv, "SELECT datcollate FROM pg_database WHERE datname = 'carillon'"), "C", "collation")
	info, err := os.Stat(srv.sockets)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("socket directory: %v, %v", info.Mode(), err)
	}
}

func letsNoStrangerIn(t *testing.T, srv *Server) {
	t.Helper()
	ask(t, srv, "CREATE ROLE stranger LOGIN SUPERUSER")
	u := must.Get(url.Parse(srv.URL()))(t)
	_, has := u.User.Password()
	assert.True(t, !has, "the URL holds a password")
	u.User = url.User("stranger")
	conn, err := pgx.Connect(t.Context(), u.String())
	var refused *pgconn.PgError
	must.True(t, errors.As(err, &refused) && refused.Code == "28000",
		"connecting as another role: %v, %v; want it refused", conn, err)
}

// fullLog puts a log of the maximum size into a directory.
func fullLog(t *testing.T, dir string) (log string) {
	t.Helper()
	log = filepath.Join(dir, "postgres.log")
	must.OK(t, os.WriteFile(log, make([]byte, maxLog), 0o600))
	return log
}

func rotated(t *testing.T, log string) {
	t.Helper()
	info, err := os.Stat(log)
	assert.True(t, err == nil && info.Size() != 0 && info.Size() <= maxLog/2, "postgres.log: %v, %v", info, err)
	must.Get(os.Stat(log + ".1"))(t)
}

func TestFailedStart(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Config{Dir: dir, Template: template}); !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v", err)
	}
	_, err := Start(t.Context(), Config{
		Dir:      dir,
		Template: template,
		Settings: map[string]string{"shared_buffers": "much"},
	})
	must.True(t, errors.Is(err, ErrDied) && strings.Contains(err.Error(), `invalid value for parameter "shared_buffers"`),
		"err = %v", err)
	start(t, Config{Dir: dir}) // nothing is left held
}

// Data directories have spaces in their names, and worse.
func TestURL_socketInAnyDirectory(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"/home/ann/my data/run", "/home/ann/dätä/run", "/a+b/c%20d", "/x?host=y&z", "/a:b@c#d"} {
		cfg, err := pgx.ParseConfig(socketURL(dir, port))
		assert.True(t, err == nil && cfg.Host == dir && cfg.Database == database && cfg.User == role,
			"%s: %+v, %v", dir, cfg, err)
	}
}

// A link at the place of the socket's directory is of another user, and not everywhere can a socket be bound.
func TestSocketDir_passesOver(t *testing.T) {
	for name, occupy := range map[string]func(path string) error{
		"a link":                  func(path string) error { return os.Symlink(t.TempDir(), path) },
		"where none can be bound": func(path string) error { return os.MkdirAll(filepath.Join(path, ".probe", "x"), 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("XDG_RUNTIME_DIR", "")
			t.Setenv("TMPDIR", t.TempDir())
			home := filepath.Join(t.TempDir(), strings.Repeat("a-long-name/", 9))
			occupied := filepath.Join(os.TempDir(), "carillon-"+shortHash(home))
			must.OK(t, occupy(occupied))
			dir := must.Get(socketDir(home, "5432", account{uid: os.Geteuid()}))(t)
			t.Cleanup(func() { _ = os.Remove(dir) })
			assert.Equal(t, dir, filepath.Join("/tmp", filepath.Base(occupied)), "the directory")
		})
	}
}

// If the kernel doesn't stop the server with its parent, a shell does.
func TestWatcher(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	victim := func() (*exec.Cmd, chan error) {
		cmd := exec.Command("/bin/sh", "-c", `trap 'exit 7' INT; while :; do sleep 0.01; done`)
		must.OK(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd, ended
	}

	first, ended := victim()
	gone := filepath.Join(dir, "gone")
	must.OK(t, os.Mkdir(gone, 0o700))
	// The shell may get the signal before its trap stands; both ways it ends.
	w, err := watch(syscall.SIGINT, first.Process.Pid, filepath.Join(dir, "none"), gone)
	must.OK(t, err)
	if err := w.alive.Close(); err != nil { // as the kernel does when this process dies
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the watched process ended by itself")
	}
	must.OK(t, w.cmd.Wait())
	if _, err := os.Stat(gone); !os.IsNotExist(err) {
		t.Errorf("the directory: %v", err)
	}

	second, ended := victim()
	w = must.Get(watch(syscall.SIGINT, second.Process.Pid, "none"))(t)
	must.OK(t, w.dismiss())
	select {
	case err := <-ended:
		t.Errorf("a dismissed watcher stopped the process: %v", err)
	default:
	}
}
