package maintenance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"carillon/cmd/internal/config"
	"carillon/eventstore/durable"
	"carillon/eventstore/node"
)

// Restore copies a backup into a directory that must be empty or not exist, and verifies the copy before it gets its
// name: afterwards the directory holds all of it or nothing. Leftovers of a killed restore beside it are removed.
// copying and verifying get the progress of each, in bytes.
func Restore(
	ctx context.Context, backup, dir string, log *slog.Logger, copying, verifying node.Progress,
) (node.Report, error) {
	if err := config.CheckWriter(filepath.Dir(dir)); err != nil {
		return node.Report{}, err
	}
	if !Holds(backup) {
		return node.Report{}, fmt.Errorf("%s: %w", backup, ErrNoStore)
	}
	if err := mustBeEmpty(dir); err != nil {
		return node.Report{}, err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return node.Report{}, err
	}
	partial, discard, err := newPartial(dir, log)
	if err != nil {
		return node.Report{}, err
	}
	defer discard()
	if err := copyTree(ctx, backup, partial, copying); err != nil {
		return node.Report{}, fmt.Errorf("copy the backup: %w", err)
	}
	report, err := node.Verify(ctx, node.Config{Dir: partial, Logger: log}, verifying)
	if err != nil || !report.OK() {
		return report, err
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return report, fmt.Errorf("take the place of %s: %w", dir, err)
	}
	if err := os.Rename(partial, dir); err != nil {
		return report, fmt.Errorf("take the place of %s: %w", dir, err)
	}
	return report, durable.SyncDir(filepath.Dir(dir))
}

func mustBeEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty: nothing is replaced; move it away first", dir)
	}
	return nil
}

// copyTree copies regular files; a node's directory has no others that matter.
func copyTree(ctx context.Context, from, to string, progress node.Progress) error {
	var done, total uint64
	walk := func(visit func(path string, info fs.FileInfo) error) error {
		return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}
			switch {
			case info.IsDir():
				return os.MkdirAll(filepath.Join(to, relative), 0o700)
			case info.Mode().IsRegular():
				return visit(relative, info)
			}
			return nil
		})
	}
	if err := walk(func(_ string, info fs.FileInfo) error {
		total += uint64(info.Size()) //nolint:gosec // not negative
		return nil
	}); err != nil {
		return err
	}
	return walk(func(path string, info fs.FileInfo) error {
		if err := copyFile(filepath.Join(from, path), filepath.Join(to, path)); err != nil {
			return err
		}
		if done += uint64(info.Size()); progress != nil { //nolint:gosec // not negative
			progress(done, total)
		}
		return nil
	})
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from) //nolint:gosec // the path is the operator's own
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()                                     // only read
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the path is the operator's own
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if _, err := io.Copy(out, in); err != nil {
		return err
	}
	return out.Sync()
}

// newPartial makes a directory beside dir to restore into, and removes those that killed restores of dir have left.
// Each is locked for as long as its restore goes on, so that it is not mistaken for a leftover: call discard at the
// end.
func newPartial(dir string, log *slog.Logger) (partial string, discard func(), err error) {
	parent, prefix := filepath.Dir(dir), "."+filepath.Base(dir)+"-restoring-"
	entries, err := os.ReadDir(parent)
	if err != nil {
		return "", nil, err
	}
	for _, entry := range entries {
		number, ours := strings.CutPrefix(entry.Name(), prefix)
		if ours && entry.IsDir() && number != "" && strings.Trim(number, "0123456789") == "" {
			removeLeftover(filepath.Join(parent, entry.Name()), log)
		}
	}
	if partial, err = os.MkdirTemp(parent, prefix); err != nil {
		return "", nil, err
	}
	// Without locks of the file system, other processes get none either, and nothing is removed.
	unlock, err := durable.Lock(partial)
	if err != nil {
		unlock = func() {}
	}
	return partial, func() {
		_ = os.RemoveAll(partial) // it has its name by then, or is worth nothing
		unlock()
	}, nil
}

func removeLeftover(dir string, log *slog.Logger) {
	unlock, err := durable.Lock(dir)
	if err != nil {
		return
	}
	defer unlock()
	if err := os.RemoveAll(dir); err != nil {
		log.Warn("leftovers of a killed restore not removed", "dir", dir, "error", err)
		return
	}
	log.Info("removed what a restore left that was killed", "dir", dir)
}
