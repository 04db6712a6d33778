package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// privateFS is the operating system's file system, where files are for the present user alone, whatever the directory
// allows. A file is never readable for others, not even while it is still empty: who opens it then reads on.
type privateFS struct{ vfs.FS }

const (
	privateFile = 0o600
	othersMay   = 0o077
)

// claim makes an empty file; fs.ErrExist if there is one.
func claim(name string) error {
	file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, privateFile) //nolint:gosec // a file of the database
	if err != nil {
		return err
	}
	return file.Close()
}

// Create implements vfs.FS.
func (p privateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	err := claim(name)
	for errors.Is(err, fs.ErrExist) { // it is replaced, not written to: a backup may have a link to it
		if err = ignoreMissing(os.Remove(name)); err == nil {
			err = claim(name)
		}
	}
	if err != nil {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, category)
}

// OpenReadWrite implements vfs.FS.
func (p privateFS) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, options ...vfs.OpenOption,
) (vfs.File, error) {
	if err := claim(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return p.FS.OpenReadWrite(name, category, options...)
}

// Lock implements vfs.FS.
func (p privateFS) Lock(name string) (io.Closer, error) {
	if err := claim(name); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return p.FS.Lock(name)
}

// Unwrap implements vfs.FS.
func (p privateFS) Unwrap() vfs.FS { return p.FS }

// close closes a directory's files to others: an earlier version, or a copy, may have left them open.
func (p privateFS) close(dir string) (err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("close the event store's files to other users: %w", err)
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	err = fs.WalkDir(root.FS(), ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return ignoreMissing(err)
		}
		info, err := entry.Info()
		if err != nil || info.Mode().Perm()&othersMay == 0 {
			return ignoreMissing(err)
		}
		return root.Chmod(path, info.Mode().Perm()&^othersMay)
	})
	if err != nil {
		return fmt.Errorf("close the event store's files to other users: %w", err)
	}
	return nil
}
