package store

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// The files are for the user of the store alone, in a directory that others can read too.
func TestFilesArePrivateWhateverTheDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // what the test is about
		t.Fatal(err)
	}
	backup := dir + "-backup"
	session := func() {
		s, err := Open(Options{Dir: dir, MemTableBytes: 64 << 10})
		if err != nil {
			t.Fatal(err)
		}
		for range 50 {
			if _, err := s.Append(t.Context(), "s", Any(),
				[]Proposed{Propose(EventContent{Stream: "s", Type: "t", Data: make([]byte, 8<<10)})}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := os.Stat(backup); err != nil {
			if err := s.Backup(t.Context(), backup); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	check := func(dir string) (files int) {
		t.Helper()
		if err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			files++
			if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return files
	}
	session()
	if check(dir) < 5 || check(backup) < 5 {
		t.Error("there are next to no files")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries { // as an earlier version left them
		if err := os.Chmod(filepath.Join(dir, entry.Name()), 0o644); err != nil { //nolint:gosec // what the test is about
			t.Fatal(err)
		}
	}
	session()
	check(dir)
}
