package store

import (
	"errors"
	"strconv"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
)

func opened(t *testing.T, options Options) *Store {
	t.Helper()
	options.Dir, options.FS = "store", vfs.NewMem()
	s, err := Open(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// begin appends the first event of a stream.
func begin(t *testing.T, s *Store, stream string) error {
	t.Helper()
	_, err := s.Append(t.Context(), stream, NoStream(), []Proposed{
		Propose(EventContent{
			ID:     EventID(uuid.New()),
			Stream: stream,
			Type:   "t",
			JSON:   true,
			Data:   []byte("{}"),
		}),
	})
	return err
}

// Heads that were written and have left the cache are found again.
func TestHeadsThatLeftTheCacheAreKnown(t *testing.T) {
	t.Parallel()
	s := opened(t, Options{Heads: minHeads})
	const streams = 5 * minHeads
	for i := range streams {
		if err := begin(t, s, "thing-"+strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range streams {
		var wrong *WrongRevisionError
		if err := begin(t, s, "thing-"+strconv.Itoa(i)); !errors.As(err, &wrong) || wrong.Current != 0 {
			t.Fatalf("stream %d is begun a second time: %v", i, err)
		}
	}
}
