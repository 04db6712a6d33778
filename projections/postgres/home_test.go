//go:build unix

package postgres

import (
	"errors"
	"io/fs"
	"log/slog"
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

// TestHomesAreToldAndRemoved: a cluster of root's is listed with the directory that it is for, is not removed while its
// server runs, and is left behind when that directory is gone.
func TestHomesAreToldAndRemoved(t *testing.T) {
	t.Parallel()
	needRoot(t)
	elsewhere := reachable(t)
	data := filepath.Join(hidden(t), "data")
	srv := start(t, Config{Dir: filepath.Join(data, "postgres"), Elsewhere: elsewhere})
	dir := srv.home
	only := func(want Home) {
		t.Helper()
		homes, err := Homes(elsewhere)
		if err != nil || len(homes) != 1 || homes[0] != want {
			t.Fatalf("listed %+v, %v; want %+v", homes, err, want)
		}
	}
	log := slog.New(slog.DiscardHandler)
	only(Home{Dir: dir, For: srv.dir, InUse: true})
	if err := Remove(t.Context(), dir, log); !errors.Is(err, ErrInUse) {
		t.Errorf("of a running server it was removed: %v", err)
	}
	stop(t, srv)
	only(Home{Dir: dir, For: srv.dir})
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	only(Home{Dir: dir, For: srv.dir, Left: true})
	if err := errors.Join(Remove(t.Context(), dir, log), Remove(t.Context(), dir, log)); err != nil {
		t.Fatal(err)
	}
	if homes, err := Homes(elsewhere); err != nil || len(homes) != 0 {
		t.Errorf("afterwards %+v, %v", homes, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", dir, err)
	}
	if homes, err := Homes(filepath.Join(elsewhere, "missing")); err != nil || homes != nil {
		t.Errorf("an empty base: %+v, %v", homes, err)
	}
}

// A data directory in the place of root's clusters has files and directories of other kinds.
func TestHomes_inADataDirectory(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	if err := os.WriteFile(filepath.Join(base, "admin.token"), []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(base, "eventstore"), 0o700); err != nil {
		t.Fatal(err)
	}
	if homes, err := Homes(base); err != nil || len(homes) != 0 {
		t.Errorf("listed %+v, %v", homes, err)
	}
}
