package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

const patience = 2 * time.Minute

// troubled is a file system that runs full or fails its syncs on request.
type troubled struct {
	*vfs.MemFS
	full      atomic.Bool
	failSyncs atomic.Bool
	available atomic.Uint64
}

func newTroubled() *troubled {
	t := &troubled{MemFS: vfs.NewCrashableMem()}
	t.available.Store(1 << 40)
	return t
}

func (t *troubled) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: t.available.Load(), TotalBytes: 1 << 41}, nil
}

func (t *troubled) wrap(file vfs.File, name string, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &troubledFile{File: file, fs: t, isLog: strings.HasSuffix(name, ".log")}, nil
}

func (t *troubled) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if t.full.Load() {
		return nil, syscall.ENOSPC
	}
	file, err := t.MemFS.Create(name, category)
	return t.wrap(file, name, err)
}

func (t *troubled) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := t.MemFS.ReuseForWrite(old, name, category)
	return t.wrap(file, name, err)
}

type troubledFile struct {
	vfs.File
	fs    *troubled
	isLog bool
}

func (f *troubledFile) Write(p []byte) (int, error) {
	if f.fs.full.Load() {
		n, err := f.File.Write(p[:len(p)/2]) // a full disk may take a part
		return n, errors.Join(err, syscall.ENOSPC)
	}
	return f.File.Write(p)
}

func (f *troubledFile) sync(sync func() error) error {
	if f.isLog && f.fs.failSyncs.Load() {
		return syscall.EIO
	}
	return sync()
}

func (f *troubledFile) Sync() error     { return f.sync(f.File.Sync) }
func (f *troubledFile) SyncData() error { return f.sync(f.File.SyncData) }

func openIn(t *testing.T, fs vfs.FS) *Store {
	t.Helper()
	s := must.Get(Open(Options{Dir: "node", FS: fs, MemTableBytes: 256 << 10}))(t)
	return s
}

var eventNumber atomic.Uint64

func propose(stream string, n, size int) (list []Proposed) {
	for range n {
		number := eventNumber.Add(1)
		list = append(list, Propose(EventContent{
			ID:     EventID{14: byte(number >> 8), 15: byte(number)},
			Stream: stream,
			Type:   "type",
			Data:   make([]byte, size),
		}))
	}
	return list
}

func mustAppend(t *testing.T, s *Store, stream string, n int) Result {
	t.Helper()
	result := must.Get(s.Append(context.Background(), stream, Any(), propose(stream, n, 100)))(t)
	return result
}

func countAll(t *testing.T, s *Store) (count int) {
	t.Helper()
	if _, _, err := s.ReadAll(0, func(Record) bool { count++; return true }); err != nil {
		t.Fatal(err)
	}
	return count
}

func TestFailedSyncStopsTheStore(t *testing.T) {
	t.Parallel()
	fs := newTroubled()
	s := openIn(t, fs)
	mustAppend(t, s, "s", 3)
	fs.failSyncs.Store(true)
	for range 3 {
		assert.Is(t, assert.Err(s.Append(context.Background(), "s", Any(), propose("s", 1, 100))), ErrFailed,
			"append after a failed sync")
	}
	select {
	case <-s.Failed():
	case <-time.After(patience):
		t.Fatal("the store hides its failure")
	}
	assert.Equal(t, countAll(t, s), 3, "readers see … events")
	err := s.Close()
	assert.True(t, errors.Is(err, ErrFailed) && errors.Is(s.Err(), ErrFailed), "close: %v", err)
	again := openIn(t, fs.CrashClone(vfs.CrashCloneCfg{}))
	assert.Equal(t, countAll(t, again), 3, "events after recovery")
	must.OK(t, again.Close())
}

