package store

import (
	"testing"

	"github.com/google/uuid"
)

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
		if _, err := s.Append(t.Context(), stream, Any(), []Proposed{event}); err != nil {
			t.Fatal(err)
		}
	}
}

// A reader of all events must end at the watermark, or a subscriber would read again for ever, also if the last events
// of the log are gone.
func TestReadEndsAtWatermarkAfterScavenge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	put(t, s, "a", "x", `{}`, 3)
	put(t, s, MetadataStream("b"), MetadataType, `{"$tb":3}`, 1)
	put(t, s, "b", "x", `{}`, 3)
	if removed, err := s.Scavenge(t.Context(), nil); err != nil || removed.Events != 3 {
		t.Fatalf("scavenged %+v, %v", removed, err)
	}
	check := func(when string) {
		t.Helper()
		seen := 0
		last, end, err := s.ReadAll(0, func(Record) bool { seen++; return true })
		if err != nil || !end || last != s.Watermark() || seen != 4 {
			t.Errorf("%s: %d events up to %d of %d, end %t, %v", when, seen, last, s.Watermark(), end, err)
		}
	}
	check("after the scavenge")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	check("opened again")
	put(t, s, "a", "x", `{}`, 1)
	seen := 0
	if last, _, err := s.ReadAll(0, func(Record) bool { seen++; return true }); err != nil || seen != 5 ||
		last != s.Watermark() {
		t.Errorf("after one more: %d events up to %d of %d, %v", seen, last, s.Watermark(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
