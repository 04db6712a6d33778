//go:build nightly

package app_test

import (
	"os"
	"path/filepath"
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
