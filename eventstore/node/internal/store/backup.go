package store

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
)

// unfinished is the suffix of a backup's name until it is complete. Pebble writes the log last: cut off before, the
// copy would open without complaint and lack the newest events.
const unfinished = ".unfinished"

// Backup writes a consistent copy of the store to a directory that does not exist yet, while the store works. The
// copy is a store that can be opened. On the same file system it costs next to no space at first. The directory gets
// its name when it is complete and durable; a backup that was cut off leaves one that ends in ".unfinished", which the
// next to the same place replaces.
func (s *Store) Backup(ctx context.Context, dir string) error {
	if _, err := s.fs.Stat(dir); err == nil {
		return fmt.Errorf("back up to %s: %w: name a new one", dir, fs.ErrExist)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("back up to %s: %w", dir, err)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	partial := filepath.Clean(dir) + unfinished
	if err := s.fs.RemoveAll(partial); err != nil {
		return fmt.Errorf("back up to %s: %w", dir, err)
	}
	// The copy holds at least this, and says so.
	reached := acknowledgement{writing: 1, position: s.watermark.Load()}
	if err := s.db.Checkpoint(partial, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("back up to %s: %w", dir, err)
	}
	manifest, number, _, err := readManifest(s.fs, partial)
	if err != nil {
		return fmt.Errorf("back up to %s: %w", dir, err)
	}
	reached.manifest = manifestState{number, uint64(len(manifest)), crc32.Checksum(manifest, castagnoli)}
	if err := writeDurably(s.fs, s.fs.PathJoin(partial, acknowledgedFile), reached.encode()); err != nil {
		return fmt.Errorf("back up to %s: %w", dir, err)
	}
	if err := errors.Join(s.fs.Rename(partial, dir), syncDirectory(s.fs, filepath.Dir(dir))); err != nil {
		return fmt.Errorf("back up to %s: %w", dir, err)
	}
	return nil
}
