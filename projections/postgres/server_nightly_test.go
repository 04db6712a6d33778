//go:build nightly && unix

package postgres

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
