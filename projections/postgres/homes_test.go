//go:build unix

package postgres

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
)

// TestHomesAreToldAndRemoved: a cluster of root's is listed with the directory that it is for, is not removed while its
// server runs, and is left behind when that directory is gone.
func TestHomesAreToldAndRemoved(t *testing.T) {
	t.Parallel()
	needRoot(t)
	elsewhere := reachable(t)
	data := filepath.Join(hidden(t), "data")
	srv := start(t, Config{Dir: filepath.Join(data, "postgres"), Elsewhere: elsewhere})
	dir := srv.home
	only := func(want Home) {
		t.Helper()
		homes, err := Homes(elsewhere)
		if err != nil || len(homes) != 1 || homes[0] != want {
			t.Fatalf("listed %+v, %v; want %+v", homes, err, want)
		}
	}
	log := slog.New(slog.DiscardHandler)
	only(Home{Dir: dir, For: srv.dir, InUse: true})
	if err := Remove(t.Context(), dir, log); !errors.Is(err, ErrInUse) {
		t.Errorf("of a running server it was removed: %v", err)
	}
	stop(t, srv)
	only(Home{Dir: dir, For: srv.dir})
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	only(Home{Dir: dir, For: srv.dir, Left: true})
	if err := errors.Join(Remove(t.Context(), dir, log), Remove(t.Context(), dir, log)); err != nil {
		t.Fatal(err)
	}
	if homes, err := Homes(elsewhere); err != nil || len(homes) != 0 {
		t.Errorf("afterwards %+v, %v", homes, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", dir, err)
	}
	if homes, err := Homes(filepath.Join(elsewhere, "missing")); err != nil || homes != nil {
		t.Errorf("an empty base: %+v, %v", homes, err)
	}
}

// A data directory in the place of root's clusters has files and directories of other kinds.
func TestHomes_inADataDirectory(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	if err := os.WriteFile(filepath.Join(base, "admin.token"), []byte("token"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(base, "eventstore"), 0o700); err != nil {
		t.Fatal(err)
	}
	if homes, err := Homes(base); err != nil || len(homes) != 0 {
		t.Errorf("listed %+v, %v", homes, err)
	}
}
