//go:build unix

package postgres

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hidden is a directory that the server's user can't reach, as one below /root.
func hidden(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(reachable(t), "home")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestClusterThatBecameUnreachable(t *testing.T) {
	t.Parallel()
	needRoot(t)
	outer := filepath.Join(reachable(t), "outer")
	if err := os.Mkdir(outer, 0o711); err != nil { //nolint:gosec // the server's user passes through it
		t.Fatal(err)
	}
	dir := filepath.Join(outer, "pg")
	stop(t, start(t, Config{Dir: dir}))
	if err := os.Chmod(outer, 0o700); err != nil { //nolint:gosec // a directory
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Config{Dir: dir, Elsewhere: reachable(t)})
	if err == nil || !strings.Contains(err.Error(), "chmod o+x") {
		t.Fatalf("err = %v, want how to mend it", err)
	}
}

func TestRootServesAsTheOwnerOfTheCluster(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := filepath.Join(reachable(t), "pg")
	srv := start(t, Config{Dir: dir, User: "nobody"})
	ask(t, srv, "CREATE TABLE kept AS SELECT 42 AS n")
	stop(t, srv)
	owner := ownerOf(srv.data())
	if owner == 0 {
		t.Fatal("the cluster belongs to root")
	}
	again := start(t, Config{Dir: dir})
	if got := ask(t, again, "SELECT n FROM kept"); got != "42" || ownerOf(again.data()) != owner {
		t.Errorf("n = %q, owner %d, before %d", got, ownerOf(again.data()), owner)
	}
	stop(t, again)

	// As a restored backup is.
	if err := giveTree(srv.data(), account{drop: true}); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, start(t, Config{Dir: dir}), "SELECT n FROM kept"); got != "42" {
		t.Errorf("restored by root: n = %q", got)
	}
}

func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	if err := os.MkdirAll(filepath.Join(dir, "pgdata"), 0o700); err != nil {
		t.Fatal(err)
	}
	precious := filepath.Join(dir, "pgdata", "thesis.txt")
	if err := os.WriteFile(precious, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Config{Dir: dir, Elsewhere: reachable(t), Template: template})
	if err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("err = %v", err)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
}
