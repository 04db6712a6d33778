//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
)

// Home is a place of a cluster of root's, outside of the directory that the cluster is for.
type Home struct {
	Dir   string // the place
	For   string // the directory that the cluster is, or was, for: Config.Dir
	Left  bool   // that directory is gone, or uses another cluster by now
	InUse bool   // a server runs
}

// Homes lists the places below base, by default below their usual one. Without permission to read it, there are none.
func Homes(base string) ([]Home, error) {
	if base == "" {
		base = defaultElsewhere()
	}
	entries, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list postgres clusters: %w", err)
	}
	var homes []Home
	for _, entry := range entries {
		if !entry.IsDir() {
			continue // base may be a data directory, with other files
		}
		home, err := HomeAt(filepath.Join(base, entry.Name()))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue // no such place, or nothing that this user may see
		}
		if err != nil {
			return nil, err
		}
		homes = append(homes, home)
	}
	return homes, nil
}

// HomeAt returns the place in dir. It fails with fs.ErrNotExist if there is none.
func HomeAt(dir string) (Home, error) {
	text, err := os.ReadFile(filepath.Join(dir, ownerFile)) //nolint:gosec // a name below our own directory
	if err != nil {
		return Home{}, err
	}
	home := Home{Dir: dir, For: strings.TrimSpace(string(text))}
	home.Left = LinkedFrom(home.For) != dir
	// Not by its lock: who takes that to look, for a moment, keeps a server from starting.
	data := filepath.Join(dir, "pgdata")
	pid, err := readPID(filepath.Join(data, "postmaster.pid"))
	home.InUse = err == nil && pid != 0 && isPostmaster(pid, data)
	return home, nil
}

// LinkedFrom is the place of the cluster of a directory; "" if the cluster is in the directory itself.
func LinkedFrom(dir string) string {
	home, err := os.Readlink(filepath.Join(dir, homeLink))
	if err != nil {
		return ""
	}
	return home
}

// Remove removes a directory of a cluster, or a place of one, permanently. It fails with ErrInUse if a server runs. A
// missing directory is no error.
func Remove(ctx context.Context, dir string, logger *slog.Logger) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	if err := stopOrphan(ctx, filepath.Join(dir, "pgdata"), logger); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}
