package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// spaceGuard is the file system below the database. It keeps a full disk from ever becoming a write error there,
// since Pebble takes those as fatal: new writes are refused while too little space is left, and a write that still
// meets a full disk waits until space returns. Syncs are never repeated: after a failed one the data may be gone.
type spaceGuard struct {
	vfs.FS
	dir     string
	minFree uint64
	log     *slog.Logger

	// manifestSynced is called with the state of a manifest whenever that is durable.
	manifestSynced func(manifestState)

	opened  atomic.Bool // before, a full disk is an error like any other
	low     atomic.Bool
	blocked atomic.Int32
	checked atomic.Int64 // nanoseconds
	started time.Time

	filled    broadcast // when a write begins to wait
	closing   chan struct{}
	closeOnce sync.Once
}

const (
	spaceCheckEvery = 200 * time.Millisecond
	spaceRetryEvery = 50 * time.Millisecond
)

func newSpaceGuard(fs vfs.FS, dir string, minFree uint64, log *slog.Logger) *spaceGuard {
	return &spaceGuard{
		FS:      fs,
		dir:     dir,
		minFree: minFree,
		log:     log,
		started: time.Now(),
		closing: make(chan struct{}),
	}
}

// full reports whether new writes are to be refused.
func (g *spaceGuard) full() bool { return g.blocked.Load() > 0 || g.low.Load() && g.check() }

// check is full with a look at the disk, if the last one is some time ago.
func (g *spaceGuard) check() bool {
	now, last := int64(time.Since(g.started)), g.checked.Load()
	if (last == 0 || now-last >= int64(spaceCheckEvery)) && g.checked.CompareAndSwap(last, now) {
		usage, err := g.GetDiskUsage(g.dir)
		low := err == nil && usage.AvailBytes < g.minFree // some file systems don't report it
		if g.low.Swap(low) != low {
			g.log.Warn("event store disk space", "refusingWrites", low, "availableBytes", usage.AvailBytes)
		}
	}
	return g.low.Load() || g.blocked.Load() > 0
}

// Full reports whether the disk has too little room for writes, which are then refused with ErrFull. It checks the disk
// if the last check is old.
func (s *Store) Full() bool { return s.space.check() }

// Disk is the free and used space on the disk of the store.
func (s *Store) Disk() (vfs.DiskUsage, error) { return s.fs.GetDiskUsage(s.options.Dir) }

// DatabaseBytes is the size of the store on its disk.
func (s *Store) DatabaseBytes() uint64 { return s.db.Metrics().DiskSpaceUsage() }

func (g *spaceGuard) close() { g.closeOnce.Do(func() { close(g.closing) }) }

// covers reports whether a file belongs to the store; others, such as backups, may be on other disks.
func (g *spaceGuard) covers(name string) bool {
	return strings.HasPrefix(filepath.Clean(name), filepath.Clean(g.dir)+string(filepath.Separator))
}

// whileFull repeats op, which writes the named file, for as long as the disk is full.
func (g *spaceGuard) whileFull(name string, op func() error) error {
	err := op()
	if !errors.Is(err, syscall.ENOSPC) || !g.opened.Load() || !g.covers(name) {
		return err
	}
	if g.blocked.Add(1) == 1 {
		g.filled.notify()
		g.log.Error("event store disk is full; writes wait for space")
	}
	defer g.blocked.Add(-1)
	ticker := time.NewTicker(spaceRetryEvery)
	defer ticker.Stop()
	for errors.Is(err, syscall.ENOSPC) {
		select {
		case <-ticker.C:
			err = op()
		case <-g.closing:
			return err
		}
	}
	return err
}

func (g *spaceGuard) wrap(name string, open func() (vfs.File, error)) (vfs.File, error) {
	var file vfs.File
	err := g.whileFull(name, func() (err error) {
		file, err = open()
		return err
	})
	if err != nil {
		return nil, err
	}
	guarded := &guardedFile{File: file, guard: g, name: name}
	if number, ok := manifestNumber(filepath.Base(name)); ok &&
		filepath.Dir(filepath.Clean(name)) == filepath.Clean(g.dir) {
		return &manifestFile{guardedFile: guarded, state: manifestState{number: number}}, nil
	}
	return guarded, nil
}

func (g *spaceGuard) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.wrap(name, func() (vfs.File, error) { return g.FS.Create(name, category) })
}

func (g *spaceGuard) OpenReadWrite(
	name string, category vfs.DiskWriteCategory, options ...vfs.OpenOption,
) (vfs.File, error) {
	return g.wrap(name, func() (vfs.File, error) { return g.FS.OpenReadWrite(name, category, options...) })
}

func (g *spaceGuard) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return g.wrap(newname, func() (vfs.File, error) { return g.FS.ReuseForWrite(oldname, newname, category) })
}

func (g *spaceGuard) Link(oldname, newname string) error {
	return g.whileFull(newname, func() error { return g.FS.Link(oldname, newname) })
}

func (g *spaceGuard) Rename(oldname, newname string) error {
	return g.whileFull(newname, func() error { return g.FS.Rename(oldname, newname) })
}

// MkdirAll makes private directories: stored data is not for other users.
func (g *spaceGuard) MkdirAll(dir string, perm os.FileMode) error {
	return g.whileFull(dir, func() error { return g.FS.MkdirAll(dir, perm&0o700) })
}

// Unwrap returns the file system that is guarded.
func (g *spaceGuard) Unwrap() vfs.FS { return g.FS }

type guardedFile struct {
	vfs.File
	guard *spaceGuard
	name  string
}

func (f *guardedFile) Write(p []byte) (written int, err error) {
	err = f.guard.whileFull(f.name, func() error {
		n, err := f.File.Write(p[written:])
		written += n
		return err
	})
	return written, err
}

func (f *guardedFile) WriteAt(p []byte, offset int64) (written int, err error) {
	err = f.guard.whileFull(f.name, func() error {
		n, err := f.File.WriteAt(p[written:], offset+int64(written))
		written += n
		return err
	})
	return written, err
}

// Preallocate is a hint: if it fails for lack of space, the write that needs the space will wait for it.
func (f *guardedFile) Preallocate(offset, length int64) error {
	if err := f.File.Preallocate(offset, length); err != nil && !errors.Is(err, syscall.ENOSPC) {
		return err
	}
	return nil
}

// accounted reports whether all bytes ever erased were counted: not if some were erased by a version without a count.
func accounted(floor, erased uint64) bool { return floor == 0 || erased > 0 }

// decideErase removes unreadable events. It notes the next position, as the last record may be among them, and their
// size, so that other missing events are noticed.
func (q *sequencing) decideErase(r *request) error {
	h, err := q.heads.get(r.stream)
	if err != nil {
		return err
	}
	if h.floor != r.above {
		return nil // done, by a scavenge that did not wait for it
	}
	h.floor = r.below
	q.heads.mark(h)
	batch := q.writing()
	for _, key := range r.erase {
		if err := batch.Delete(key, nil); err != nil {
			return fmt.Errorf("erase: %w", err)
		}
		q.bytes += len(key)
	}
	err = batch.Set(nextPositionKey, binary.BigEndian.AppendUint64(nil, q.next), nil)
	if q.accounted && err == nil {
		q.erasedBytes += r.erased
		err = batch.Set(erasedKey, binary.BigEndian.AppendUint64(nil, q.erasedBytes), nil)
	}
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	return nil
}
