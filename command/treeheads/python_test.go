//go:build nightly

package treeheads_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"carillon/eventstore/seal"
	"carillon/eventstore/storetest/must"
)

// outcomes runs the verifier on each of some files, with the heads beside it, with the key and without, and prints the
// exit codes and what it has printed.
const outcomes = `
import contextlib, io, json, os, runpy, sys
script, key, *files = sys.argv[1:]
main = runpy.run_path(script)["main"]
for file in files:
    heads = ["--head", file + "-heads"] if os.path.exists(file + "-heads") else []
    result = []
    for keys in ["--key", key], []:
        with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()):
            result += [main([file, *keys, *heads]), out.getvalue().strip()]
    print(json.dumps(result))
`

// The verifier of the documentation, in another language, accepts and refuses the same files as this one, with the same
// exit codes, and prints the same about those that it accepts.
func TestExportDoctoredInPython(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	dir, files := t.TempDir(), exports(t)
	names := slices.Collect(maps.Keys(files))
	args := []string{"-c", outcomes, "../../docs/operate/verify-export.py", seal.KeyText(trusted[0])}
	for i, name := range names {
		path := filepath.Join(dir, strconv.Itoa(i))
		err = os.WriteFile(path, []byte(strings.Join(files[name].lines, "")), 0o600)
		if files[name].heads != "" {
			err = errors.Join(err, os.WriteFile(path+"-heads", []byte(files[name].heads), 0o600))
		}
		must.OK(t, err)
		args = append(args, path)
	}
	script := exec.CommandContext(t.Context(), python, args...)
	script.Stderr = t.Output()
	out, err := script.Output()
	lines := slices.Collect(strings.Lines(string(out)))
	must.True(t, err == nil && len(lines) == len(names), "%d of %d files, %v", len(lines), len(names), err)
	for i, name := range names {
		var got [4]any
		must.OK(t, json.Unmarshal([]byte(lines[i]), &got))
		for j, keys := range [][]ed25519.PublicKey{trusted, nil} {
			want, report := files[name].verify(t, keys)
			printed, _ := got[2*j+1].(string)
			if got[2*j] != float64(want) || want != 1 && printed != report {
				t.Errorf("%s, %d keys: %v, %s\nwant %d, %s", name, len(keys), got[2*j], printed, want, report)
			}
			if want == 1 && (printed == "" || strings.Contains(printed, "Error(")) {
				t.Errorf("%s, %d keys: no sentence about the damage: %q", name, len(keys), printed)
			}
		}
	}
	t.Logf("%d files", len(names))
}
