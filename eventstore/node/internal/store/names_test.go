package store

import (
	"context"
	"strings"
	"testing"
)

// Earlier versions took any bytes as names. Their streams are found.
func TestVerifyFindsNamesThatAreNotUTF8(t *testing.T) {
	t.Parallel()
	s, err := Open(Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []struct{ stream, eventType string }{{"good", "bad\xff"}, {"bad\xff", "good"}, {"good", "good"}} {
		event := Propose(EventContent{ID: EventID{1}, Stream: name.stream, Type: name.eventType})
		if _, err := s.Append(context.Background(), name.stream, Any(), []Proposed{event}); err != nil {
			t.Fatal(err)
		}
	}
	report, err := s.Verify(t.Context(), nil)
	if err != nil || report.Faults != 2 || !strings.Contains(report.Problems[0], "not UTF-8") {
		t.Errorf("%+v, %v", report, err)
	}
	mustClose(t, s)
}
