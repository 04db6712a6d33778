package store

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Pebble would open a store with a damaged manifest as an older state of itself, and remove the files of the newer one.
func TestDamagedManifestIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "x", `{}`, 20)
	if err := s.db.Flush(); err != nil { // an edit of the manifest, and closing is another
		t.Fatal(err)
	}
	put(t, s, "a", "x", `{}`, 20)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	about, err := pebble.Peek(dir, vfs.Default)
	if err != nil {
		t.Fatal(err)
	}
	intact, err := os.ReadFile(about.ManifestFilename)
	if err != nil {
		t.Fatal(err)
	}
	before, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(content []byte) {
		t.Helper()
		if err := os.WriteFile(about.ManifestFilename, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for at := 0; at < len(intact); at += 3 {
		damaged := append([]byte(nil), intact...)
		damaged[at] ^= 0x15
		write(damaged)
		if s, err := Open(Options{Dir: dir}); err == nil {
			t.Fatalf("damaged at byte %d of %d, it opens: %v", at, len(intact), s.Close())
		} else if !errors.Is(err, ErrCorrupt) {
			t.Errorf("damaged at byte %d: %v", at, err)
		}
	}
	if after, err := filepath.Glob(filepath.Join(dir, "*.sst")); err != nil || len(after) != len(before) {
		t.Errorf("%d of %d tables are left, %v", len(after), len(before), err)
	}
	// An edit that a crash cut off was never relied upon.
	write(append(append([]byte(nil), intact...), intact[:20]...))
	if s, err = Open(Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	seen := 0
	if _, _, err := s.ReadAll(0, func(Record) bool { seen++; return true }); err != nil || seen != 40 {
		t.Errorf("%d events, %v", seen, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// Missing tables can't be repaired by leaving more out.
func TestGapBeforeLogIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, "s", 3)
	if err := s.db.Delete(logKey(nil, firstPosition), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	here := copyOf(t, dir)
	mustClose(t, s)
	before := filesOf(t, here)
	if _, err := Open(Options{Dir: here}); !errors.Is(err, ErrCorrupt) || !sameFiles(before, filesOf(t, here)) {
		t.Errorf("it opens: %v", err)
	}
}
