package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestServiceUnitKeepsSettings names settings that the server needs under systemd.
func TestServiceUnitKeepsSettings(t *testing.T) {
	t.Parallel()
	unit, err := os.ReadFile(filepath.Join(root, "deploy/carillon.service"))
	if err != nil {
		t.Fatal(err)
	}
	for line, reason := range map[string]string{
		"KillMode=mixed":                        "a stop would end Postgres under the deliveries in flight",
		"StartLimitIntervalSec=0":               "systemd would give up after five starts",
		"ReadWritePaths=-/var/backups/carillon": "a running server could not write the backups of the documentation",
	} {
		if !strings.Contains(string(unit), "\n"+line+"\n") {
			t.Errorf("%s is missing: %s", line, reason)
		}
	}
}
