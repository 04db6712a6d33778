package aggregatetest

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"carillon/eventstore"
	"carillon/eventstore/storetest/must"
)

// Golden holds one example of every event against its stored form in testdata/<name>.json. A missing file is written
// and fails the test once, so that it gets reviewed and committed; an existing one is never changed, because events
// like it are stored somewhere: make a ".v2" and an upcast instead.
func Golden[E any](t *testing.T, codec eventstore.Codec[E], examples ...E) {
	t.Helper()
	for _, example := range examples {
		name, data, err := codec.Encode(example)
		must.OK(t, err)
		path := filepath.Join("testdata", name+".json")
		golden, there := stored(t, path, data)
		if !there {
			continue
		}
		if diff := cmp.Diff(string(golden), string(data)); diff != "" {
			t.Errorf("%s is stored differently now (-golden +now); make a new version instead:\n%s", name, diff)
		}
		read, err := codec.Decode(&eventstore.Recorded{Type: name, Data: golden})
		if err != nil {
			t.Errorf("a stored %s can't be read any more: %v", name, err)
		} else if diff := cmp.Diff(example, read, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("a stored %s reads differently now (-want +got):\n%s", name, diff)
		}
	}
	for _, name := range codec.Names() {
		if _, err := os.Stat(filepath.Join("testdata", name+".json")); err != nil {
			t.Errorf("event %s has no golden file: give an example of it", name)
		}
	}
}

// GoldenFile holds something that others rely on against what testdata/<name> says. A file that is missing is written
// and fails the test once.
func GoldenFile(t *testing.T, name string, data []byte) {
	t.Helper()
	golden, there := stored(t, filepath.Join("testdata", name), data)
	if diff := cmp.Diff(string(golden), string(data)); there && diff != "" {
		t.Errorf("%s has changed (-golden +now):\n%s", name, diff)
	}
}

// stored reads a golden file, or writes a missing one.
func stored(t *testing.T, path string, data []byte) (golden []byte, there bool) {
	t.Helper()
	golden, err := os.ReadFile(path) //nolint:gosec // the path is made of constants and a codec's name
	switch {
	case errors.Is(err, fs.ErrNotExist):
		write(t, path, data)
		return nil, false
	case err != nil:
		t.Fatal(err)
	}
	return bytes.TrimSpace(golden), true
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	must.OK(t, os.MkdirAll("testdata", 0o750))
	must.OK(t, os.WriteFile(path, append(data, '\n'), 0o600))
	t.Errorf("%s did not exist and was written: review and commit it", path)
}
