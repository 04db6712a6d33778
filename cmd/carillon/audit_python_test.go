//go:build nightly

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"carillon/cmd/internal/adminapi"
	"carillon/eventstore/seal"
)

// The verifier of the documentation, in another language, accepts an export.
func TestExportVerifierInPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	s := open(t)
	id := s.destination(s.ok("org", "create", "Town hall")).String()
	path := filepath.Join(shortDir(t), "proof")
	s.ok("audit", "export", id, "--proof", "-o", path)
	sealed := answer[adminapi.SealState](t, append([]string{"audit", "seal", "--show"}, s.server...)...)
	verify := func(path, key string) (string, error) {
		script := exec.CommandContext(t.Context(), python, "../../docs/operate/verify-export.py", path, key)
		out, err := script.CombinedOutput()
		return string(out), err
	}
	out, err := verify(path, seal.KeyText(sealed.Key))
	if err != nil || !strings.Contains(out, "4 events of "+id+" are in the tree") {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := verify(path, seal.KeyText(make([]byte, 32))); err == nil || !strings.Contains(out, "another key") {
		t.Errorf("another key: %v, %s", err, out)
	}
}
