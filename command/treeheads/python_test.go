//go:build nightly

package treeheads_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"carillon/eventstore/seal"
)

// accepted runs the verifier on each of some files, with the heads beside it, and prints the names of those that it
// accepts.
const accepted = `
import contextlib, io, os, runpy, sys
script, key, *files = sys.argv[1:]
main = runpy.run_path(script)["main"]
for file in files:
    with contextlib.redirect_stdout(io.StringIO()):
        code = main(file, key, file + "-heads" if os.path.exists(file + "-heads") else "")
        unpinned = main(file)
    if unpinned != 2:
        sys.exit(file + " without a key: {}".format(unpinned))
    if code == 0:
        print(file)
`

// The verifier of the documentation, in another language, accepts and refuses the same files as this one.
func TestExportDoctoredInPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	dir, names, want := t.TempDir(), map[string]string{}, []string(nil)
	args := []string{"-c", accepted, "../../docs/operate/verify-export.py", seal.KeyText(trusted[0])}
	for name, file := range exports(t) {
		path := filepath.Join(dir, strconv.Itoa(len(names)))
		names[path] = name
		if file.good {
			want = append(want, name)
		}
		var heads []byte
		for _, head := range file.heads {
			line, err := head.Line()
			if err != nil {
				t.Fatal(err)
			}
			heads = append(heads, line...)
		}
		if len(heads) > 0 {
			err = os.WriteFile(path+"-heads", heads, 0o600)
		}
		if err = errors.Join(err, os.WriteFile(path, []byte(strings.Join(file.lines, "")), 0o600)); err != nil {
			t.Fatal(err)
		}
		args = append(args, path)
	}
	script := exec.CommandContext(t.Context(), python, args...)
	script.Stderr = t.Output()
	out, err := script.Output()
	var got []string
	for path := range strings.Lines(string(out)) {
		got = append(got, names[strings.TrimSpace(path)])
	}
	slices.Sort(got)
	slices.Sort(want)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("accepted: %q, %v", got, err)
	}
	t.Logf("%d files", len(names))
}
