package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Store keeps events. Its methods may be called from any goroutine.
type Store struct {
	options   Options
	log       *slog.Logger
	fs        vfs.FS
	db        *pebble.DB
	lock      *pebble.Lock
	said      acknowledged
	space     *spaceGuard
	queue     *queue
	watermark atomic.Uint64
	advanced  broadcast

	sequencer *sequencing
	// Owned by the sequencer.
	heads       *headCache
	lookups     *cursor // of heads for the present batch; nil if it needed none
	next        uint64  // position of the next event
	erasedBytes uint64  // of the log, ever
	accounted   bool    // whether they are known
	lastCreated int64
	recent      *recentIDs

	scavenging chan struct{} // full while one scavenges

	working  sync.WaitGroup
	closing  chan struct{}
	ending   sync.Once
	failed   chan struct{}
	failOnce sync.Once
	failure  error
}

// firstPosition leaves room below, so that no event has position 0.
const firstPosition = 1 << 9

// Open opens the store in a directory, or creates it there. It takes the time to replay what was not yet flushed, at
// most Options.MemTableBytes a few times, whatever the size of the store.
func Open(options Options) (*Store, error) {
	options = options.withDefaults()
	s := &Store{
		options: options,
		log:     options.Logger,
		queue:   newQueue(queueBytes),
		recent:  newRecentIDs(options.Original),
		closing: make(chan struct{}),
		failed:  make(chan struct{}),

		scavenging: make(chan struct{}, 1),
	}
	s.said.log = s.log
	s.space = newSpaceGuard(options.FS, options.Dir, options.MinFreeBytes, s.log)
	s.space.manifestSynced = s.said.manifestSynced
	s.fs = s.space
	s.heads = newHeadCache(options.Heads, s.lookUpHead)
	s.sequencer = newSequencing(s)
	if err := s.openDatabase(); err != nil {
		return nil, err
	}
	last, err := s.recover()
	if err != nil {
		err = s.unreadable(err)
	} else {
		err = s.acknowledgeFrom(last)
	}
	if err != nil {
		return nil, errors.Join(err, s.db.Close(), s.lock.Close())
	}
	s.watermark.Store(last)
	s.space.opened.Store(true)
	s.working.Add(1)
	go s.sync(s.sequencer.pipe)
	return s, nil
}

func (s *Store) openDatabase() (err error) {
	dir := s.options.Dir
	defer func() {
		if err != nil {
			err = errors.Join(err, s.unlock())
		}
	}()
	// A directory that was never opened has no lock file, and may hold anything.
	if _, err := s.options.FS.Stat(s.options.FS.PathJoin(dir, lockFile)); err == nil {
		if s.lock, err = lockDirectory(s.fs, dir); err != nil {
			return err
		}
	}
	if err := checkMarkers(s.options.FS, dir); err != nil {
		return fmt.Errorf("open event store in %s: %w", dir, err)
	}
	if s.lock == nil {
		if err := s.makeDirectory(); err != nil {
			return fmt.Errorf("open event store in %s: %w", dir, err)
		}
		if s.lock, err = lockDirectory(s.fs, dir); err != nil {
			return err
		}
	}
	if err := s.checkDamage(); err != nil {
		return fmt.Errorf("open event store in %s: %w", dir, err)
	}
	if private, ok := s.options.FS.(privateFS); ok && !s.options.ReadOnly {
		if err := private.close(dir); err != nil {
			return err
		}
	}
	options := s.pebbleOptions()
	defer options.Cache.Unref()
	options.Lock = s.lock
	if s.db, err = pebble.Open(dir, options); err != nil {
		return s.unreadable(err)
	}
	return nil
}

// unreadable returns the error of a database that does not open: ErrCorrupt with the remedy if a table is damaged.
func (s *Store) unreadable(err error) error {
	if pebble.IsCorruptionError(err) || errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w. %s", ErrCorrupt, err, keepAdvice)
	}
	return fmt.Errorf("open event store in %s: %w", s.options.Dir, err)
}

// checkDamage refuses a database that has lost something, before anything is written there.
func (s *Store) checkDamage() error {
	said, _, err := readAcknowledgement(s.options.FS, s.options.Dir)
	if err != nil {
		return err
	}
	verified, exists, err := checkManifest(s.options.FS, s.options.Dir, said.manifest)
	if err != nil || !exists || verified && said.flushed {
		return err
	}
	return s.checkEnd(said.position)
}

// makeDirectory makes the directory of a new store.
func (s *Store) makeDirectory() error {
	if _, err := s.options.FS.Stat(s.options.Dir); err == nil || s.options.MustExist {
		return err
	}
	return s.fs.MkdirAll(s.options.Dir, 0o700)
}

// lockFile is held by the process that uses the database.
const lockFile = "LOCK"

