package embedded

import (
	"bytes"
	"context"
	"iter"

	"carillon/eventstore"
	"carillon/eventstore/node/internal/store"
)

// checkpointEvery is how many events a subscription passes over before it yields how far it has come.
const checkpointEvery = 4096

// Subscribe implements eventstore.Store.
func (s *Store) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) {
		sub := newSubscription(s, after, filter)
		for {
			advanced := s.data.Advanced() // before the look, so that nothing is missed between the two
			messages, live, err := sub.next(ctx)
			for _, message := range messages {
				if !yield(message, nil) {
					return
				}
			}
			if err == nil && live {
				err = s.wait(ctx, advanced)
			}
			if err != nil {
				yield(eventstore.Message{}, translate(err))
				return
			}
		}
	}
}

// wait returns when there may be more to read.
func (s *Store) wait(ctx context.Context, advanced <-chan struct{}) error {
	select {
	case <-advanced:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ended:
		return store.ErrClosed
	case <-s.data.Closing():
		return store.ErrClosed
	case <-s.data.Failed():
		return s.data.Err()
	}
}

// subscription is a reader of the log.
type subscription struct {
	store    *Store
	prefixes [][]byte // of the streams it wants; none means all
	after    uint64   // position of the last event looked at
	known    uint64   // position that the subscriber knows of
	passed   int      // events since then
	live     bool     // it has caught up
	messages []eventstore.Message
}

func newSubscription(s *Store, after eventstore.Position, filter eventstore.Filter) *subscription {
	sub := &subscription{store: s, after: after.Commit, known: after.Commit}
	for _, prefix := range filter.Prefixes {
		sub.prefixes = append(sub.prefixes, []byte(prefix))
	}
	return sub
}

// next returns what comes next, until the next call, and reports whether that is all there is by now.
func (s *subscription) next(ctx context.Context) (messages []eventstore.Message, live bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	clear(s.messages)
	s.messages = s.messages[:0]
	var failed error
	budget, size := checkpointEvery, 0
	err = s.store.read(func() error {
		last, end, err := s.store.data.ReadAll(s.after, func(record store.Record) bool {
			size, failed = s.takeIn(record, size)
			budget--
			return failed == nil && budget > 0 && size < pageBytes && len(s.messages) < pageEvents
		})
		s.after, live = last, end
		return err
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return nil, false, err
	}
	becomesLive := live && !s.live
	s.live = live
	if s.after > s.known && (becomesLive || s.passed >= checkpointEvery) {
		s.add(eventstore.Message{Position: position(s.after)})
	}
	if becomesLive {
		s.messages = append(s.messages, eventstore.Message{CaughtUp: true})
	}
	return s.messages, live, nil
}

// takeIn takes in a record, and adds its size to that of the page if the subscriber wants it.
func (s *subscription) takeIn(record store.Record, size int) (int, error) {
	s.passed++
	stream, eventType, err := record.Names()
	if err != nil || !s.wants(stream, eventType) {
		return size, err
	}
	if string(eventType) == eventstore.Filler {
		return size, nil // the position of the next event or checkpoint is beyond it
	}
	event, err := namedRecorded(record, string(stream), string(eventType))
	if err != nil {
		return size, err
	}
	s.add(eventstore.Message{Event: &event, Position: event.Position})
	return size + len(event.Data) + len(event.Metadata), nil
}

// wants reports whether the subscriber wants an event. The store's own are for no one, such as the tombstone that is in
// the stream it ends.
func (s *subscription) wants(stream, eventType []byte) bool {
	if bytes.HasPrefix(eventType, []byte{'$'}) {
		return false
	}
	for _, prefix := range s.prefixes {
		if bytes.HasPrefix(stream, prefix) {
			return true
		}
	}
	return len(s.prefixes) == 0
}

func (s *subscription) add(message eventstore.Message) {
	s.messages = append(s.messages, message)
	s.known, s.passed = message.Position.Commit, 0
}
