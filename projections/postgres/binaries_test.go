//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// installation makes a directory with programs that say the given version.
func installation(t *testing.T, base, says string) string {
	t.Helper()
	dir := filepath.Join(base, strings.ReplaceAll(says, " ", "_"), "bin")
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // another user runs what is in it
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\necho 'postgres (PostgreSQL) %s'\n", says)
	for _, name := range []string{"postgres", "initdb"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
	}
	return dir
}

func TestPick(t *testing.T) {
	t.Parallel()
	base := reachable(t)
	run := must.Get(serverAccount("", -1))(t)
	var dirs []string
	for _, says := range []string{"9.6.24", "14.2", "15.18 (Debian 15.18-0+deb12u1)", "17.5", "16.1"} {
		dirs = append(dirs, installation(t, base, says))
	}
	empty := filepath.Join(base, "empty")
	for _, c := range []struct {
		name  string
		dirs  []string
		want  int
		major int // 0: an error
		says  []string
	}{
		{"the newest", dirs, 0, 17, nil},
		{"that of the cluster", dirs, 15, 15, nil},
		{"none that suits the cluster", dirs, 18, 0, []string{"version 18, which made the existing cluster", "17.5",
			"install Postgres 18"}},
		{"only old ones", dirs[:2], 0, 0, []string{"14.2", "older than 15", "CARILLON_DATABASE_URL", "install-postgres.sh"}},
		{"nothing there", []string{empty}, 0, 0, []string{empty + ": no postgres"}},
	} {
		got, err := pick(t.Context(), run, c.dirs, []string{"PATH: no postgres"}, c.want)
		assert.Equal(t, got.Major, c.major, "%s: %+v, %v", c.name, got, err)
		if c.major != 0 {
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		if !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v is not ErrNotFound", c.name, err)
			continue
		}
		for _, part := range append(c.says, "PATH: no postgres") {
			assert.True(t, strings.Contains(err.Error(), part), "%s: the error does not say %q: %v", c.name, part, err)
		}
	}
}

func TestClusterOfAMissingVersion(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	must.OK(t, os.MkdirAll(filepath.Join(dir, "pgdata"), 0o700))
	must.OK(t, os.WriteFile(filepath.Join(dir, "pgdata", "PG_VERSION"), []byte("99\n"), 0o600))
	_, err := Start(t.Context(), Config{Dir: dir})
	var search *SearchError
	must.True(t, errors.As(err, &search) && search.Want == 99 && len(search.Tried) != 0, "err = %v", err)
	if _, err := Start(t.Context(), Config{Dir: dir, BinDir: dir}); !errors.Is(err, ErrNotFound) {
		t.Fatalf("err = %v", err)
	}
	version := filepath.Join(dir, "pgdata", "PG_VERSION")
	must.OK(t, os.WriteFile(version, []byte("\x00\x00"), 0o600))
	_, err = Start(t.Context(), Config{Dir: dir})
	must.True(t, err != nil && strings.HasPrefix(err.Error(), version+" is damaged"), "of zeros: %v", err)
}

func TestClusterOfMissingVersion_putAside(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	srv := start(t, Config{Dir: dir})
	stop(t, srv)
	version := filepath.Join(srv.data(), "PG_VERSION")
	must.OK(t, os.WriteFile(version, []byte("99\n"), 0o600))
	_, err := Start(t.Context(), Config{Dir: dir, Replaceable: func() error { return errors.New("it holds the keys") }})
	var search *SearchError
	must.True(t, errors.As(err, &search) && strings.Contains(err.Error(), "it holds the keys"), "err = %v", err)
	must.Get(os.Stat(version))(t)
	again := start(t, Config{Dir: dir, Replaceable: func() error { return nil }})
	assert.Equal(t, ask(t, again, "SELECT 1"), "1", "the new cluster answers")
	assert.Equal(t, len(must.Get(filepath.Glob(filepath.Join(again.home, "pgdata.version-99.*", "PG_VERSION")))(t)), 1,
		"kept")
}

// hidden is a directory that the server's user can't reach, as one below /root.
func hidden(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(reachable(t), "home")
	must.OK(t, os.Mkdir(dir, 0o700))
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
	must.True(t, err != nil && strings.Contains(err.Error(), "chmod o+x"), "err = %v, want how to mend it", err)
}

func TestRootServesAsTheOwnerOfTheCluster(t *testing.T) {
	t.Parallel()
	needRoot(t)
	dir := filepath.Join(reachable(t), "pg")
	srv := start(t, Config{Dir: dir, User: "nobody"})
	ask(t, srv, "CREATE TABLE kept AS SELECT 42 AS n")
	stop(t, srv)
	owner := ownerOf(srv.data())
	must.True(t, owner != 0, "the cluster belongs to root")
	again := start(t, Config{Dir: dir})
	if got := ask(t, again, "SELECT n FROM kept"); got != "42" || ownerOf(again.data()) != owner {
		t.Errorf("n = %q, owner %d, before %d", got, ownerOf(again.data()), owner)
	}
	stop(t, again)

	// As a restored backup is.
	must.OK(t, giveTree(srv.data(), account{drop: true}))
	assert.Equal(t, ask(t, start(t, Config{Dir: dir}), "SELECT n FROM kept"), "42", "restored by root: n")
}

func TestForeignDirectoryIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	must.OK(t, os.MkdirAll(filepath.Join(dir, "pgdata"), 0o700))
	precious := filepath.Join(dir, "pgdata", "thesis.txt")
	must.OK(t, os.WriteFile(precious, []byte("x"), 0o600))
	_, err := Start(t.Context(), Config{Dir: dir, Elsewhere: reachable(t), Template: template})
	assert.True(t, err != nil && strings.Contains(err.Error(), "move it away"), "err = %v", err)
	must.Get(os.Stat(precious))(t)
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
		must.True(t, err == nil && len(homes) == 1 && homes[0] == want, "listed %+v, %v; want %+v", homes, err, want)
	}
	log := slog.New(slog.DiscardHandler)
	only(Home{Dir: dir, For: srv.dir, InUse: true})
	assert.Is(t, Remove(t.Context(), dir, log), ErrInUse, "of a running server it was removed")
	stop(t, srv)
	only(Home{Dir: dir, For: srv.dir})
	must.OK(t, os.RemoveAll(data))
	only(Home{Dir: dir, For: srv.dir, Left: true})
	must.OK(t, errors.Join(Remove(t.Context(), dir, log), Remove(t.Context(), dir, log)))
	assert.Equal(t, len(must.Get(Homes(elsewhere))(t)), 0, "afterwards")
	assert.Is(t, assert.Err(os.Stat(dir)), fs.ErrNotExist, "%s", dir)
	if homes, err := Homes(filepath.Join(elsewhere, "missing")); err != nil || homes != nil {
		t.Errorf("an empty base: %+v, %v", homes, err)
	}
}

// A data directory in the place of root's clusters has files and directories of other kinds.
func TestHomes_inADataDirectory(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(base, "admin.token"), []byte("token"), 0o600))
	must.OK(t, os.Mkdir(filepath.Join(base, "eventstore"), 0o700))
	assert.Equal(t, len(must.Get(Homes(base))(t)), 0, "listed")
}
