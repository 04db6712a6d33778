package custody

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"carillon/eventstore/durable"
)

// sector is the least that a disk writes at once: half of it is never new and half old.
const sector = 512 // bytes

// file is a file of fixed parts that are overwritten in place. Processes that share it take turns by its lock.
type file struct {
	path   string
	header []byte       // at most a sector
	fail   func() error // of tests: fails a write as a process fails that is killed there; nil: none
	opened *os.File
}

// hold gives the caller the file for itself, made where there is none. fresh says that it is not the file of the last
// time, so that nothing that is known of it holds. The lock ends with the process, however that ends.
func (f *file) hold(use func(opened *os.File, fresh bool) error) (err error) {
	fresh, err := f.open()
	if err != nil {
		return err
	}
	if err := syscall.Flock(int(f.opened.Fd()), syscall.LOCK_EX); err != nil { //nolint:gosec // a descriptor fits
		return fmt.Errorf("lock %s: %w", f.path, err)
	}
	defer func() {
		err = errors.Join(err, syscall.Flock(int(f.opened.Fd()), syscall.LOCK_UN)) //nolint:gosec // a descriptor fits
	}()
	found := make([]byte, len(f.header))
	if _, err := f.opened.ReadAt(found, 0); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", f.path, err)
	}
	if !bytes.Equal(found, f.header) { // new or damaged: the parts tell by themselves whether they are whole
		if err := f.write(f.header, 0); err != nil {
			return err
		}
	}
	return use(f.opened, fresh)
}

// open opens the file that has the name now: another one may have taken its place.
func (f *file) open() (fresh bool, err error) {
	there, err := os.Stat(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, fmt.Errorf("key store: %w", err)
	}
	if f.opened != nil && err == nil {
		if ours, err := f.opened.Stat(); err == nil && os.SameFile(ours, there) {
			return false, nil
		}
	}
	f.close()
	dir := filepath.Dir(f.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return false, fmt.Errorf("key store: %w", err)
	}
	if f.opened, err = os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		f.opened = nil
		return false, fmt.Errorf("key store: %w", err)
	}
	if info, err := f.opened.Stat(); err != nil || info.Mode().Perm()&0o077 != 0 {
		f.close()
		return false, errors.Join(err, fmt.Errorf("%s can be read by others: run \"chmod 600 %s\", and consider its content as leaked", f.path, f.path))
	}
	return true, durable.SyncDir(dir)
}

func (f *file) close() {
	if f.opened != nil {
		_ = f.opened.Close() // everything in it was synced
		f.opened = nil
	}
}

// write overwrites a part of the file, durably.
func (f *file) write(part []byte, at int64) error {
	if f.fail != nil {
		if err := f.fail(); err != nil {
			return err
		}
	}
	if _, err := f.opened.WriteAt(part, at); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	if err := f.opened.Sync(); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

// size is the size of the file in bytes.
func (f *file) size() (int64, error) {
	info, err := f.opened.Stat()
	if err != nil {
		return 0, fmt.Errorf("key store: %w", err)
	}
	return info.Size(), nil
}
