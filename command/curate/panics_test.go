package curate

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore/panics"
)

// A panic in work beside the consumer's goroutine fails the consumer, which starts again.
func TestCuration_survivesAPanic(t *testing.T) {
	t.Parallel()
	m := newMerging(nil, nil, 0, slog.New(slog.DiscardHandler)) // without a store
	for place, do := range map[string]func(context.Context) error{
		"item": func(ctx context.Context) error { return (&FeedCuration{}).act(ctx, []task{{}}) },
		"load": func(ctx context.Context) error { return m.load(ctx, []uuid.UUID{uuid.New()}, time.Now()) },
		"merge": func(ctx context.Context) error {
			begun := m.begin(ctx)
			one, other := &profile{id: uuid.New()}, &profile{id: uuid.New()}
			err := begun.start(one, other, func(context.Context) error { panic("planted") })
			return errors.Join(err, begun.wait())
		},
	} {
		if _, panicked := errors.AsType[*panics.Error](do(t.Context())); !panicked {
			t.Errorf("%s: no panic is reported", place)
		}
	}
}
