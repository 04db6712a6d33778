//go:build nightly && unix

package postgres

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

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
