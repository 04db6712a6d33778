package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2"
)

// Report is the result of Verify.
type Report struct {
	Events  uint64 `json:"events"`
	Bytes   uint64 `json:"bytes"`
	Streams uint64 `json:"streams"`
	// Problems are the first faults; Faults is the number of all.
	Problems []string `json:"problems,omitempty"`
	Faults   uint64   `json:"faults"`
}

// OK reports whether nothing is wrong.
func (r Report) OK() bool { return r.Faults == 0 }

const (
	maxProblems = 100
	// progressEvery is how many records go by between two calls of progress.
	progressEvery = 1024
	verifyHeads   = 64 << 10
)

// Verify reads everything there is at this moment: each record against its checksum, the log against the index and
// back, and the heads against both. Only a failure to read on is an error; faults are in the report. progress is called
// now and then with the part that is done.
func (s *Store) Verify(ctx context.Context, progress func(done, total uint64)) (report Report, err error) {
	snapshot := s.db.NewSnapshot()
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	v := &verification{reader: snapshot, report: &report, progress: progress}
	v.heads = newHeadCache(verifyHeads, func(stream string) (head, error) { return loadHead(snapshot, stream) })
	for _, pass := range []func(context.Context) error{v.verifyLog, v.verifyIndex, v.verifyHeads} {
		switch err := pass(ctx); {
		case pebble.IsCorruptionError(err), errors.Is(err, ErrCorrupt):
			v.unreadable(err) // a block that can't be read ends the pass
		case err != nil:
			return report, fmt.Errorf("verify: %w", err)
		}
	}
	if progress != nil {
		progress(v.total, v.total)
	}
	return report, nil
}

type verification struct {
	reader   pebble.Reader
	report   *Report
	progress func(done, total uint64)
	heads    *headCache
	total    uint64
	seen     uint64
	next     uint64 // position that the log goes on at
	missing  uint64 // bytes of the log
	logRead  bool   // to its end
}

func (v *verification) fault(format string, args ...any) {
	v.report.Faults++
	if len(v.report.Problems) < maxProblems {
		v.report.Problems = append(v.report.Problems, fmt.Sprintf(format, args...))
	}
}

// unreadable notes a block that can't be read. The next pass may meet it again.
func (v *verification) unreadable(err error) {
	first, _, _ := strings.Cut(err.Error(), "\n")
	if !slices.Contains(v.report.Problems, first) {
		v.fault("%s", first)
	}
}

// scan calls visit for all keys with a prefix.
func (v *verification) scan(ctx context.Context, prefix byte, visit func(key, value []byte) error) (err error) {
	iter, err := v.reader.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	if prefix == prefixLog && iter.Last() {
		if v.total, err = parseLogKey(iter.Key()); err != nil {
			return err
		}
	}
	for ok := iter.First(); ok; ok = iter.Next() {
		if v.seen++; v.seen%progressEvery == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if err := visit(iter.Key(), iter.Value()); err != nil {
			return err
		}
	}
	return iter.Error()
}

func (v *verification) verifyLog(ctx context.Context) error {
	v.next = firstPosition
	err := v.scan(ctx, prefixLog, func(key, value []byte) error {
		position, err := parseLogKey(key)
		if err != nil {
			v.fault("%v", err)
			return nil
		}
		v.report.Events++
		v.report.Bytes += uint64(len(value))
		if position < v.next {
			v.fault("record at %d overlaps the one before", position)
		} else {
			v.missing += position - v.next
		}
		v.next = position + uint64(len(value))
		if v.progress != nil && v.report.Events%progressEvery == 0 {
			v.progress(position, v.total)
		}
		record, err := parseRecord(position, value)
		if err == nil {
			err = record.verify()
		}
		if err == nil {
			_, _, err = record.Content()
		}
		if err != nil {
			v.fault("%v", err)
			return nil
		}
		return v.verifyIndexed(record)
	})
	if err != nil {
		return err
	}
	v.logRead = true
	return v.verifyMissing()
}

// verifyMissing compares the gaps in the log with the scavenged events: a record begins at the end of the one before.
func (v *verification) verifyMissing() error {
	floor, err := getMeta(v.reader, nextPositionKey)
	if err != nil {
		return err
	}
	erased, err := getMeta(v.reader, erasedKey)
	if err != nil {
		return err
	}
	if floor > v.next {
		v.missing += floor - v.next
	}
	if v.missing != erased && accounted(floor, erased) {
		v.fault("the log lacks %d bytes, of which scavenges removed %d", v.missing, erased)
	}
	return nil
}

