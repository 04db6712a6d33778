package projections_test

import (
	"context"
	"iter"
	"log/slog"
	"testing"

	"carillon/eventstore"
	"carillon/projections"
)

// heavy is a store of events that are large, each as large as an append may be.
type heavy struct {
	eventstore.Store

	events int
}

const weight = 1 << 20

func (h heavy) Subscribe(
	ctx context.Context, _ eventstore.Position, _ eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) {
		for i := range h.events {
			at := eventstore.Position{Commit: uint64(i + 1), Prepare: uint64(i + 1)}
			event := &eventstore.Recorded{Stream: "publication-1", Position: at, Data: make([]byte, weight)}
			if !yield(eventstore.Message{Event: event, Position: at}, nil) {
				return
			}
		}
		<-ctx.Done()
	}
}

// Large events come in small batches: five hundred of them would be half a gigabyte, in each consumer.
func TestLargeEventsComeInSmallBatches(t *testing.T) {
	t.Parallel()
	const events = 50
	subscriber := &projections.Subscriber{Store: heavy{events: events}, Log: slog.New(slog.DiscardHandler)}
	messages, err := subscriber.Subscribe(t.Context(), "heavy")
	if err != nil {
		t.Fatal(err)
	}
	came := 0
	for came < events {
		m := <-messages
		batch, err := projections.BatchOf(m)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(batch.Events); n > 5 {
			t.Errorf("a batch of %d events of %d bytes", n, weight)
		}
		came += len(batch.Events)
		m.Ack()
	}
	if err := subscriber.Close(); err != nil {
		t.Fatal(err)
	}
}
