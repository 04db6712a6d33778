package projections

import (
	"context"
	"iter"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
)

// empty is a store without events.
type empty struct{ eventstore.Store }

func (empty) Subscribe(
	context.Context, eventstore.Position, eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) { yield(eventstore.Message{CaughtUp: true}, nil) }
}

// The runner that a try of a swap holds up goes on between two tries for as long as it waited.
func TestSwap_pausesBetweenTries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := rebuild{store: empty{}, log: slog.New(slog.DiscardHandler)}
		var released time.Time
		assert.OK(t, b.inTime(t.Context(), func(context.Context) error {
			if !released.IsZero() {
				return nil
			}
			<-time.After(holdAtMost)
			released = time.Now()
			return errHeldTooLong
		}))
		assert.Equal(t, time.Since(released), holdAtMost, "pause")
	})
}
