package visiting

import (
	"strings"
	"testing"

	"carillon/aggregates/source"
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
	if got := Advice("unknown"); got != "" {
		t.Errorf("advice on an unknown reason: %s", got)
	}
}

// Failures that last are failures that there are, and none whose advice is to wait.
func TestLastingReasonsNeedSomebody(t *testing.T) {
	t.Parallel()
	lasting := 0
	for _, reason := range Reasons() {
		if source.Lasting(reason) {
			lasting++
			if strings.HasPrefix(Advice(reason), "nothing") {
				t.Errorf("%s lasts, and its advice is %q", reason, Advice(reason))
			}
		}
	}
	if lasting != 10 {
		t.Errorf("%d lasting reasons are reasons of failures, want all 10", lasting)
	}
}
