package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// A database that lost some of its files may agree with itself and still lack events.
func TestVerifyMissesWhatIsGone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose func(s *Store, b *pebble.Batch) error
		want string // in the report; empty if all is well
	}{
		"nothing": {func(*Store, *pebble.Batch) error { return nil }, ""},
		"an event within a stream": {func(s *Store, b *pebble.Batch) error {
			return s.loseEvent(b, "a", 5)
		}, `has 6 after 4`},
		"the beginning of a stream": {func(s *Store, b *pebble.Batch) error {
			return s.loseEvent(b, "a", 0)
		}, `stream "a" begins at 1, scavenged below 0`},
		"after a scavenge": {func(s *Store, b *pebble.Batch) error {
			return s.loseEvent(b, "scavenged", 3)
		}, `stream "scavenged" begins at 4, scavenged below 3`},
		"a whole stream": {func(s *Store, b *pebble.Batch) error {
			for revision := range uint64(3) {
				if err := s.loseEvent(b, "b", revision); err != nil {
					return err
				}
			}
			return b.Delete(headKey(nil, "b"), nil)
		}, `the log lacks`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := must.Get(Open(Options{Dir: t.TempDir()}))(t)
			put(t, s, "scavenged", "x", `{}`, 6)
			put(t, s, "b", "x", `{}`, 3)
			put(t, s, MetadataStream("scavenged"), MetadataType, `{"$tb":3}`, 1)
			must.Get(s.Scavenge(t.Context(), nil))(t)
			put(t, s, "a", "x", `{}`, 9)
			batch := s.db.NewBatch()
			must.OK(t, c.lose(s, batch))
			must.OK(t, batch.Commit(pebble.Sync))
			report, err := s.Verify(t.Context(), nil)
			text := strings.Join(report.Problems, "\n")
			assert.True(t, err == nil && (report.Faults == 0) == (c.want == "") && strings.Contains(text, c.want),
				"%d faults: %s, %v, want %q", report.Faults, text, err, c.want)
			must.OK(t, s.Close())
		})
	}
}

// loseEvent forgets an event, in log and index.
func (s *Store) loseEvent(b *pebble.Batch, stream string, revision uint64) error {
	h, err := loadHead(s.db, stream)
	if err != nil {
		return err
	}
	key := indexKey(nil, h.id, revision)
	value, closer, err := s.db.Get(key)
	if err != nil {
		return err
	}
	defer func() { _ = closer.Close() }()
	position, _, err := parseIndexValue(value)
	if err != nil {
		return err
	}
	if err := b.Delete(key, nil); err != nil {
		return err
	}
	return b.Delete(logKey(nil, position), nil)
}

// Earlier versions took any bytes as names. Their streams are found.
func TestVerifyFindsNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	s := must.Get(Open(Options{Dir: t.TempDir()}))(t)
	for _, name := range []struct{ stream, eventType string }{{"good", "bad\xff"}, {"bad\xff", "good"}, {"good", "good"}} {
		event := Propose(EventContent{ID: EventID{1}, Stream: name.stream, Type: name.eventType})
		must.Get(s.Append(context.Background(), name.stream, Any(), []Proposed{event}))(t)
	}
	report, err := s.Verify(t.Context(), nil)
	assert.True(t, err == nil && report.Faults == 2 && strings.Contains(report.Problems[0], "not UTF-8"),
		"%+v, %v", report, err)
	mustClose(t, s)
}

// put appends events one by one, each with a new id.
func put(t *testing.T, s *Store, stream, eventType, data string, n int) {
	t.Helper()
	for range n {
		event := Propose(EventContent{
			ID:     EventID(uuid.New()),
			Stream: stream,
			Type:   eventType,
			JSON:   true,
			Data:   []byte(data),
		})
		must.Get(s.Append(t.Context(), stream, Any(), []Proposed{event}))(t)
	}
}

// A reader of all events must end at the watermark, or a subscriber would read again for ever, also if the last events
// of the log are gone.
func TestReadEndsAtWatermarkAfterScavenge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := must.Get(Open(Options{Dir: dir}))(t)
	put(t, s, "a", "x", `{}`, 3)
	put(t, s, MetadataStream("b"), MetadataType, `{"$tb":3}`, 1)
	put(t, s, "b", "x", `{}`, 3)
	must.Equal(t, must.Get(s.Scavenge(t.Context(), nil))(t).Events, 3, "scavenged")
	check := func(when string, want int) {
		t.Helper()
		seen := 0
		last, end, err := s.ReadAll(0, func(Record) bool { seen++; return true })
		if err != nil || !end || last != s.Watermark() || seen != want {
			t.Errorf("%s: %d events up to %d of %d, end %t, %v", when, seen, last, s.Watermark(), end, err)
		}
	}
	check("after the scavenge", 4)
	mustClose(t, s)
	s = must.Get(Open(Options{Dir: dir}))(t)
	check("opened again", 4)
	put(t, s, "a", "x", `{}`, 1)
	check("after one more", 5)
	mustClose(t, s)
}

// Pebble would open a store with a damaged manifest as an older state of itself, and remove the files of the newer one.
func TestDamagedManifestIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := must.Get(Open(Options{Dir: dir}))(t)
	put(t, s, "a", "x", `{}`, 20)
	if err := s.db.Flush(); err != nil { // an edit of the manifest, and closing is another
		t.Fatal(err)
	}
	put(t, s, "a", "x", `{}`, 20)
	must.OK(t, s.Close())
	about := must.Get(pebble.Peek(dir, vfs.Default))(t)
	intact := must.Get(os.ReadFile(about.ManifestFilename))(t)
	before := must.Get(filepath.Glob(filepath.Join(dir, "*.sst")))(t)
	write := func(content []byte) {
		t.Helper()
		must.OK(t, os.WriteFile(about.ManifestFilename, content, 0o600))
	}
	for at := 0; at < len(intact); at += 3 {
		damaged := append([]byte(nil), intact...)
		damaged[at] ^= 0x15
		write(damaged)
		if s, err := Open(Options{Dir: dir}); err == nil {
			t.Fatalf("damaged at byte %d of %d, it opens: %v", at, len(intact), s.Close())
		} else if !errors.Is(err, ErrCorrupt) {
			t.Errorf("damaged at byte %d: %v", at, err)
		}
	}
	assert.Equal(t, len(must.Get(filepath.Glob(filepath.Join(dir, "*.sst")))(t)), len(before), "tables are left")
	// An edit that a crash cut off was never relied upon.
	write(append(append([]byte(nil), intact...), intact[:20]...))
	s = must.Get(Open(Options{Dir: dir}))(t)
	assert.Equal(t, countAll(t, s), 40, "events")
	mustClose(t, s)
}

// Missing tables can't be repaired by leaving more out.
func TestGapBeforeLogIsReported(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := must.Get(Open(Options{Dir: dir}))(t)
	mustAppend(t, s, "s", 3)
	must.OK(t, s.db.Delete(logKey(nil, firstPosition), pebble.Sync))
	here := copyOf(t, dir)
	mustClose(t, s)
	before := filesOf(t, here)
	_, err := Open(Options{Dir: here})
	assert.True(t, errors.Is(err, ErrCorrupt) && sameFiles(before, filesOf(t, here)), "it opens: %v", err)
}