// verifyIndexed looks for the index entry of a record.
func (v *verification) verifyIndexed(record Record) error {
	name, eventType, err := record.Names()
	if err != nil {
		v.fault("%v", err)
		return nil
	}
	if !utf8.Valid(name) || !utf8.Valid(eventType) {
		v.fault("%d of stream %q, of type %q at %d, has a name that is not UTF-8: clients can't read it, "+
			"nor $all beyond it. "+
			"Hide it with $tb or delete its stream, then scavenge", record.Revision(), name, eventType, record.Position)
	}
	h, err := v.heads.get(string(name))
	v.heads.applied()
	if err != nil {
		return err
	}
	if int64(record.Revision()) > h.last { // #nosec G115 -- at most MaxRevision
		v.fault("stream %q ends at %d, but the log has %d at %d", name, h.last, record.Revision(), record.Position)
	}
	value, closer, err := v.reader.Get(indexKey(nil, h.id, record.Revision()))
	if errors.Is(err, pebble.ErrNotFound) {
		v.fault("record at %d, %d of stream %q, is not in the index", record.Position, record.Revision(), name)
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = closer.Close() }()
	position, id, err := parseIndexValue(value)
	switch {
	case err != nil:
		v.fault("%v", err)
	case position != record.Position || id != record.ID():
		v.fault("index has %d of stream %q at %d, the log at %d", record.Revision(), name, position, record.Position)
	}
	return nil
}

// verifyIndex counts: each record has its entry, so the same number means that no entry lacks its record. Within a
// stream each revision follows the one before, but for that of a tombstone.
func (v *verification) verifyIndex(ctx context.Context) error {
	entries, lastID, lastRevision := uint64(0), uint64(0), uint64(0)
	err := v.scan(ctx, prefixIndex, func(key, value []byte) error {
		entries++
		id, revision, err := parseIndexKey(key)
		if _, _, valueErr := parseIndexValue(value); err != nil || valueErr != nil {
			v.fault("%v", errors.Join(err, valueErr))
		}
		if id == lastID && revision != lastRevision+1 && revision != MaxRevision {
			v.fault("the stream that begins at %d has %d after %d", id, revision, lastRevision)
		}
		lastID, lastRevision = id, revision
		return nil
	})
	if err == nil && v.logRead && entries != v.report.Events {
		v.fault("the index has %d entries for %d records", entries, v.report.Events)
	}
	return err
}

func (v *verification) verifyHeads(ctx context.Context) error {
	return v.scan(ctx, prefixHead, func(key, value []byte) error {
		name := string(key[1:])
		h, err := parseHead(value)
		if err != nil {
			v.fault("stream %q: %v", name, err)
			return nil
		}
		v.report.Streams++
		first, last, err := v.indexed(h.id)
		if err != nil {
			return err
		}
		if first != MaxRevision && first >= 0 && uint64(first) != h.floor {
			v.fault("stream %q begins at %d, scavenged below %d", name, first, h.floor)
		}
		want := h.last
		if want >= 0 && h.floor > uint64(want) { // all scavenged
			want = -1
		}
		if last != want {
			v.fault("stream %q ends at %d, its index at %d, scavenged below %d", name, h.last, last, h.floor)
		}
		return v.verifySettings(Stream{Name: name, head: h})
	})
}

// indexed is the range of revisions that the index has of a stream, -1 if it has none.
func (v *verification) indexed(id uint64) (first, last int64, err error) {
	if id == 0 {
		return -1, -1, nil
	}
	iter, err := v.reader.NewIter(&pebble.IterOptions{
		LowerBound: indexKey(nil, id, 0), UpperBound: indexKey(nil, id+1, 0),
	})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	if !iter.First() {
		return -1, -1, iter.Error()
	}
	_, from, err := parseIndexKey(iter.Key())
	if err != nil || !iter.Last() {
		return 0, 0, errors.Join(err, iter.Error())
	}
	_, to, err := parseIndexKey(iter.Key())
	return int64(from), int64(to), err // #nosec G115 -- at most MaxRevision
}

// verifySettings compares a stream's settings with the metadata they come from.
func (v *verification) verifySettings(stream Stream) error {
	if _, ok := DescribedStream(stream.Name); ok {
		return nil
	}
	meta, err := loadHead(v.reader, MetadataStream(stream.Name))
	if err != nil {
		return err
	}
	want, earlier := Settings{}, Settings{}
	if meta.last >= 0 {
		record, err := v.recordOf(meta.id, uint64(meta.last))
		if err != nil {
			v.fault("metadata of stream %q: %v", stream.Name, err)
			return nil
		}
		_, eventType, err := record.Names()
		_, data, dataErr := record.Content()
		if err := errors.Join(err, dataErr); err != nil {
			v.fault("metadata of stream %q: %v", stream.Name, err)
			return nil
		}
		want, earlier = parseSettings(record.IsJSON(), data), earlierSettings(string(eventType), data)
	}
	if want != stream.settings && earlier != stream.settings {
		v.fault("stream %q has settings %+v, its metadata says %+v", stream.Name, stream.settings, want)
	}
	return nil
}

func (v *verification) recordOf(id, revision uint64) (Record, error) {
	value, closer, err := v.reader.Get(indexKey(nil, id, revision))
	if err != nil {
		return Record{}, err
	}
	position, _, err := parseIndexValue(value)
	if err := errors.Join(err, closer.Close()); err != nil {
		return Record{}, err
	}
	if value, closer, err = v.reader.Get(logKey(nil, position)); err != nil {
		return Record{}, err
	}
	defer func() { _ = closer.Close() }()
	record, err := parseRecord(position, value)
	if err != nil {
		return Record{}, err
	}
	return record.Clone(), nil
}