func TestStoreGoesOnWhenAFullDiskHasSpaceAgain(t *testing.T) {
	t.Parallel()
	fs := newTroubled()
	s := openIn(t, fs)
	mustAppend(t, s, "s", 3)
	fs.full.Store(true)
	// The first append finds out and waits for space; it was taken on, so it can't be refused any more.
	waiting := make(chan error, 1)
	go func() {
		_, err := s.Append(context.Background(), "s", Any(), propose("s", 1, 100))
		waiting <- err
	}()
	must.Eventually(t, "the failure is noticed", s.space.full)
	for range 3 {
		assert.Is(t, assert.Err(s.Append(context.Background(), "s", Any(), propose("s", 1, 100))), ErrFull,
			"append to a full disk")
	}
	assert.Equal(t, countAll(t, s), 3, "readers see … events")
	fs.full.Store(false)
	must.OK(t, <-waiting)
	must.Eventually(t, "there is space", func() bool { return !s.space.full() })
	mustAppend(t, s, "s", 2000) // several memory tables
	fs.available.Store(1 << 20)
	must.Eventually(t, "it is low on space", func() bool {
		_, err := s.Append(context.Background(), "s", Any(), propose("s", 1, 100))
		must.True(t, err == nil || errors.Is(err, ErrFull), "low on space: %v", err)
		return err != nil
	})
	fs.available.Store(1 << 40)
	must.Eventually(t, "there is space again", func() bool {
		_, err := s.Append(context.Background(), "s", Any(), propose("s", 1, 100))
		must.True(t, err == nil || errors.Is(err, ErrFull), "space again: %v", err)
		return err == nil
	})
	if report, err := s.Verify(context.Background(), nil); err != nil || report.Faults > 0 {
		t.Errorf("verify: %+v, %v", report, err)
	}
	must.OK(t, s.Close())
}

// The caller learns it from an idle store, too.
func TestFullDisk_refusedBeforeWriting(t *testing.T) {
	t.Parallel()
	fs := newTroubled()
	s := openIn(t, fs)
	for _, available := range []uint64{1 << 20, 1 << 40, 1 << 20} {
		fs.available.Store(available)
		must.Eventually(t, "its space is noticed", func() bool { return s.Full() == (available == 1<<20) })
	}
	assert.Is(t, assert.Err(s.Append(context.Background(), "s", Any(), propose("s", 1, 100))), ErrFull, "append")
	must.OK(t, s.Close())
}

func TestReadersNeverSeeWhatIsNotDurable(t *testing.T) {
	t.Parallel()
	fs := newTroubled()
	s := openIn(t, fs)
	mustAppend(t, s, "s", 1)
	before := s.Watermark()
	fs.full.Store(true) // the next batch is applied, but can't reach the disk
	wait := must.Get(s.Start(context.Background(), "s", Any(), propose("s", 1, 100)))(t)
	deadline := time.Now().Add(patience)
	must.Eventually(t, "the failure is noticed", s.space.full)
	if s.Watermark() != before || countAll(t, s) != 1 {
		t.Errorf("readers see %d events up to %d", countAll(t, s), s.Watermark())
	}
	for waits := false; !waits; { // until the batch is applied, the durable head is shown
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		stream, err := s.Stream(ctx, "s")
		waits = errors.Is(err, context.DeadlineExceeded)
		cancel()
		if !waits && (err != nil || stream.Last() != 0 || time.Now().After(deadline)) {
			t.Fatalf("a stream's head that isn't durable was shown: %d, %v", stream.Last(), err)
		}
	}
	fs.full.Store(false)
	must.Get(wait())(t)
	assert.Equal(t, must.Get(s.Stream(context.Background(), "s"))(t).Last(), 1, "last")
	must.OK(t, s.Close())
}

func TestAbandonedAppendIsWithdrawnOrWhole(t *testing.T) {
	t.Parallel()
	s := openIn(t, vfs.NewMem())
	defer func() {
		assert.OK(t, s.Close())
	}()
	accepted := 0
	for i := range 200 {
		ctx, cancel := context.WithCancel(context.Background())
		wait := must.Get(s.Start(ctx, fmt.Sprintf("s-%d", i), NoStream(), propose("s", 2, 10)))(t)
		if i%2 == 0 {
			cancel()
		}
		if _, err := wait(); err == nil {
			accepted++
		} else if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		cancel()
	}
	assert.True(t, accepted >= 100, "%d accepted", accepted)
	n := countAll(t, s)
	assert.True(t, n%2 == 0 && n >= 2*accepted, "%d events of %d accepted appends of two", n, accepted)
	assert.Is(t, assert.Err(s.Append(context.Background(), "s", Expected{}, propose("s", 1, 1))), ErrInvalid,
		"no expectation")
}
