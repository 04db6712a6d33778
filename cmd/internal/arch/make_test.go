package arch_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMakeRunInstallsWhileItBuilds has a Postgres whose installation takes until the compiler runs.
func TestMakeRunInstallsWhileItBuilds(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "deploy"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "compiling"), 0o600); err != nil {
		t.Fatal(err)
	}
	const compiler = "#!/bin/sh\n" + `[ "$1" = build ] || exit 0
mkdir bin && printf '#!/bin/sh\necho "carillon $*"\n' >bin/carillon && chmod +x bin/carillon && echo yes >compiling
`
	for name, content := range map[string]string{
		"Makefile":                   text(t, "../../../Makefile"),
		"deploy/install-postgres.sh": "read yes <compiling\n",
		"compiler":                   compiler,
	} {
		//nolint:gosec // it is run
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.CommandContext(t.Context(), "make", "run", "GO="+filepath.Join(dir, "compiler"))
	run.Dir = dir
	out, err := run.CombinedOutput()
	if err != nil || !strings.HasSuffix(string(out), "carillon serve --dev --data-dir ./data\n") {
		t.Errorf("%v: %s", err, out)
	}
}
