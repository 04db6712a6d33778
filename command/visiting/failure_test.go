package visiting

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// TestEachReasonHasAnAdvice shows that every failure of a source comes with an advice for operators.
func TestEachReasonHasAnAdvice(t *testing.T) {
	t.Parallel()
	for _, reason := range append(Reasons(), noteUnstorable) {
		assert.True(t, Advice(reason) != "", "there is no advice on %s", reason)
	}
	for _, code := range []collect.NoteCode{
		collect.NoteNoEvents, collect.NoteNeedsJavaScript, collect.NoteSkippedEvent, collect.NoteBrokenMarkup,
		collect.NoteAssumedTimezone, collect.NotePageFailed, collect.NoteLeftOut, collect.NoteTruncated,
	} {
		assert.True(t, Advice(string(code)) != "", "there is no advice on the note %s", code)
	}
	assert.Equal(t, Advice("unknown"), "", "advice on an unknown reason")
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
	assert.Equal(t, lasting, 10, "lasting reasons are reasons of failures, want all 10")
}

func TestBacklogDelaysPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &Backlog{}
		first := b.hold(maxUnrecorded - 1)
		must.OK(t, b.Wait(t.Context()))
		second := b.hold(200) // a page may exceed the limit
		gone, errGone := make(chan error, 1), errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { gone <- b.Wait(ctx) }()
		waited := make(chan error, 3)
		for range cap(waited) {
			go func() { waited <- b.Wait(t.Context()) }()
		}
		synctest.Wait()
		must.True(t, len(waited) == 0 && len(gone) == 0, "a page is read although there is no room")
		cancel(errGone)
		assert.Is(t, <-gone, errGone, "who gave up")
		second()
		for range cap(waited) {
			must.OK(t, <-waited)
		}
		first()
		assert.Equal(t, b.held, 0, "are held")
		(*Backlog)(nil).hold(1)()
		must.OK(t, (*Backlog)(nil).Wait(t.Context()))
	})
}
