package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Lost is a range of a stream's revisions that were acknowledged and that the database no longer gives.
type Lost struct {
	Stream string
	// First and Last are revisions, both lost.
	First, Last uint64
	// Whole says that the events are whole in the log, behind the damage.
	Whole bool
}

func (l Lost) String() string {
	state := "can't be read"
	if l.Whole {
		state = "whole, behind the damage"
	}
	return fmt.Sprintf("%d to %d of stream %q (%s)", l.First, l.Last, l.Stream, state)
}

// DamagedError says that acknowledged events are missing at the end of the log. Nothing was changed; Repair goes on
// without them.
type DamagedError struct {
	// File is the log that is damaged and At the byte; File is empty where logs just end too early.
	File string
	At   int
	// Last is the position of the last event before, up to which all can be read.
	Last uint64
	// Acknowledged is the position up to which events were acknowledged; 0 where that isn't known.
	Acknowledged uint64
	// Lost are the revisions that are known to be missing. There may be others, of which nothing is left.
	Lost []Lost
	// Unnamed says that of some missing events not even the stream is known.
	Unnamed bool

	cuts map[string]int
}

// Unwrap makes it ErrCorrupt.
func (e *DamagedError) Unwrap() error { return ErrCorrupt }

func (e *DamagedError) Error() string {
	return e.What() + ". Nothing was changed. Restore a backup; or \"carillon eventstore repair\" lists what is lost, and " +
		"with --accept-loss goes on without it"
}

const namedInMessage = 5

// What says what is readable and what is not.
func (e *DamagedError) What() string {
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

// liveLog is a log that the next opening would read.
type liveLog struct {
	name   string // without the directory
	number uint64
	walScan
}

// liveLogs reads the logs that hold what is not yet in tables.
func liveLogs(files vfs.FS, dir string, from uint64) (logs []liveLog, err error) {
	names, err := files.List(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		number, ok := logNumber(name)
		if !ok || number < from {
			continue
		}
		content, err := readFile(files, files.PathJoin(dir, name))
		if err != nil {
			return nil, err
		}
		logs = append(logs, liveLog{name: name, number: number, walScan: scanWAL(content, number)})
	}
	slices.SortFunc(logs, func(a, b liveLog) int { return cmp.Compare(a.number, b.number) })
	return logs, nil
}

func logNumber(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, ".log")
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, ok && err == nil
}

// checkLogs refuses a database that has lost acknowledged events at its end. Pebble takes what it can't read there for
// a write that a crash cut off. It is one only where nothing sound follows that was synced later, and where the
// database still reaches as far as was acknowledged.
func (s *Store) checkLogs(minLog uint64) error {
	files, dir := s.options.FS, s.options.Dir
	said, known, err := readAcknowledgement(files, dir)
	if err != nil {
		return err
	}
	logs, err := liveLogs(files, dir, minLog)
	if err != nil {
		return err
	}
	found := &DamagedError{cuts: map[string]int{}}
	if known {
		found.Acknowledged = said.position
	}
	reached, certain := uint64(0), false
	for i, log := range logs {
		for _, batch := range log.batches {
			eachRecord(batch, func(record Record, _ bool) { reached = max(reached, record.Position) })
		}
		// One that is empty was made by an opening that was killed.
		newest := !slices.ContainsFunc(logs[i+1:], func(l liveLog) bool { return len(l.batches) > 0 || l.follows })
		if log.ended && !log.follows {
			continue
		}
		if newest && !log.follows {
			break // a torn tail, if nothing acknowledged was in it
		}
		found.File, found.At = files.PathJoin(dir, log.name), log.torn
		certain = log.synced || !newest || !known
		break
	}
	if !certain && (!known || said.flushed || reached >= said.position) {
		return nil
	}
	return s.judgeLogs(found, logs, certain)
}

// judgeLogs opens the database up to the damage, without changing it, and compares what it then holds with what was
// acknowledged.
func (s *Store) judgeLogs(found *DamagedError, logs []liveLog, certain bool) (err error) {
	losses := newLosses()
	cut := false
	for _, log := range logs {
		path := s.options.FS.PathJoin(s.options.Dir, log.name)
		if cut {
			found.cuts[path] = 0
			losses.add(log.batches, true)
		} else if !log.ended || log.follows {
			cut = true
			found.cuts[path] = log.end
		}
		if cut {
			losses.add(log.later, true)
			losses.add(log.partial, false)
		}
	}
	beside, err := s.openBeside(found.cuts)
	if err != nil {
		return fmt.Errorf("read what is left: %w", err)
	}
	defer func() { err = errors.Join(err, beside.Close()) }()
	before := &Store{db: beside}
	if found.Last, err = before.recover(); err != nil {
		return err
	}
	if !certain && found.Last >= found.Acknowledged {
		return nil
	}
	if found.Lost, err = losses.list(beside); err != nil {
		return err
	}
	found.Unnamed = losses.unnamed(found.Last, found.Acknowledged)
	return found
}

// openBeside opens the database for reading as if its logs ended where cuts says.
func (s *Store) openBeside(cuts map[string]int) (*pebble.DB, error) {
	options := s.pebbleOptions()
	defer options.Cache.Unref()
	options.FS, options.ReadOnly, options.ErrorIfNotExists = cutFS{s.options.FS, cuts}, true, true
	options.Lock = s.lock
	return pebble.Open(s.options.Dir, options)
}

// cutFS shows some files shorter than they are.
type cutFS struct {
	vfs.FS
	cuts map[string]int
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
	left int
}

func (f *cutFile) Read(p []byte) (int, error) {
	if f.left == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	n, err := f.File.Read(p[:min(len(p), f.left)])
	f.left -= n
	return n, err
}
