// Package tail lets all the consumers of a process read along one subscription.
//
//	store ──one subscription, unfiltered──▶ the newest events, in memory ──▶ readers near the head
//	  └─────separate ones, filtered───────▶ other readers, until they have caught up
//
// A lingering reader is woken once for many events.
//
// So an event crosses the wire once, however many consumers read it, and wakes only those. Consumers don't wait for
// each other: one that falls behind the kept events continues with a separate subscription.
package tail

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"carillon/eventstore"
	"carillon/eventstore/panics"
)

const (
	keepEvents  = 8192
	keepBytes   = 8 << 20
	atOnce      = 256  // events that a reader takes at one time
	silentAfter = 4096 // events that don't concern a reader before it hears how far it has come
	panicPause  = time.Second
)

// Store is an eventstore.Store whose subscriptions share one of the store below, which lasts as long as there are any.
type Store struct {
	eventstore.Store

	log    *slog.Logger
	events int // that are kept

	usersMu sync.Mutex // guards users and stop
	users   int
	stop    func()

	mu   sync.Mutex // guards kept and the readers' fields
	kept *window    // once there are users
}

var _ eventstore.Store = (*Store)(nil)

// New makes a store on another one.
func New(store eventstore.Store, log *slog.Logger) *Store {
	return &Store{Store: store, log: log, events: keepEvents}
}

// Subscribe implements eventstore.Store. Each caught-up comes from a subscription of the caller's own, so that it says
// what it says of any store: everything stored before the call has been yielded.
func (s *Store) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return s.subscribe(ctx, after, filter, delay{})
}

func (s *Store) subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter, delay delay,
) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) {
		if err := s.enter(ctx); err != nil {
			yield(eventstore.Message{}, err)
			return
		}
		defer s.exit()
		for at, more := after, true; more; {
			start := s.start()
			if at, more = s.approach(ctx, at, filter, yield); more {
				at, more = s.readAlong(ctx, at, start, filter, delay, yield)
			}
		}
	}
}

// enter ensures that events newer than the present ones are being kept. Other readers don't wait for the store's
// answer.
func (s *Store) enter(ctx context.Context) error {
	if s.joinUsers(nil) {
		return nil
	}
	head, err := s.Head(ctx)
	if err != nil {
		return err
	}
	s.joinUsers(&head)
	return nil
}

// joinUsers adds a user if there are others, or with events kept from a head on.
func (s *Store) joinUsers(head *eventstore.Position) (joined bool) {
	s.usersMu.Lock()
	defer s.usersMu.Unlock()
	if s.users == 0 {
		if head == nil {
			return false
		}
		s.stop = s.keep(*head)
	}
	s.users++
	return true
}

func (s *Store) exit() {
	s.usersMu.Lock()
	s.users--
	last, stop := s.users == 0, s.stop
	s.usersMu.Unlock()
	if last {
		stop()
	}
}

// keep subscribes after a position until stop is called.
func (s *Store) keep(after eventstore.Position) (stop func()) {
	kept := newWindow(after, s.events, keepBytes)
	s.mu.Lock()
	s.kept = kept
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	broken := false // something panicked: what is kept is dropped first
	work := func(ctx context.Context) {
		for ctx.Err() == nil {
			if !broken {
				broken = true
				s.follow(ctx, after, kept)
				broken = false
			}
			head, err := s.Head(ctx)
			if err != nil && broken {
				pause(ctx)
			}
			if err != nil {
				continue // Follow ends again
			}
			broken = true
			s.restart(kept, head)
			after, broken = head, false
		}
	}
	go func() {
		defer close(stopped)
		panics.Loop(ctx, "tail", work)()
	}()
	return func() {
		cancel()
		<-stopped
	}
}

func pause(ctx context.Context) {
	select {
	case <-time.After(panicPause):
	case <-ctx.Done():
	}
}

func (s *Store) restart(kept *window, head eventstore.Position) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept.restart(head)
}

// follow keeps the events after a position, until the store can't continue from there: it refuses the position, or
// became another one that ends before it, and would deliver nothing until it has grown.
func (s *Store) follow(ctx context.Context, after eventstore.Position, kept *window) {
	for message := range eventstore.Follow(ctx, s.Store, after, eventstore.Filter{}, s.log.With("consumer", "tail")) {
		switch {
		case message.Event != nil:
			s.keepEvent(kept, message.Event)
		case message.CaughtUp:
			if head, err := s.Head(ctx); err == nil && head.Before(s.newest()) {
				return
			}
		}
	}
}

func (s *Store) keepEvent(kept *window, event *eventstore.Recorded) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept.add(event)
}

// approach yields from a separate subscription, until it has caught up with the kept events.
func (s *Store) approach(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter, yield func(eventstore.Message, error) bool,
) (at eventstore.Position, more bool) {
	caughtUp, stored := false, s.newest()
	for message, err := range s.Store.Subscribe(ctx, after, filter) {
		if message.CaughtUp {
			caughtUp = true
			if after.Before(stored) { // the caller has got all events before the subscription that concern it
				after = stored
			}
		} else if err == nil {
			after = message.Position
		}
		if !yield(message, err) || err != nil {
			return after, false
		}
		if caughtUp && s.keeps(after) {
			return after, true
		}
	}
	return after, false
}

// newest is the position of the newest event that has come.
func (s *Store) newest() eventstore.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.newest()
}

func (s *Store) keeps(after eventstore.Position) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.goesOnFrom(after)
}

// readAlong yields what is kept, and waits for more, until the caller has fallen behind. The position is of the store
// of which start was the first event to keep.
func (s *Store) readAlong(
	ctx context.Context, after eventstore.Position, start uint64, filter eventstore.Filter, delay delay,
	yield func(eventstore.Message, error) bool,
) (at eventstore.Position, more bool) {
	r, ok := s.join(after, start, filter)
	if !ok {
		return after, true
	}
	defer s.leave(r)
	for {
		messages, kept := s.take(r)
		for _, message := range messages {
			after = message.Position
			if !yield(message, nil) {
				return after, false
			}
		}
		switch {
		case !kept && s.restarted(r):
			yield(eventstore.Message{}, errRestarted)
			return after, false
		case !kept:
			return after, true
		case len(messages) > 0:
			continue // there may be more by now
		}
		select {
		case <-r.wake:
		case <-ctx.Done():
			yield(eventstore.Message{}, ctx.Err())
			return after, false
		}
		if delay.length > 0 {
			s.linger(ctx, r, delay)
		}
	}
}

func (s *Store) start() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.start
}

func (s *Store) join(after eventstore.Position, start uint64, filter eventstore.Filter) (*reader, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.join(after, start, filter)
}

func (s *Store) take(r *reader) ([]eventstore.Message, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.kept.take(r)
}

// errRestarted ends subscriptions when the store below has become another one.
var errRestarted = fmt.Errorf("%w: the shared subscription began again", eventstore.ErrUnavailable)

func (s *Store) restarted(r *reader) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.next < s.kept.start
}

func (s *Store) leave(r *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept.leave(r)
}
