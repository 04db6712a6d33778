package projections

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"golang.org/x/sync/semaphore"

	"carillon/eventstore"
	"carillon/eventstore/panics"
)

// MaxBatch bounds the events of one Watermill message. It has as many as come to maxBatchBytes where those are fewer,
// and as much waits for it: events are up to 1 MiB.
const (
	MaxBatch      = 500
	maxBatchBytes = 4 << 20
)

// quietAfter is how long nothing must come before consumers hear of the quiet.
const quietAfter = time.Second

// Subscriber is a Watermill subscriber over the event store. A message is a batch: the events that have arrived since
// the last one was acknowledged, at most MaxBatch. Order holds because the next
// message is sent only after the ack. A nack ends the subscription: its consumer starts again from its checkpoint.
// It ends by itself if the store does not have its position.
type Subscriber struct {
	Store  eventstore.Store
	After  eventstore.Position
	Filter eventstore.Filter
	Log    *slog.Logger

	closed chan struct{}
	room   *semaphore.Weighted // bytes of events that have come and are in no batch yet
	astray atomic.Bool         // the store does not have the position
	active bool                // a batch was sent since the last quiet one
}

var _ message.Subscriber = (*Subscriber)(nil)

// Batch is the content of a message of Subscriber.
type Batch struct {
	Events   []eventstore.Recorded
	Position eventstore.Position // resume after this one; past the last event if the server skipped others
	CaughtUp bool                // nothing more was there when the batch was made
	Quiet    bool                // empty: nothing has come for a while, the first time since the last batch
}

type batchKey struct{}

// BatchOf returns the batch that a message carries.
func BatchOf(m *message.Message) (Batch, error) {
	batch, ok := m.Context().Value(batchKey{}).(Batch)
	if !ok {
		return Batch{}, errors.New("message carries no batch of events")
	}
	return batch, nil
}

// Subscribe implements message.Subscriber; the topic only names the consumer. It may be called once.
func (s *Subscriber) Subscribe(ctx context.Context, topic string) (<-chan *message.Message, error) {
	if s.closed != nil {
		return nil, errors.New("subscribed already")
	}
	s.closed, s.room = make(chan struct{}), semaphore.NewWeighted(maxBatchBytes)
	ctx, cancel := context.WithCancel(ctx)
	steps := make(chan eventstore.Message, MaxBatch)
	go panics.Func("consumer "+topic, func() {
		defer close(steps)
		for step := range eventstore.Follow(ctx, s.Store, s.After, s.Filter, s.Log.With("consumer", topic)) {
			if s.room.Acquire(ctx, weight(step)) != nil {
				return
			}
			select {
			case steps <- step:
			case <-ctx.Done():
				return
			}
		}
		s.astray.Store(ctx.Err() == nil)
	})()
	messages := make(chan *message.Message)
	go panics.Func("consumer "+topic, func() {
		defer close(messages)
		defer cancel()
		s.deliver(ctx, steps, messages)
	})()
	return messages, nil
}

func (s *Subscriber) deliver(ctx context.Context, steps <-chan eventstore.Message, messages chan<- *message.Message) {
	for {
		batch, ok := s.collect(ctx, steps)
		if !ok {
			return
		}
		m := message.NewMessage(batch.Position.String(), nil)
		m.SetContext(context.WithValue(ctx, batchKey{}, batch))
		select {
		case messages <- m:
		case <-ctx.Done():
			return
		case <-s.closed:
			return
		}
		select {
		case <-m.Acked():
		case <-m.Nacked():
			return
		case <-ctx.Done():
			return
		case <-s.closed:
			return
		}
	}
}

// collect waits for a first step and takes along what else is there.
func (s *Subscriber) collect(ctx context.Context, steps <-chan eventstore.Message) (Batch, bool) {
	var (
		batch Batch
		bytes int64
	)
	add := func(step eventstore.Message) {
		s.room.Release(weight(step))
		bytes += weight(step)
		if step.Event != nil {
			batch.Events = append(batch.Events, *step.Event)
		}
		if !step.CaughtUp {
			batch.Position = step.Position
		}
	}
	var quiet <-chan time.Time
	if s.active {
		timer := time.NewTimer(quietAfter)
		defer timer.Stop()
		quiet = timer.C
	}
	for len(batch.Events) == 0 && batch.Position == eventstore.Start {
		select {
		case <-quiet:
			s.active = false
			return Batch{Quiet: true, CaughtUp: true}, true
		case step, ok := <-steps:
			if !ok {
				return batch, false
			}
			add(step)
		case <-ctx.Done():
			return batch, false
		case <-s.closed:
			return batch, false
		}
	}
	s.active = true
	batch.Events = slices.Grow(batch.Events, min(len(steps), MaxBatch))
	for len(batch.Events) < MaxBatch && bytes < maxBatchBytes {
		select {
		case step, ok := <-steps:
			if !ok {
				return batch, true
			}
			add(step)
		default:
			batch.CaughtUp = true
			return batch, true
		}
	}
	return batch, true
}

// weight is how many bytes a step takes.
func weight(step eventstore.Message) int64 {
	if step.Event == nil {
		return 0
	}
	return min(int64(len(step.Event.Data)), maxBatchBytes)
}

// Close implements message.Subscriber.
func (s *Subscriber) Close() error {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	return nil
}
