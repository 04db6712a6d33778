package store

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// Lost is a range of a stream's revisions that were acknowledged and that the database no longer has.
type Lost struct {
	Stream string
	// First and Last are revisions, both lost.
	First, Last uint64
	// Whole means that the events are whole in the log, behind the damage.
	Whole bool
}

func (l Lost) String() string {
	state := "can't be read"
	if l.Whole {
		state = "whole, behind the damage"
	}
	return fmt.Sprintf("%d to %d of stream %q (%s)", l.First, l.Last, l.Stream, state)
}

// DamagedError reports that acknowledged events are missing at the end of the log. Nothing was changed; Repair goes on
// without them.
type DamagedError struct {
	// File is the log that is damaged and At the byte; File is empty if logs just end too early.
	File string
	At   int64
	// Last is the position of the last event before, up to which all can be read.
	Last uint64
	// Acknowledged is the position up to which events were acknowledged; 0 if that isn't known.
	Acknowledged uint64
	// Lost are the revisions that are known to be missing.
	Lost []Lost
	// Unnamed means that there may be others, of which nothing is left.
	Unnamed bool

	cuts map[string]int64
}

// Unwrap makes it ErrCorrupt.
func (e *DamagedError) Unwrap() error { return ErrCorrupt }

func (e *DamagedError) Error() string {
	return e.Summary() + ". Nothing was changed. Restore a backup; or \"carillon eventstore repair\" lists what is " +
		"lost, and " +
		"with --accept-loss goes on without it"
}

const namedInMessage = 5

// Summary describes the readable and the unreadable part.
func (e *DamagedError) Summary() string {
	var b strings.Builder
	if e.File != "" {
		fmt.Fprintf(&b, "%s is damaged at byte %d", e.File, e.At)
	} else {
		b.WriteString("the log ends too early")
	}
	fmt.Fprintf(&b, ": events up to position %d can be read", e.Last)
	if e.Acknowledged > e.Last {
		fmt.Fprintf(&b, ", those after it up to %d, which were acknowledged, can't", e.Acknowledged)
	} else {
		b.WriteString(", those after it can't")
	}
	for i, lost := range e.Lost {
		if i == namedInMessage {
			fmt.Fprintf(&b, "; and %d more ranges", len(e.Lost)-i)
			break
		}
		fmt.Fprintf(&b, "; %s", lost)
	}
	return b.String()
}

// checkEnd refuses a database that has lost acknowledged events. Pebble refuses a log only if what follows proves that
// it is damaged, and else takes damage for a write that a crash cut off. So the database is opened for reading, which
// changes nothing, and must reach what was acknowledged without a gap.
func (s *Store) checkEnd(acknowledged uint64) error {
	logs, err := wal.Scan(wal.Dir{FS: s.options.FS, Dirname: s.options.Dir})
	if err != nil {
		return err
	}
	sound, err := s.reaches(acknowledged, logs)
	if sound || err != nil {
		return err
	}
	return s.assessDamage(acknowledged, logs)
}

// reaches reports whether the database reaches a position, and has all events that logs may hold.
func (s *Store) reaches(position uint64, logs wal.Logs) (sound bool, err error) {
	beside, err := s.openBeside(nil)
	if pebble.IsCorruptionError(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, beside.db.Close()) }()
	last, err := beside.recover()
	if err != nil || last < position {
		return false, err
	}
	gap, err := beside.hasGap(logs)
	return !gap, err
}

// hasGap reports whether a record is missing among the last, as many as logs may hold. Each begins at the end of the
// one before, unless the events between were scavenged: those are below the position that was next then.
func (s *Store) hasGap(logs wal.Logs) (gap bool, err error) {
	bytes := uint64(0)
	for _, log := range logs {
		size, err := log.PhysicalSize()
		if err != nil {
			return false, err
		}
		bytes += size
	}
	floor, err := getMeta(s.db, nextPositionKey)
	if err != nil {
		return false, err
	}
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixLog}, UpperBound: []byte{prefixLog + 1}})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	ok, next := iter.SeekLT(logKey(nil, s.next-min(bytes, s.next))), uint64(0)
	if !ok {
		ok, next = iter.First(), firstPosition
	}
	for ; ok; ok = iter.Next() {
		position, err := parseLogKey(iter.Key())
		if err != nil {
			return false, err
		}
		if next > 0 && position > max(next, floor) {
			return true, nil
		}
		next = position + uint64(len(iter.Value()))
	}
	return false, iter.Error()
}

// assessDamage finds the last usable position of the database, and the events behind it.
func (s *Store) assessDamage(acknowledged uint64, logs wal.Logs) (err error) {
	found := &DamagedError{Acknowledged: acknowledged, cuts: map[string]int64{}}
	none := map[string]int64{}
	for _, log := range logs {
		_, path := log.SegmentLocation(0)
		none[filepath.Clean(path)] = 0
	}
	tables, err := s.openBeside(none)
	if err != nil {
		return fmt.Errorf("%w: %w. %s", ErrCorrupt, err, restoreAdvice)
	}
	_, err = tables.recover()
	if err := errors.Join(err, tables.db.Close()); err != nil {
		return err
	}
	if err := found.cut(logs, tables.next); err != nil {
		return err
	}
	beside, err := s.openBeside(found.cuts)
	if err != nil {
		return fmt.Errorf("%w: %w. %s", ErrCorrupt, err, restoreAdvice)
	}
	defer func() { err = errors.Join(err, beside.db.Close()) }()
	if found.Last, err = beside.recover(); err != nil {
		return err
	}
	if gap, err := beside.hasGap(logs); gap || err != nil {
		return errors.Join(err, fmt.Errorf("%w: events are missing before the end of the log. %s", ErrCorrupt, restoreAdvice))
	}
	if err := found.list(s.options.FS, beside); err != nil {
		return err
	}
	return found
}

// openBeside opens the database for reading as if its logs ended where cuts says. The caller closes its db.
func (s *Store) openBeside(cuts map[string]int64) (*Store, error) {
	options := s.pebbleOptions()
	defer options.Cache.Unref()
	options.FS, options.ReadOnly, options.ErrorIfNotExists = cutFS{s.options.FS, cuts}, true, true
	options.Lock = s.lock
	db, err := pebble.Open(s.options.Dir, options)
	return &Store{db: db}, err
}

// cutFS shows some files shorter than they are.
type cutFS struct {
	vfs.FS
	cuts map[string]int64
}

func (c cutFS) Open(name string, options ...vfs.OpenOption) (vfs.File, error) {
	file, err := c.FS.Open(name, options...)
	if length, ok := c.cuts[filepath.Clean(name)]; ok && err == nil {
		return &cutFile{File: file, left: length}, nil
	}
	return file, err
}

type cutFile struct {
	vfs.File
	left int64
}

func (f *cutFile) Read(p []byte) (int, error) {
	if f.left == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	n, err := f.File.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	return n, err
}
