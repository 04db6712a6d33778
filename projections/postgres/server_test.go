//go:build unix

package postgres

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestServerKeepsItsDataOverAStop(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "data", "postgres")
	srv := start(t, Config{Dir: dir})
	ask(t, srv, "CREATE TABLE kept AS SELECT 42 AS n")
	stop(t, srv)
	select {
	case <-srv.Done():
	default:
		t.Error("Done is open after Stop")
	}
	if err := srv.Err(); err != nil {
		t.Errorf("Err after Stop = %v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "pgdata", "postmaster.pid")); !os.IsNotExist(err) {
		t.Errorf("postmaster.pid after Stop: %v", err)
	}

	began := time.Now()
	again := start(t, Config{Dir: dir})
	t.Logf("start on an existing directory: %v", time.Since(began))
	if got := ask(t, again, "SELECT n FROM kept"); got != "42" {
		t.Errorf("after a restart n = %q", got)
	}
	stop(t, srv) // a stopped server's handle must not touch its successor
	if got := ask(t, again, "SELECT 1"); got != "1" {
		t.Error("the second server is gone")
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	srv := start(t, Config{Dir: filepath.Join(reachable(t), "pg"), Settings: map[string]string{
		"application_name": `it's a \ test`, "listen_addresses": "*",
	}})
	for name, want := range map[string]string{
		"listen_addresses": "", "fsync": "on", "synchronous_commit": "on", "full_page_writes": "on",
		"shared_buffers": "128MB", "TimeZone": "UTC", "log_min_error_statement": "panic",
		"server_encoding": "UTF8", "unix_socket_permissions": "0700",
	} {
		if got := ask(t, srv, "SHOW "+name); got != want {
			t.Errorf("%s = %q, want %q", name, got, want)
		}
	}
	if got := ask(t, srv, "SELECT reset_val FROM pg_settings WHERE name = 'application_name'"); got != `it's a \ test` {
		t.Errorf("application_name = %q", got)
	}
	if got := ask(t, srv, "SELECT datcollate FROM pg_database WHERE datname = 'carillon'"); got != "C" {
		t.Errorf("collation = %q, want C, which no system update changes", got)
	}
	info, err := os.Stat(srv.sockets)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("socket directory: %v, %v", info.Mode(), err)
	}
}

func TestOnlyTheCallersRoleIsLetIn(t *testing.T) {
	t.Parallel()
	srv := start(t, Config{Dir: filepath.Join(reachable(t), "pg")})
	ask(t, srv, "CREATE ROLE stranger LOGIN SUPERUSER")
	u, err := url.Parse(srv.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, has := u.User.Password(); has {
		t.Error("the URL holds a password")
	}
	u.User = url.User("stranger")
	conn, err := pgx.Connect(t.Context(), u.String())
	var refused *pgconn.PgError
	if !errors.As(err, &refused) || refused.Code != "28000" {
		t.Fatalf("connecting as another role: %v, %v; want it refused", conn, err)
	}
}

func TestOneServerPerDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	srv := start(t, Config{Dir: dir})
	if _, err := Start(t.Context(), Config{Dir: dir}); !errors.Is(err, ErrInUse) {
		t.Fatalf("second start: %v, want ErrInUse", err)
	}
	if got := ask(t, srv, "SELECT 1"); got != "1" {
		t.Error("the first server suffered")
	}
}

func TestDeathIsReported(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	srv := start(t, Config{Dir: dir})
	ask(t, srv, "CREATE TABLE kept AS SELECT 42 AS n")
	if err := srv.Err(); err != nil {
		t.Errorf("Err while it runs = %v", err)
	}
	if err := syscall.Kill(srv.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-srv.Done()
	if err := srv.Err(); !errors.Is(err, ErrDied) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("Err = %v, want ErrDied with the signal", err)
	}
	// At once: the backends of the dead server may still hold its memory.
	again := start(t, Config{Dir: dir})
	if got := ask(t, again, "SELECT n FROM kept"); got != "42" {
		t.Errorf("after the crash n = %q", got)
	}
}

func TestKillWithBusySessions(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	for range 3 {
		srv := start(t, Config{Dir: dir})
		conn, err := pgx.Connect(t.Context(), srv.URL())
		if err != nil {
			t.Fatal(err)
		}
		broken := make(chan error, 1)
		go func() {
			_, err := conn.Exec(t.Context(), "SELECT count(*) FROM generate_series(1, 2000000000)")
			broken <- err
		}()
		eventually(t, "the query runs", func() bool {
			return ask(t, srv, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%series%' AND state = 'active'") == "2"
		})
		if err := srv.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := srv.Err(); err != nil {
			t.Errorf("Err after Kill = %v", err)
		}
		if err := <-broken; err == nil {
			t.Error("the query outlived its server")
		}
	}
	start(t, Config{Dir: dir}) // cleans up the shared memory of the last one
}

func TestStopGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	srv := start(t, Config{Dir: dir})
	ask(t, srv, "CREATE TABLE kept AS SELECT 42 AS n")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// Either the shutdown was quick or it was cut short; in both cases the server is gone and loses nothing.
	if err := srv.Stop(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	<-srv.Done()
	if got := ask(t, start(t, Config{Dir: dir}), "SELECT n FROM kept"); got != "42" {
		t.Errorf("n = %q", got)
	}
}

func TestStartGivesUpWithItsContext(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Start(ctx, Config{Dir: dir}); !errors.Is(err, context.Canceled) {
		t.Fatalf("err = %v", err)
	}
	start(t, Config{Dir: dir})
}

func TestAFailedStartSaysWhatTheServerSaid(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	_, err := Start(t.Context(), Config{Dir: dir, Template: template, Settings: map[string]string{"shared_buffers": "much"}})
	if !errors.Is(err, ErrDied) || !strings.Contains(err.Error(), `invalid value for parameter "shared_buffers"`) {
		t.Fatalf("err = %v", err)
	}
	start(t, Config{Dir: dir}) // nothing is left held
}

func TestLongPath(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), strings.Repeat("a-long-name/", 9), "pg")
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // the server's user passes through it
		t.Fatal(err)
	}
	srv := start(t, Config{Dir: dir})
	if got := ask(t, srv, "SELECT 1"); got != "1" || strings.HasPrefix(srv.sockets, dir) {
		t.Errorf("socket in %s", srv.sockets)
	}
	stop(t, srv)
	if _, err := os.Stat(srv.sockets); !os.IsNotExist(err) {
		t.Errorf("the socket's directory after Stop: %v", err)
	}
}

func TestLogIsRotated(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	if err := os.Mkdir(dir, 0o711); err != nil { //nolint:gosec // the server's user passes through it
		t.Fatal(err)
	}
	log := filepath.Join(dir, "postgres.log")
	if err := os.WriteFile(log, make([]byte, maxLog), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, Config{Dir: dir})
	if info, err := os.Stat(log); err != nil || info.Size() == 0 || info.Size() > maxLog/2 {
		t.Errorf("postgres.log: %v, %v", info, err)
	}
	if _, err := os.Stat(log + ".1"); err != nil {
		t.Error(err)
	}
}
