//go:build nightly && unix

package postgres

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnreachableDirectory(t *testing.T) {
	t.Parallel()
	needRoot(t)
	home, elsewhere := hidden(t), reachable(t)
	dir := filepath.Join(home, "clone", "data", "postgres")
	var log recorder
	first := start(t, Config{Dir: dir, Elsewhere: elsewhere, Logger: log.logger()})
	ask(t, first, "CREATE TABLE kept AS SELECT 42 AS n")
	if !strings.HasPrefix(first.home, elsewhere) || !strings.Contains(log.String(), first.home) {
		t.Errorf("cluster in %s; the log says: %s", first.home, log.String())
	}
	if _, err := Start(t.Context(), Config{Dir: dir, Elsewhere: elsewhere}); err == nil {
		t.Error("a second server on the same directory")
	}
	stop(t, first)

	again := start(t, Config{Dir: dir, Elsewhere: elsewhere})
	if got := ask(t, again, "SELECT n FROM kept"); got != "42" {
		t.Errorf("at the next start n = %q", got)
	}
	stop(t, again)

	t.Run("a copy gets a cluster of its own", func(t *testing.T) {
		other := filepath.Join(home, "copy")
		if err := os.Mkdir(other, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(first.home, filepath.Join(other, homeLink)); err != nil {
			t.Fatal(err)
		}
		srv := start(t, Config{Dir: other, Elsewhere: elsewhere})
		if got := ask(t, srv, "SELECT count(*) FROM pg_class WHERE relname = 'kept'"); got != "0" || srv.home == first.home {
			t.Errorf("the copy uses the cluster of the original")
		}
	})

	t.Run("a move takes the cluster along", func(t *testing.T) {
		moved := filepath.Join(home, "moved")
		if err := os.Rename(dir, moved); err != nil {
			t.Fatal(err)
		}
		srv := start(t, Config{Dir: moved, Elsewhere: elsewhere})
		if got := ask(t, srv, "SELECT n FROM kept"); got != "42" {
			t.Errorf("n = %q", got)
		}
	})

	t.Run("a new directory of the old name starts empty", func(t *testing.T) {
		var log recorder
		srv := start(t, Config{Dir: dir, Elsewhere: elsewhere, Logger: log.logger()})
		if got := ask(t, srv, "SELECT count(*) FROM pg_class WHERE relname = 'kept'"); got != "0" {
			t.Error("it found the old cluster")
		}
		if !strings.Contains(log.String(), first.home) {
			t.Errorf("the log does not name the old cluster: %s", log.String())
		}
	})

	t.Run("a lost cluster is made anew", func(t *testing.T) {
		lost := filepath.Join(home, "lost")
		if err := os.Mkdir(lost, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(filepath.Join(elsewhere, "nowhere"), filepath.Join(lost, homeLink)); err != nil {
			t.Fatal(err)
		}
		if got := ask(t, start(t, Config{Dir: lost, Elsewhere: elsewhere}), "SELECT 1"); got != "1" {
			t.Error("no server")
		}
	})
}
