package store

import (
	"fmt"
	"testing"
	"time"
)

// Flushed tables are compacted before writers would have to wait, although nothing polls for them.
func TestCompactionsKeepUpWithoutPolling(t *testing.T) {
	t.Parallel()
	s, err := Open(Options{Dir: t.TempDir(), MemTableBytes: 64 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	data := make([]byte, 4<<10)
	for i := range 400 {
		stream := fmt.Sprintf("thing-%d", i)
		event := Propose(EventContent{Stream: stream, Type: "thing.happened", Data: data})
		if _, err := s.Append(t.Context(), stream, Any(), []Proposed{event}); err != nil {
			t.Fatal(err)
		}
	}
	within := time.After(patience)
	for {
		metrics := s.db.Metrics()
		if metrics.Compact.Count > 0 && metrics.Levels[0].Sublevels < 4 && metrics.Compact.NumInProgress == 0 {
			return
		}
		select {
		case <-within:
			t.Fatalf("%s", metrics)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
