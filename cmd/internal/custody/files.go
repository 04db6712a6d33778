package custody

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"carillon/command/irreversible"
	"carillon/command/sealing"
	"carillon/eventstore/durable"
)

const (
	aboutFile  = "about"
	about      = "carillon keys 2\nEach file is a data key that the master key seals, named by its owner.\n"
	partial    = ".partial-"      // begins the name of a file that is not whole yet
	maxWrapped = 512              // bytes of a wrapped data key; 102 today
	partialFor = 10 * time.Minute // then no process writes it any more
)

// disk writes small files with secrets. A file is whole under its name, or not there; its content is overwritten before
// it is removed.
type disk struct {
	fail func() error // Fails a write in tests, as if the process was killed there. Optional.
}

// create makes a file, unless it exists.
func (d disk) create(path string, content []byte) error {
	if _, err := os.Lstat(path); err == nil {
		return durable.SyncDir(filepath.Dir(path)) // another process may be about to do so
	}
	written, err := d.write(path, content)
	if err != nil {
		return err
	}
	err = os.Link(written, path)
	if errors.Is(err, fs.ErrExist) {
		return d.erase(written) // which syncs the directory
	}
	if err == nil && d.fail != nil {
		err = d.fail()
	}
	if err != nil {
		return err
	}
	if err := os.Remove(written); err != nil { // one of two names
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// replace makes a file, and overwrites the content of the one that had its name.
func (d disk) replace(path string, content []byte) error {
	written, err := d.write(path, content)
	if err != nil {
		return err
	}
	before, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // the operator's own
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = os.Rename(written, path)
	if err == nil {
		err = durable.SyncDir(filepath.Dir(path))
	}
	if before == nil {
		return err
	}
	if err == nil {
		err = d.overwrite(before)
	}
	return errors.Join(err, before.Close())
}

// write writes a file under a name of its own, durably.
func (d disk) write(path string, content []byte) (written string, err error) {
	if d.fail != nil {
		if err := d.fail(); err != nil {
			return "", err
		}
	}
	if err := makeDir(filepath.Dir(path)); err != nil {
		return "", err
	}
	file, err := os.CreateTemp(filepath.Dir(path), partial) // only its owner can read it
	if err != nil {
		return "", err
	}
	if _, err = file.Write(content); err == nil {
		err = file.Sync()
	}
	return file.Name(), errors.Join(err, file.Close())
}

// erase overwrites and removes a file. A missing file counts as erased.
func (d disk) erase(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0) //nolint:gosec // the operator's own
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := errors.Join(d.overwrite(file), file.Close()); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

func (d disk) overwrite(file *os.File) error {
	if d.fail != nil {
		if err := d.fail(); err != nil {
			return err
		}
	}
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if _, err := file.WriteAt(make([]byte, info.Size()), 0); err != nil {
		return err
	}
	return file.Sync()
}

// makeDir makes a directory durably, if there is none.
func makeDir(dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return durable.SyncDir(filepath.Dir(dir))
}

// readFile returns the content of a file with a secret.
func readFile(path string) ([]byte, error) {
	file, err := os.Open(path) //nolint:gosec // the operator's own
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("%s can be read by others: run \"chmod 600 %s\", and consider its content as leaked", path, path)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(file, maxWrapped+1))
}

// files is a place that is a directory with a file for each key.
type files struct {
	disk

	dir string
}

// String implements place.
func (f *files) String() string { return f.dir }

func (f *files) path(owner uuid.UUID) string { return filepath.Join(f.dir, owner.String()) }

// Find implements place.
func (f *files) Find(_ context.Context, owner uuid.UUID) ([]byte, error) {
	wrapped, err := readFile(f.path(owner))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, sealing.ErrShredded
	}
	if err == nil && strings.Trim(string(wrapped), "\x00") == "" { // it was replaced, or erased, at that moment
		if wrapped, err = readFile(f.path(owner)); errors.Is(err, fs.ErrNotExist) {
			return nil, sealing.ErrShredded
		}
	}
	return wrapped, err
}

// Add implements place.
func (f *files) Add(_ context.Context, owner uuid.UUID, wrapped []byte) error {
	return f.create(f.path(owner), wrapped)
}

// Put implements place.
func (f *files) Put(_ context.Context, owner uuid.UUID, wrapped []byte) error {
	return f.replace(f.path(owner), wrapped)
}

// Exchange implements place. A key that is shredded at that moment may come back; the next comparison shreds it again.
func (f *files) Exchange(ctx context.Context, changes []change) error {
	for _, c := range changes {
		now, err := f.Find(ctx, c.owner)
		if errors.Is(err, sealing.ErrShredded) || err == nil && !bytes.Equal(now, c.from) {
			continue
		}
		if err == nil {
			err = f.Put(ctx, c.owner, c.to)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Erase implements place.
func (f *files) Erase(_ context.Context, owners ...uuid.UUID) error {
	for _, owner := range owners {
		if err := f.erase(f.path(owner)); err != nil {
			return err
		}
	}
	return nil
}

// Owners implements place. It fails if the directory is not there: a disk may not be mounted.
func (f *files) Owners(context.Context) (owners []uuid.UUID, err error) {
	entries, err := os.ReadDir(f.dir)
	for _, entry := range entries {
		if owner, err := uuid.Parse(entry.Name()); err == nil && owner.String() == entry.Name() {
			owners = append(owners, owner)
		}
	}
	return owners, err
}

// All implements place.
func (f *files) All(ctx context.Context) (map[uuid.UUID][]byte, error) {
	owners, err := f.Owners(ctx)
	keys := make(map[uuid.UUID][]byte, len(owners))
	for _, owner := range owners {
		wrapped, err := readFile(f.path(owner))
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was shredded at that moment
		}
		if err != nil {
			return nil, err
		}
		keys[owner] = wrapped
	}
	return keys, err
}

// open makes the directory.
func (f *files) open() error {
	return f.create(filepath.Join(f.dir, aboutFile), []byte(about))
}

// eraseLeftovers erases what processes that were killed left.
func (f *files) eraseLeftovers(ctx context.Context, pass irreversible.Pass) error {
	partials, err := filepath.Glob(filepath.Join(f.dir, partial+"*"))
	if err != nil || len(partials) == 0 {
		return err
	}
	var left map[string]fs.FileInfo
	_, err = pass(ctx, irreversible.EraseLeftovers, func(_ context.Context, now time.Time) (irreversible.Share, error) {
		left = map[string]fs.FileInfo{}
		for _, path := range partials {
			if info, err := os.Stat(path); err == nil && now.Sub(info.ModTime()) >= partialFor {
				left[path] = info
			}
		}
		return irreversible.Share{Due: len(left)}, nil
	})
	if err != nil {
		return err
	}
	for path, info := range left {
		if links, ok := info.Sys().(*syscall.Stat_t); !ok || links.Nlink > 1 {
			err = errors.Join(err, os.Remove(path)) // it is a key, by its other name
		} else {
			err = errors.Join(err, f.erase(path))
		}
	}
	return err
}

// Close implements place.
func (*files) Close() {}