func lockDirectory(files vfs.FS, dir string) (*pebble.Lock, error) {
	lock, err := pebble.LockDirectory(dir, files)
	if errors.Is(err, syscall.EAGAIN) {
		return nil, fmt.Errorf("the event store in %s is in use by another process: is a server running there?", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("open event store in %s: %w", dir, err)
	}
	return lock, nil
}

func (s *Store) unlock() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// acknowledgeFrom compares the last event with the acknowledged position, and goes on noting that.
func (s *Store) acknowledgeFrom(last uint64) error {
	said, known, err := readAcknowledgement(s.options.FS, s.options.Dir)
	if err != nil {
		return err
	}
	if known && last < said.position {
		return fmt.Errorf("open event store in %s: %w", s.options.Dir, &DamagedError{
			Last: last, Acknowledged: said.position, Unnamed: true,
		})
	}
	if s.options.ReadOnly {
		return nil
	}
	if err := s.said.open(s.options.FS, s.options.Dir, last); err != nil {
		return fmt.Errorf("note what is acknowledged: %w", err)
	}
	return nil
}

// recover finds the last event and with it everything the sequencer goes on from.
func (s *Store) recover() (last uint64, err error) {
	s.next = firstPosition
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixLog}, UpperBound: []byte{prefixLog + 1}})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	if iter.Last() {
		if last, err = parseLogKey(iter.Key()); err != nil {
			return 0, err
		}
		record, err := parseRecord(last, iter.Value())
		if err != nil {
			return 0, err
		}
		if err := record.verify(); err != nil {
			return 0, err
		}
		s.next = last + uint64(len(record.value))
		s.lastCreated = record.Created()
	}
	if err := iter.Error(); err != nil {
		return 0, err
	}
	floor, err := getMeta(s.db, nextPositionKey)
	if err != nil {
		return 0, err
	}
	if s.erasedBytes, err = getMeta(s.db, erasedKey); err != nil {
		return 0, err
	}
	s.accounted = accounted(floor, s.erasedBytes)
	if floor > 0 {
		// The last events may have been scavenged; events before the floor are durable all the same.
		s.next, last = max(s.next, floor), max(last, floor-1)
	}
	return last, nil
}

// getMeta reads a number; 0 if there is none.
func getMeta(reader pebble.Reader, key []byte) (uint64, error) {
	value, closer, err := reader.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", key, err)
	}
	defer func() { _ = closer.Close() }()
	if len(value) != 8 {
		return 0, fmt.Errorf("%w: %s has %d bytes", ErrCorrupt, key, len(value))
	}
	return binary.BigEndian.Uint64(value), nil
}

// Watermark is the position of the last durable event; 0 if there is none.
func (s *Store) Watermark() uint64 { return s.watermark.Load() }

// Advanced returns a channel that is closed when the watermark next moves.
func (s *Store) Advanced() <-chan struct{} { return s.advanced.wait() }

// Closing is closed by BeginClose: long-lived readers should end.
func (s *Store) Closing() <-chan struct{} { return s.closing }

// Failed is closed when the store can no longer be trusted with writes; see Err. The process should end: memory may
// differ from the disk, and only opening again shows it.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Err is why the store has failed; nil unless Failed is closed.
func (s *Store) Err() error {
	select {
	case <-s.failed:
		return s.failure
	default:
		return nil
	}
}

func (s *Store) fail(err error) {
	s.failOnce.Do(func() {
		s.failure = fmt.Errorf("%w: %w", ErrFailed, err)
		close(s.failed)
		s.log.Error("event store failed; it takes no more writes", "error", err)
	})
}

// BeginClose ends long-lived readers. Writes still work.
func (s *Store) BeginClose() { s.ending.Do(func() { close(s.closing) }) }

// Close writes what was accepted and closes the database. Readers must have ended. After a failure it only lets go:
// a database that failed to write can't be closed in order.
func (s *Store) Close() error {
	s.BeginClose()
	s.queue.close()
	s.space.close()
	closed := make(chan error, 1)
	go func() {
		s.sequencer.end()
		s.working.Wait()
		if s.Err() == nil {
			closed <- s.closeDatabase()
		}
	}()
	select {
	case err := <-closed:
		return err
	case <-s.failed:
		return s.failure
	}
}

func (s *Store) closeDatabase() error {
	if s.options.ReadOnly {
		return errors.Join(s.db.Close(), s.lock.Close())
	}
	// Flushed now, the next opening has nothing to replay.
	err := errors.Join(s.db.Flush(), s.db.Close())
	if err = errors.Join(err, s.said.close(err == nil), s.lock.Close()); err != nil {
		return fmt.Errorf("close event store: %w", err)
	}
	return nil
}

// pebbleLogger passes on Pebble's messages. Its informational lines are about every file it touches.
type pebbleLogger struct{ s *Store }

func (l pebbleLogger) Infof(string, ...any) {}

func (l pebbleLogger) Errorf(format string, args ...any) {
	l.s.log.Warn("event store database", "message", fmt.Sprintf(format, args...))
}

// Fatalf must not return, as Pebble would go on in a state it does not know. Holding the goroutine stops the database
// if it is, and the store reports its failure.
func (l pebbleLogger) Fatalf(format string, args ...any) {
	l.s.fail(fmt.Errorf(format, args...))
	select {}
}
