package store

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
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
	s, err := Open(Options{Dir: t.TempDir(), FS: watched{vfs.Default, func(name string) {
		if strings.HasPrefix(name, target) {
			files++
			if _, err := os.Stat(target); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the backup has its name before it has %s: %v", filepath.Base(name), err)
			}
		}
	}}})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "x", `{}`, 20)
	if err := os.MkdirAll(filepath.Join(target+unfinished, "old"), 0o700); err != nil { // an interrupted one
		t.Fatal(err)
	}
	if err := errors.Join(s.Backup(t.Context(), target), s.Close()); err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Error("saw no file of the backup")
	}
	if left, err := os.ReadDir(filepath.Dir(target)); err != nil || len(left) != 1 {
		t.Errorf("left over: %v, %v", left, err)
	}
	if s, err = Open(Options{Dir: target, MustExist: true}); err != nil {
		t.Fatal(err)
	}
	if report, err := s.Verify(t.Context(), nil); err != nil || report.Faults > 0 || report.Events != 20 {
		t.Errorf("the backup: %+v, %v", report, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
