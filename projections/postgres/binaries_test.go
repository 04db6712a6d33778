//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
	run, err := serverAccount("", -1)
	if err != nil {
		t.Fatal(err)
	}
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
		if got.Major != c.major {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
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
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error does not say %q:\n%v", c.name, part, err)
			}
		}
	}
}

func TestClusterOfAMissingVersion(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	if err := os.MkdirAll(filepath.Join(dir, "pgdata"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "pgdata", "PG_VERSION"), []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Config{Dir: dir})
	var search *SearchError
	if !errors.As(err, &search) || search.Want != 99 || len(search.Tried) == 0 {
		t.Fatalf("err = %v", err)
	}
	if _, err := Start(t.Context(), Config{Dir: dir, BinDir: dir}); !errors.Is(err, ErrNotFound) {
		t.Fatalf("err = %v", err)
	}
}

func TestClusterOfMissingVersion_putAside(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(reachable(t), "pg")
	srv := start(t, Config{Dir: dir})
	stop(t, srv)
	version := filepath.Join(srv.data(), "PG_VERSION")
	if err := os.WriteFile(version, []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Start(t.Context(), Config{Dir: dir, Replaceable: func() error { return errors.New("it holds the keys") }})
	var search *SearchError
	if !errors.As(err, &search) || !strings.Contains(err.Error(), "it holds the keys") {
		t.Fatalf("err = %v", err)
	}
	if _, err := os.Stat(version); err != nil {
		t.Fatal(err)
	}
	again := start(t, Config{Dir: dir, Replaceable: func() error { return nil }})
	if got := ask(t, again, "SELECT 1"); got != "1" {
		t.Errorf("the new cluster answers %q", got)
	}
	if kept, err := filepath.Glob(filepath.Join(again.home, "pgdata.version-99.*", "PG_VERSION")); err != nil ||
		len(kept) != 1 {
		t.Errorf("kept: %v, %v", kept, err)
	}
}
