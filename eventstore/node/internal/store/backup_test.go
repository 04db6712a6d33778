package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// watched calls see before each file is made.
type watched struct {
	vfs.FS
	see func(name string)
}

func (w watched) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	w.see(name)
	return w.FS.Create(name, category)
}

// A process may be killed at any file of a backup. A directory with the name of the backup must be complete.
func TestBackup_namedWhenComplete(t *testing.T) {
	t.Parallel()
	target, files := filepath.Join(t.TempDir(), "backup"), 0
	s := must.Get(Open(Options{Dir: t.TempDir(), FS: watched{vfs.Default, func(name string) {
		if strings.HasPrefix(name, target) {
			files++
			if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the backup has its name before it has %s: %v", filepath.Base(name), err)
			}
		}
	}}}))(t)
	put(t, s, "a", "x", `{}`, 20)
	if err := os.MkdirAll(filepath.Join(target+unfinished, "old"), 0o700); err != nil { // an interrupted one
		t.Fatal(err)
	}
	must.OK(t, s.Backup(t.Context(), target))
	assert.True(t, s.Backup(t.Context(), target) != nil, "a backup was overwritten")
	must.OK(t, s.Close())
	assert.True(t, files != 0, "saw no file of the backup")
	assert.Equal(t, len(must.Get(os.ReadDir(filepath.Dir(target)))(t)), 1, "left over")
	s = must.Get(Open(Options{Dir: target, MustExist: true}))(t)
	if report, err := s.Verify(t.Context(), nil); err != nil || report.Faults > 0 || report.Events != 20 {
		t.Errorf("the backup: %+v, %v", report, err)
	}
	must.OK(t, s.Close())
}

// The files are for the user of the store alone, in a directory that others can read too.
func TestFilesArePrivateWhateverTheDirectory(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(dir, 0o755); err != nil { //nolint:gosec // what the test is about
		t.Fatal(err)
	}
	backup := dir + "-backup"
	session := func() {
		s := must.Get(Open(Options{Dir: dir, MemTableBytes: 64 << 10}))(t)
		for range 50 {
			must.Get(s.Append(t.Context(), "s", Any(),
				[]Proposed{Propose(EventContent{Stream: "s", Type: "t", Data: make([]byte, 8<<10)})}))(t)
		}
		if _, err := os.Stat(backup); err != nil {
			must.OK(t, s.Backup(t.Context(), backup))
		}
		must.OK(t, s.Close())
	}
	check := func(dir string) (files int) {
		t.Helper()
		must.OK(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			files++
			if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
			return nil
		}))
		return files
	}
	session()
	assert.True(t, check(dir) >= 5 && check(backup) >= 5, "there are next to no files")
	entries := must.Get(os.ReadDir(dir))(t)
	for _, entry := range entries { // as an earlier version left them
		if err := os.Chmod(filepath.Join(dir, entry.Name()), 0o644); err != nil { //nolint:gosec // what the test is about
			t.Fatal(err)
		}
	}
	session()
	check(dir)
}

// The stores in testdata were written by the version of 2026-11-26, with 30 events. Raising formatVersion is a
// decision: the name of the marker changes here, and a store of the format before joins TestStoreOfAnOlderFormatOpens.
func TestStoreOfNovember2026Opens(t *testing.T) {
	t.Parallel()
	for _, state := range []string{"killed", "closed"} {
		dir := copyOf(t, filepath.Join("testdata", "store-2026-11-"+state))
		for _, events := range []int{30, 31} { // twice, as the first opening notes what the one of then did not
			s, err := Open(Options{Dir: dir})
			must.True(t, err == nil, "%s: %v", state, err)
			assert.Equal(t, countAll(t, s), events, "%s … events", state)
			if report, err := s.Verify(t.Context(), nil); err != nil || report.Faults > 0 {
				t.Errorf("%s: verify: %+v, %v", state, report, err)
			}
			mustAppend(t, s, "another", 1)
			mustClose(t, s)
			said, _, err := readAcknowledgement(s.options.FS, dir)
			must.OK(t, err)
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
	s := must.Get(Open(Options{Dir: t.TempDir()}))(t)
	mustAppend(t, s, "s", 30)
	dir := t.TempDir()
	older := must.Get(pebble.Open(dir, &pebble.Options{FormatMajorVersion: pebble.FormatTableFormatV6}))(t)
	iter := must.Get(s.db.NewIter(nil))(t)
	for ok := iter.First(); ok; ok = iter.Next() {
		must.OK(t, older.Set(iter.Key(), iter.Value(), pebble.NoSync))
	}
	must.OK(t, iter.Close())
	must.OK(t, older.Close())
	mustClose(t, s)
	s = must.Get(Open(Options{Dir: dir}))(t)
	if n := countAll(t, s); n != 30 || s.db.FormatMajorVersion() != formatVersion {
		t.Errorf("%d events in format %d", n, s.db.FormatMajorVersion())
	}
	mustClose(t, s)
}
