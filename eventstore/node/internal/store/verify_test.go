package store

import (
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
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
			s, err := Open(Options{Dir: t.TempDir()})
			if err != nil {
				t.Fatal(err)
			}
			put(t, s, "scavenged", "x", `{}`, 6)
			put(t, s, "b", "x", `{}`, 3)
			put(t, s, MetadataStream("scavenged"), MetadataType, `{"$tb":3}`, 1)
			if _, err := s.Scavenge(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
			put(t, s, "a", "x", `{}`, 9)
			batch := s.db.NewBatch()
			if err := c.lose(s, batch); err != nil {
				t.Fatal(err)
			}
			if err := batch.Commit(pebble.Sync); err != nil {
				t.Fatal(err)
			}
			report, err := s.Verify(t.Context(), nil)
			if text := strings.Join(report.Problems, "\n"); err != nil || (report.Faults == 0) != (c.want == "") ||
				!strings.Contains(text, c.want) {
				t.Errorf("%d faults: %s, %v, want %q", report.Faults, text, err, c.want)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
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
