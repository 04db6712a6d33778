package sampling_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/command/sampling"
	"carillon/eventstore/storetest/assert"
)

// Kinds are counted apart, what has no kind passes, and the count is with the attributes of the line that it is of.
func TestHandlerHoldsBackByKind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines strings.Builder
		log := slog.New(sampling.New(slog.NewTextHandler(&lines, nil), sampling.Rule{
			Lines: 2,
			Per:   time.Minute,
			Count: "held",
			Kind:  func(r slog.Record) string { return strings.TrimPrefix(r.Message, "free") },
		}))
		for i := range 5 {
			log.With("i", i).Info("one")
			log.Info("free")
		}
		log.WithGroup("g").Info("two", "x", 1)
		<-time.After(time.Minute)
		synctest.Wait()
		got := lines.String()
		for want, n := range map[string]int{"msg=one": 3, "msg=free": 5, "msg=two": 1, "i=4 held=3": 1, "g.x=1": 1} {
			assert.True(t, strings.Count(got, want) == n, "%q, want %d of it in\n%s", want, n, got)
		}
		<-time.After(2 * time.Minute)
		lines.Reset()
		log.Info("one")
		assert.Equal(t, strings.Count(lines.String(), "\n"), 1, "the next flood begins with")
	})
}
