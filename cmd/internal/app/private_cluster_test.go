//go:build nightly

package app_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"carillon/cmd/internal/config"
)

// A private cluster whose binaries are gone is carried over: read models are rebuilt, and keys come from the key store.
func TestPrivateCluster_withoutBinaries(t *testing.T) {
	p := start(t, func(cfg *config.Config) {
		cfg.DatabaseURL = ""
		if err := os.Chmod(cfg.DataDir, 0o711); err != nil { //nolint:gosec // Postgres' own user passes through
			t.Error(err)
		}
	})
	p.destination("crm", nowhere, 0)
	want := p.secret("crm")
	p.close()
	version := filepath.Join(p.cfg.DataDir, "postgres", "pgdata", "PG_VERSION")
	if err := os.WriteFile(version, []byte("99\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, aside := p.keyStore(), filepath.Join(p.cfg.DataDir, "aside")
	if err := os.Rename(keys, aside); err != nil {
		t.Fatal(err)
	}
	if err := p.refusedStart(); !strings.Contains(err.Error(), "only copy of the data keys") {
		t.Errorf("without a key store: %v", err)
	}
	if err := os.Rename(aside, keys); err != nil {
		t.Fatal(err)
	}
	p.open()
	if got := p.shown("crm"); got != want {
		t.Error("another secret")
	}
}

// A private cluster is carried over with real binaries of two majors: the older makes the cluster, then only
// the newer is there.
func TestPrivateCluster_ofAnotherMajor(t *testing.T) {
	older, newer := twoMajors(t)
	p := start(t, func(cfg *config.Config) {
		cfg.DatabaseURL, cfg.PostgresBin = "", older
		if err := os.Chmod(cfg.DataDir, 0o711); err != nil { //nolint:gosec // Postgres' own user passes through
			t.Error(err)
		}
	})
	p.destination("crm", nowhere, 0)
	want := p.secret("crm")
	p.close()
	p.cfg.PostgresBin = newer
	p.open()
	if got := p.shown("crm"); got != want {
		t.Error("another secret")
	}
	p.destination("erp", nowhere, 0)
	p.restart() // the new cluster is the one that counts from now on
	if got := p.shown("crm"); got != want {
		t.Error("after a restart: another secret")
	}
	if kept, err := filepath.Glob(filepath.Join(p.cfg.DataDir, "postgres", "pgdata.version-*",
		"PG_VERSION")); err != nil || len(kept) != 1 {
		t.Errorf("the old cluster is kept as %q, %v", kept, err)
	}
}

// twoMajors are directories with binaries of two majors of Postgres. CARILLON_TEST_POSTGRES_BIN names one besides those
// of the system's packages.
func twoMajors(t *testing.T) (older, newer string) {
	t.Helper()
	dirs, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil {
		t.Fatal(err)
	}
	if other := os.Getenv("CARILLON_TEST_POSTGRES_BIN"); other != "" {
		dirs = append(dirs, other)
	}
	found := map[int]string{}
	for _, dir := range dirs {
		out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "postgres"), "--version").Output()
		var major int
		if _, scanned := fmt.Sscanf(string(out), "postgres (PostgreSQL) %d", &major); err == nil && scanned == nil &&
			major >= 15 {
			found[major] = dir
		}
	}
	majors := slices.Sorted(maps.Keys(found))
	if len(majors) < 2 {
		t.Skipf("needs two majors of Postgres, and has %v: name another one's binaries by CARILLON_TEST_POSTGRES_BIN", majors)
	}
	return found[majors[0]], found[majors[len(majors)-1]]
}
