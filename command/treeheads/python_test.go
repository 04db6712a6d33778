//go:build nightly

package treeheads_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"carillon/eventstore/seal"
)

// accepted runs the verifier on each of some files, and prints the names of those that it accepts.
const accepted = `
import contextlib, io, runpy, sys
script, key, *files = sys.argv[1:]
for file in files:
    sys.argv = [script, file, key]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(script, run_name="__main__")
    except SystemExit as end:
        if end.code:
            continue
    print(file)
`

// The verifier of the documentation, in another language, finds each change of a file that this one finds.
func TestExportDoctoredInPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	lines, _ := export(t)
	files := doctored(t, lines)
	files["untouched"] = lines
	if files["withheld"], err = withheldExport(t, town); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := []string{"-c", accepted, "../../docs/operate/verify-export.py", seal.KeyText(trusted[0])}
	for name, lines := range files {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	script := exec.CommandContext(t.Context(), python, args...)
	script.Stderr = t.Output()
	out, err := script.Output()
	got := strings.Fields(strings.ReplaceAll(string(out), dir+string(filepath.Separator), ""))
	slices.Sort(got)
	if err != nil || !slices.Equal(got, []string{"untouched", "withheld"}) {
		t.Errorf("accepted: %s, %v", got, err)
	}
	t.Logf("%d files", len(files))
}
