package wire_test

import (
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/wire"
	"carillon/eventstore/storetest/assert"
)

// Each time of each answer is in UTC with six fraction digits, whatever the zone and the digits that it came with.
func TestTimesHaveSixDigits(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 13, 0, 0, 500_000_000, time.FixedZone("", 3600))
	type shown struct {
		At   time.Time  `json:"at"`
		Then *time.Time `json:"then"`
		None *time.Time `json:"none"`
	}
	one := shown{noon, &noon, nil}
	list := iter.Seq2[shown, error](func(yield func(shown, error) bool) { yield(one, nil) })
	const want = `{"at":"2026-11-21T12:00:00.500000Z","then":"2026-11-21T12:00:00.500000Z","none":null}`
	for name, reply := range map[string]wire.Reply{
		"whole":    wire.OK([]shown{one}),
		"streamed": wire.Streamed(list, func(s shown) any { return s }),
	} {
		w := httptest.NewRecorder()
		wire.Events.Handle(func(*http.Request) (wire.Reply, error) { return reply, nil }).
			ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		assert.Equal(t, strings.Contains(w.Body.String(), want), true, "%s: %s", name, w.Body)
	}
}
