package tail

import (
	"context"
	"iter"
	"time"

	"carillon/eventstore"
)

// lingerEvents is how many events may wait for a reader who lingers.
const lingerEvents = 2048

// pace is how long a reader lets events come together before it takes them.
type pace struct {
	linger time.Duration
	urgent func() <-chan struct{} // gives a channel that is closed while it is in a hurry
}

// lingering is the store for a reader who is in no hurry.
type lingering struct {
	*Store

	pace pace
}

// Lingering is the store for a reader who may be a little behind: what comes near the head waits until the next multiple
// of a time, and then comes together. So a reader is woken once for many events, and readers with the same time at one
// moment, which costs far less than to be woken for each. urgent gives a channel that is closed while somebody waits for
// the reader; then it gets everything at once.
func (s *Store) Lingering(linger time.Duration, urgent func() <-chan struct{}) eventstore.Store {
	return &lingering{Store: s, pace: pace{linger: linger, urgent: urgent}}
}

// Subscribe implements eventstore.Store.
func (l *lingering) Subscribe(ctx context.Context, after eventstore.Position, filter eventstore.Filter) iter.Seq2[eventstore.Message, error] {
	return l.subscribe(ctx, after, filter, l.pace)
}

// linger lets events come together.
func (s *Store) linger(ctx context.Context, r *reader, pace pace) {
	s.lingers(r, true)
	defer s.lingers(r, false)
	now := time.Now()
	timer := time.NewTimer(now.Truncate(pace.linger).Add(pace.linger).Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-pace.urgent():
	case <-r.wake: // many wait
	case <-ctx.Done():
	}
}

func (s *Store) lingers(r *reader, is bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.lingers = is
	if is && !s.kept.crowded(r) {
		select { // what came since it was woken is no reason to be woken again
		case <-r.wake:
		default:
		}
	}
}
