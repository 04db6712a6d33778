package curate

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/panics"
	"carillon/eventstore/storetest/assert"
)

// TestLongChainOfMergesIsFollowed shows that a chain of any length is followed to its end, and that a ring ends too.
func TestLongChainOfMergesIsFollowed(t *testing.T) {
	t.Parallel()
	m := newMerging(nodetest.Start(t), nil, 0, slog.New(slog.DiscardHandler))
	chain := make([]uuid.UUID, 20)
	for i := range chain {
		chain[i] = uuid.New()
	}
	link := func(one, into uuid.UUID) {
		m.profiles.put(one, newProfile(one, eventstore.Loaded[happening.State]{State: happening.State{Into: into}},
			time.Now()))
	}
	last := len(chain) - 1
	for i, one := range chain[:last] {
		link(one, chain[i+1])
	}
	link(chain[last], uuid.Nil)
	for _, from := range []uuid.UUID{chain[0], chain[last]} {
		if got, err := m.stays(t.Context(), m.begin(t.Context()), uuid.New(), from, time.Now()); err != nil ||
			got != chain[last] {
			t.Errorf("%s stands for %s, %v, want %s", from, got, err, chain[last])
		}
	}
	link(chain[last], chain[0])
	if got, err := m.stays(t.Context(), m.begin(t.Context()), uuid.New(), chain[0], time.Now()); err != nil ||
		got != uuid.Nil {
		t.Errorf("a ring stands for %s, %v", got, err)
	}
}

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
		_, panicked := errors.AsType[*panics.Error](do(t.Context()))
		assert.True(t, panicked, "%s: no panic is reported", place)
	}
}
