package store

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// acknowledgedFile lies beside the database and holds the position of the last acknowledged event, and the size of the
// manifest. A log or manifest that ends before that has lost something, however readable the rest is.
const acknowledgedFile = "acknowledged"

// The file has two slots that are written in turn, so that one is whole whenever the machine stops:
//
//	0      format version
//	1      flags
//	2:10   number of the writing
//	10:18  position of the last acknowledged event
//	18:26  number of the manifest
//	26:34  its length
//	34:38  CRC-32C of the bytes before
//	38:42  CRC-32C of the manifest, up to its length
//	42:46  CRC-32C of the bytes before; versions before wrote neither
const (
	slotVersion  = 1
	slotFlushed  = 1 // all events are in tables: the logs hold none
	slotLen      = 38
	wholeSlotLen = 46
	slotDistance = 512

	// acknowledgedSyncEvery bounds how much older than the log the file is after a loss of power. A killed process
	// loses none of it. Never is it ahead: it is written after the log is synced.
	acknowledgedSyncEvery = time.Second
)

// acknowledgement is the content of the file.
type acknowledgement struct {
	flushed  bool
	writing  uint64
	position uint64
	manifest manifestState
}

func (a acknowledgement) encode() []byte {
	slot := make([]byte, slotLen-4, wholeSlotLen)
	slot[0] = slotVersion
	if a.flushed {
		slot[1] = slotFlushed
	}
	for i, number := range []uint64{a.writing, a.position, a.manifest.number, a.manifest.length} {
		binary.BigEndian.PutUint64(slot[2+8*i:], number)
	}
	slot = binary.BigEndian.AppendUint32(slot, crc32.Checksum(slot, castagnoli))
	slot = binary.BigEndian.AppendUint32(slot, a.manifest.sum)
	return binary.BigEndian.AppendUint32(slot, crc32.Checksum(slot, castagnoli))
}

func parseAcknowledgement(slot []byte) (a acknowledgement, ok bool) {
	if len(slot) < slotLen || slot[0] != slotVersion ||
		crc32.Checksum(slot[:slotLen-4], castagnoli) != binary.BigEndian.Uint32(slot[slotLen-4:]) {
		return a, false
	}
	a.flushed = slot[1]&slotFlushed != 0
	for i, number := range []*uint64{&a.writing, &a.position, &a.manifest.number, &a.manifest.length} {
		*number = binary.BigEndian.Uint64(slot[2+8*i:])
	}
	if len(slot) >= wholeSlotLen &&
		crc32.Checksum(slot[:wholeSlotLen-4], castagnoli) == binary.BigEndian.Uint32(slot[wholeSlotLen-4:]) {
		a.manifest.sum = binary.BigEndian.Uint32(slot[slotLen:])
	}
	return a, true
}

// readAcknowledgement returns the content of the file; known is false if it is missing or unreadable.
func readAcknowledgement(files vfs.FS, dir string) (a acknowledgement, known bool, err error) {
	content, err := readFile(files, files.PathJoin(dir, acknowledgedFile))
	if err != nil {
		return a, false, ignoreMissing(err)
	}
	for _, at := range []int{0, slotDistance} {
		if slot, ok := parseAcknowledgement(content[min(at, len(content)):]); ok && (!known || slot.writing > a.writing) {
			a, known = slot, true
		}
	}
	return a, known, nil
}

func readFile(files vfs.FS, name string) (content []byte, err error) {
	file, err := files.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(file)
}

// acknowledged keeps the file. It is written without waiting for the disk, and synced now and then.
type acknowledged struct {
	log *slog.Logger

	mu      sync.Mutex
	file    vfs.File // nil before it is opened, in a store that is only read, and after it is closed
	now     acknowledgement
	pending *time.Timer // syncs what is not yet
	syncing sync.WaitGroup
	warned  bool
}

// open begins to keep the file, from the last position there is.
func (k *acknowledged) open(files vfs.FS, dir string, position uint64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	before, _, err := readAcknowledgement(files, dir)
	if err != nil {
		return err
	}
	name := files.PathJoin(dir, acknowledgedFile)
	file, err := files.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if errors.Is(err, fs.ErrNotExist) {
		file, err = files.Create(name, vfs.WriteCategoryUnspecified)
	}
	if err != nil {
		return err
	}
	k.file = file
	k.now.writing, k.now.position = before.writing, position
	if k.now.manifest.number == 0 {
		k.now.manifest = before.manifest // the database goes on with it
	}
	// Both slots, so that later writings find their room taken.
	if err := errors.Join(k.write(), k.write(), file.Sync(), syncDirectory(files, dir)); err != nil {
		k.file = nil
		return errors.Join(err, file.Close())
	}
	return nil
}

// write writes the next slot. The caller holds the lock.
func (k *acknowledged) write() error {
	k.now.writing++
	_, err := k.file.WriteAt(k.now.encode(), int64(k.now.writing%2)*slotDistance) // #nosec G115 -- 0 or 1
	return err
}

// advance notes that everything up to a position is durable.
func (k *acknowledged) advance(position uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now.position = position
	k.note()
}

// manifestSynced notes the state of the manifest, once that is durable.
func (k *acknowledged) manifestSynced(state manifestState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now.manifest = state
	k.note()
}

func (k *acknowledged) note() {
	if k.file == nil {
		return
	}
	k.warn(k.write())
	if k.pending == nil {
		k.syncing.Add(1)
		k.pending = time.AfterFunc(acknowledgedSyncEvery, k.sync)
	}
}

// warn logs it once: the file is then older than it could be, which does no harm.
func (k *acknowledged) warn(err error) {
	if err != nil && !k.warned {
		k.warned = true
		k.log.Warn("the event store can't note what it has acknowledged", "error", err)
	}
}

func (k *acknowledged) sync() {
	defer k.syncing.Done()
	k.mu.Lock()
	k.pending = nil
	file := k.file
	k.mu.Unlock()
	if file == nil {
		return
	}
	if err := file.SyncData(); err != nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.warn(err)
	}
}

// close lets go of the file. flushed says that the database was closed in order.
func (k *acknowledged) close(flushed bool) error {
	k.mu.Lock()
	if k.pending != nil && k.pending.Stop() {
		k.syncing.Done()
	}
	k.pending = nil
	file := k.file
	if file == nil {
		k.mu.Unlock()
		return nil
	}
	var err error
	if flushed {
		k.now.flushed = true
		err = k.write()
	}
	k.file = nil
	k.mu.Unlock()
	k.syncing.Wait()
	return errors.Join(err, file.Sync(), file.Close())
}

func syncDirectory(files vfs.FS, dir string) error {
	opened, err := files.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(opened.Sync(), opened.Close())
}
