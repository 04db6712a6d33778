package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// elsewhere makes a data directory and a cluster of it outside, as root's server does.
func elsewhere(t *testing.T) (data, base, home string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	data, base = filepath.Join(dir, "data"), filepath.Join(dir, "clusters")
	home = filepath.Join(base, "0123-abcd")
	for path, content := range map[string]string{
		filepath.Join(home, "owner"):                filepath.Join(data, "postgres") + "\n",
		filepath.Join(home, "pgdata", "PG_VERSION"): "15\n",
		filepath.Join(data, "master.key"):           "hunter2\n", filepath.Join(data, "admin.token"): "hunter2\n",
		filepath.Join(data, "postgres", "postgres.log"): "", filepath.Join(data, "keys", "about"): "",
		filepath.Join(data, "eventstore", "CURRENT"): "",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(home, filepath.Join(data, "postgres", "cluster-home")); err != nil {
		t.Fatal(err)
	}
	return data, base, home
}

func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// TestDataIsRemovedWithItsCluster: only when it is meant, after it was said what goes.
func TestDataIsRemovedWithItsCluster(t *testing.T) {
	t.Parallel()
	data, base, home := elsewhere(t)
	code, out, failed := runIn(t.Context(), "", "data", "remove", data)
	for _, want := range []string{"would remove " + data, "would remove " + home, "THE MASTER KEY", "THE DATA KEYS",
		"THE KEY STORE", "THE EVENTS"} {
		if code != 1 || !strings.Contains(out, want) || !strings.Contains(failed, "--yes") {
			t.Errorf("without --yes: exit %d, %s\n%s; want %q", code, failed, out, want)
		}
	}
	if strings.Contains(out, "hunter2") {
		t.Errorf("it shows a secret:\n%s", out)
	}
	if code, _, failed := runIn(t.Context(), "", "data", "remove", home, "--yes"); code != 1 ||
		!strings.Contains(failed, "in use by the data directory "+data) {
		t.Errorf("its cluster alone: exit %d, %s", code, failed)
	}
	if gone(data) || gone(home) {
		t.Fatal("it was removed")
	}
	if code, out, failed := runIn(t.Context(), "", "data", "remove", data, "--yes", "--json"); code != 0 ||
		!strings.Contains(out, `"removed": true`) {
		t.Errorf("exit %d, %s\n%s", code, failed, out)
	}
	if !gone(data) || !gone(home) || gone(base) {
		t.Error("it was not removed")
	}
}

// TestClustersLeftBehindAreNamedAndRemoved: data list names them; a directory that is none of a server's is left
// alone, and so is the cluster of another directory that a copy's link leads to.
func TestClustersLeftBehindAreNamedAndRemoved(t *testing.T) {
	t.Parallel()
	data, base, home := elsewhere(t)
	lines := func() string {
		code, out, failed := runIn(t.Context(), "", "data", "list", "--clusters-dir", base)
		if code != 0 {
			t.Fatal(failed)
		}
		return out
	}
	if got := lines(); !strings.Contains(got, home) || !strings.Contains(got, "stopped") ||
		strings.Contains(got, leftBehind) {
		t.Errorf("named as %s", got)
	}
	copied := filepath.Join(filepath.Dir(data), "copy")
	if err := os.CopyFS(copied, os.DirFS(filepath.Join(data, "keys"))); err != nil {
		t.Fatal(err)
	}
	if code, _, failed := runIn(t.Context(), "", "data", "remove", copied, "--yes"); code != 1 ||
		!strings.Contains(failed, "neither a data directory nor") || gone(copied) {
		t.Errorf("a directory of something else: exit %d, %s", code, failed)
	}
	if err := os.Mkdir(filepath.Join(copied, "postgres"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(home, filepath.Join(copied, "postgres", "cluster-home")); err != nil {
		t.Fatal(err)
	}
	if code, out, failed := runIn(t.Context(), "", "data", "remove", copied, "--yes"); code != 0 || !gone(copied) ||
		gone(home) {
		t.Errorf("a copy: exit %d, %s\n%s", code, failed, out)
	}
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	if got := lines(); !strings.Contains(got, leftBehind) || !strings.Contains(got, "carillon data remove "+home) {
		t.Errorf("named as %s", got)
	}
	if code, out, failed := runIn(t.Context(), "", "data", "remove", home); code != 1 ||
		!strings.Contains(out, "THE DATA KEYS") || gone(home) {
		t.Errorf("without --yes: exit %d, %s\n%s", code, failed, out)
	}
	if code, out, failed := runIn(t.Context(), "", "data", "remove", home, "--yes"); code != 0 || !gone(home) {
		t.Errorf("exit %d, %s\n%s", code, failed, out)
	}
	if got := lines(); got != "no clusters outside data directories\n" {
		t.Errorf("named as %s", got)
	}
}

func TestDataOfARunningServerStays(t *testing.T) {
	t.Parallel()
	s := open(t)
	if code, out, failed := runIn(t.Context(), "", "data", "remove", s.server[1], "--yes"); code != 1 ||
		!strings.Contains(failed, "a server is running") || gone(s.server[1]) {
		t.Errorf("exit %d, %s\n%s", code, failed, out)
	}
}
