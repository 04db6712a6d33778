package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"carillon/eventstore"
	"carillon/projections"
)

// lags reports how far consumers are behind. The distance between a checkpoint and the newest event means nothing, as
// all of it may concern others: so it looks for the first event that the consumer has yet to take in, when it is asked.
type lags struct {
	store   eventstore.Store
	filters map[string]eventstore.Filter // by consumer
	now     func() time.Time

	mu   sync.Mutex
	seen map[string]stretch // by consumer, so that nothing is looked through twice
}

// stretch is a range without events of a consumer, if its checkpoint is not before the beginning.
type stretch struct{ from, to eventstore.Position }

func newLags(store eventstore.Store, now func() time.Time) *lags {
	l := &lags{
		store:   store,
		now:     now,
		filters: map[string]eventstore.Filter{},
		seen:    map[string]stretch{},
	}
	for _, c := range consumers() {
		l.filters[c.name] = c.filter
	}
	return l
}

var errNoConsumer = errors.New("not a consumer of this build")

// of is for how long the oldest event that a consumer has not taken in has been recorded; 0 if it has caught up with
// head, the newest event of all.
func (l *lags) of(ctx context.Context, consumer projections.Status, head eventstore.Position) (time.Duration, error) {
	filter, known := l.filters[consumer.Name]
	if !known {
		return 0, errNoConsumer
	}
	after := l.start(consumer, head)
	if !after.Before(head) {
		return 0, nil
	}
	for message, err := range l.store.Subscribe(ctx, after, filter) { // once: no caller waits for a broken store
		switch {
		case err != nil:
			return 0, fmt.Errorf("lag of %s: %w", consumer.Name, err)
		case message.Event != nil:
			return max(0, l.now().Sub(message.Event.Created)), nil // clocks may differ
		case message.CaughtUp:
			l.passed(consumer, head)
			return 0, nil
		}
		l.passed(consumer, message.Position)
	}
	return 0, fmt.Errorf("lag of %s: %w", consumer.Name, cmp.Or(ctx.Err(), eventstore.ErrInvalidPosition))
}

// start is the position to search from: the checkpoint, or the end of the range searched after it. A checkpoint that
// went back, to rebuild the read model, is searched from again.
func (l *lags) start(consumer projections.Status, head eventstore.Position) eventstore.Position {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, ok := l.seen[consumer.Name]
	if !ok || consumer.Position.Before(s.from) || head.Before(s.to) || s.to.Before(consumer.Position) {
		return consumer.Position
	}
	return s.to
}

func (l *lags) passed(consumer projections.Status, to eventstore.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen[consumer.Name] = stretch{from: consumer.Position, to: to}
}
