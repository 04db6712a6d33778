package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
)

// Backup writes a consistent copy of the store to a directory that does not exist yet, while the store works. The
// copy is a store that can be opened. On the same file system it costs next to no space at first.
func (s *Store) Backup(ctx context.Context, dir string) error {
	if _, err := s.fs.Stat(dir); err == nil {
		return fmt.Errorf("back up to %s: %w", dir, fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("back up to %s: %w", dir, err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.db.Checkpoint(dir, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("back up to %s: %w", dir, err)
	}
	return nil
}
