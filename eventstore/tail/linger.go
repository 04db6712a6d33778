package tail

import (
	"context"
	"iter"
	"time"

	"carillon/eventstore"
)

const lingerEvents = 2048 // events that may wait for a reader that lingers

// delay is how long a reader lets events come together before it takes them. The zero delay takes each at once.
type delay struct {
	length time.Duration
	urgent func() <-chan struct{} // returns a channel that is closed while something waits for the reader
}

// lingering is the store for a reader that is in no hurry.
type lingering struct {
	*Store

	delay delay
}

// Lingering returns the store for a reader that may be a little behind: events near the head wait for a while, and then
// come together, so that the reader is woken once for many events. urgent returns a channel that is closed while
// something waits for the reader; then it gets everything at once.
func (s *Store) Lingering(length time.Duration, urgent func() <-chan struct{}) eventstore.Store {
	return &lingering{Store: s, delay: delay{length: length, urgent: urgent}}
}

// Subscribe implements eventstore.Store.
func (l *lingering) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return l.subscribe(ctx, after, filter, l.delay)
}

// linger lets events come together for a reader.
func (s *Store) linger(ctx context.Context, r *reader, delay delay) {
	s.lingers(r, true)
	defer s.lingers(r, false)
	timer := time.NewTimer(delay.length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-delay.urgent():
	case <-r.wake: // many wait
	case <-ctx.Done():
	}
}

func (s *Store) lingers(r *reader, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.lingers = is
	if is && !s.kept.crowded(r) {
		select { // events since it was woken are no reason to wake it again
		case <-r.wake:
		default:
		}
	}
}
