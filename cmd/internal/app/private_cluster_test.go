//go:build nightly

package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/cmd/internal/config"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
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
	must.OK(t, os.WriteFile(version, []byte("99\n"), 0o600))
	keys, aside := p.keyStore(), filepath.Join(p.cfg.DataDir, "aside")
	must.OK(t, os.Rename(keys, aside))
	if err := p.refusedStart(); !strings.Contains(err.Error(), "only copy of the data keys") {
		t.Errorf("without a key store: %v", err)
	}
	must.OK(t, os.Rename(aside, keys))
	p.open()
	assert.Equal(t, p.shown("crm"), want, "another secret")
}
