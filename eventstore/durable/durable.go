// Package durable makes changes of files and directories survive a loss of power, and locks end with their process.
package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// SyncDir returns once the names in a directory are on the disk: those of files that were made, renamed or removed.
func SyncDir(dir string) error {
	d, err := os.Open(dir) //nolint:gosec // a directory of our own
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Write writes a file that only its owner can read. The file has its name when it is whole and durable, and takes the
// place of an earlier one.
func Write(path string, content func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }() // unless it has its name
	if err = content(file); err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(file.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// ErrLocked means that another process has the lock.
var ErrLocked = errors.New("locked by another process")

// Lock locks a file or directory. The lock ends with the process, however that ends.
func Lock(path string) (unlock func(), err error) {
	opened, err := os.Open(path) //nolint:gosec // of our own, or the operator's
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(opened.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // a descriptor fits
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = ErrLocked
	}
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return func() { _ = opened.Close() }, nil
}
