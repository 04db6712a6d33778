package store

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
)

// The stores in testdata were written by the version of 2026-11-26, with 30 events. Raising formatVersion is a
// decision: the name of the marker changes here, and a store of the format before joins TestStoreOfAnOlderFormatOpens.
func TestStoreOfNovember2026Opens(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"killed", "closed"} {
		dir := copyOf(t, filepath.Join("testdata", "store-2026-11-"+state))
		for _, events := range []int{30, 31} { // twice, as the first opening notes what the one of then did not
			s, err := Open(Options{Dir: dir})
			if err != nil {
				t.Fatalf("%s: %v", state, err)
			}
			if n := countAll(t, s); n != events {
				t.Errorf("%s: %d events of %d", state, n, events)
			}
			if report, err := s.Verify(t.Context(), nil); err != nil || report.Faults > 0 {
				t.Errorf("%s: verify: %+v, %v", state, report, err)
			}
			mustAppend(t, s, "another", 1)
			mustClose(t, s)
			said, _, err := readAcknowledgement(s.options.FS, dir)
			if err != nil {
				t.Fatal(err)
			}
			if verified, _, err := checkManifest(s.options.FS, dir, said.manifest); err != nil || !verified || !said.flushed {
				t.Errorf("%s: the manifest is noted: %v, closed in order: %v, %v", state, verified, said.flushed, err)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "marker.format-version.000011.024")); err != nil {
			t.Errorf("%s: the format was raised: %v", state, err)
		}
	}
}

func TestStoreOfAnOlderFormatOpens(t *testing.T) {
	t.Parallel()
	s, err := Open(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, "s", 30)
	dir := t.TempDir()
	older, err := pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatTableFormatV6})
	if err != nil {
		t.Fatal(err)
	}
	iter, err := s.db.NewIter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for ok := iter.First(); ok; ok = iter.Next() {
		if err := older.Set(iter.Key(), iter.Value(), pebble.NoSync); err != nil {
			t.Fatal(err)
		}
	}
	if err := iter.Close(); err != nil {
		t.Fatal(err)
	}
	if err := older.Close(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if s, err = Open(Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if n := countAll(t, s); n != 30 || s.db.FormatMajorVersion() != formatVersion {
		t.Errorf("%d events in format %d", n, s.db.FormatMajorVersion())
	}
	mustClose(t, s)
}
