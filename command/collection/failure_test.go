package collection

import (
	"testing"

	"carillon/command/collect"
)

// TestEachReasonHasAnAdvice shows that every failure of a source comes with an advice for operators.
func TestEachReasonHasAnAdvice(t *testing.T) {
	t.Parallel()
	for _, reason := range append(Reasons(), noteUnstorable) {
		if Advice(reason) == "" {
			t.Errorf("there is no advice on %s", reason)
		}
	}
	for _, code := range []collect.NoteCode{
		collect.NoteNoEvents, collect.NoteNeedsJavaScript, collect.NoteSkippedEvent, collect.NoteBrokenMarkup,
		collect.NoteAssumedTimezone, collect.NotePageFailed, collect.NoteLeftOut, collect.NoteTruncated,
	} {
		if Advice(string(code)) == "" {
			t.Errorf("there is no advice on the note %s", code)
		}
	}
	if got := Advice("what nobody knows"); got != "" {
		t.Errorf("advice on what nobody knows: %s", got)
	}
}
