package backup

import (
	"encoding/base64"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/storenode/maintenance"
	"carillon/eventstore/storetest/must"
)

// TestHostileBackupDirectory: a backup writes through no link, and into nothing that another user owns or may write to.
func TestHostileBackupDirectory(t *testing.T) {
	t.Parallel()
	tests := map[string]func(dir, other string) error{
		"the directory is a link": func(dir, other string) error { return os.Symlink(other, dir) },
		"the keys' is a link": func(dir, other string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Symlink(other, filepath.Join(dir, keysDir)))
		},
		"a file is a link": func(dir, other string) error {
			return errors.Join(os.MkdirAll(filepath.Join(dir, keysDir), 0o700),
				os.Symlink(filepath.Join(other, "theirs"), filepath.Join(dir, keysDir, slotsFile+partial)))
		},
		"the store is a link": func(dir, other string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Symlink(other, filepath.Join(dir, storeDir)))
		},
		"others may write to the directory": func(dir, _ string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) //nolint:gosec // that is the fault
		},
		"others may write to a file": func(dir, _ string) error {
			path := filepath.Join(dir, keysDir, slotsFile)
			return errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600),
				os.Chmod(path, 0o606)) //nolint:gosec // as above
		},
		"another user's": func(dir, _ string) error {
			if os.Geteuid() != 0 {
				return os.Symlink(dir, dir) // only root can give a file away
			}
			return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 12345, 12345))
		},
	}
	for name, prepare := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, other := filepath.Join(t.TempDir(), "backup"), t.TempDir()
			must.OK(t, errors.Join(os.WriteFile(filepath.Join(other, "theirs"), []byte("theirs"), 0o600), prepare(dir, other)))
			in := Installation{Config: config.Config{
				DataDir:   t.TempDir(),
				MasterKey: config.Secret(base64.StdEncoding.EncodeToString(make([]byte, 32))),
			}}
			if _, err := in.Make(t.Context(), dir, time.Now()); err == nil || errors.Is(err, maintenance.ErrNoStore) ||
				strings.Contains(err.Error(), "whole") {
				t.Errorf("it went on: %v", err)
			}
			list, err := os.ReadDir(other)
			text, read := os.ReadFile(filepath.Join(other, "theirs")) //nolint:gosec // the test's own
			if err := errors.Join(err, read); err != nil || len(list) != 1 || string(text) != "theirs" {
				t.Errorf("it wrote there: %v, %q, %v", list, text, err)
			}
		})
	}
}

// TestPartialFileIsReplaced: leftovers of an interrupted backup are not written to, as another process may have them
// open.
func TestPartialFileIsReplaced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), manifestFile)
	left, err := os.Create(path + partial) //nolint:gosec // the test's own
	must.OK(t, err)
	defer func() { _ = left.Close() }()
	must.OK(t, whole(path, func(w io.Writer) error { _, err := io.WriteString(w, "ours"); return err }))
	if text, err := io.ReadAll(left); err != nil || len(text) > 0 {
		t.Errorf("it reads %q, %v", text, err)
	}
}
