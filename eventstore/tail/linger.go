package tail

import (
	"context"
	"iter"
	"math"
	"time"

	"carillon/eventstore"
)

const (
	lingerEvents = 2048 // events that may wait for a reader who lingers
	// busy is how many events that came together make a reader's next moment one of its own.
	busy = 128
	// golden spreads however many moments evenly: each next one is put between two that are far from each other.
	golden = 0.6180339887498949
)

// pace is how long a reader lets events come together before it takes them.
type pace struct {
	linger time.Duration
	own    time.Duration          // where its own moments lie between the common ones
	urgent func() <-chan struct{} // gives a channel that is closed while it is in a hurry
}

// of is the pace of the reader with a number.
func (p pace) of(number int64) pace {
	_, part := math.Modf(float64(number) * golden)
	p.own = time.Duration(part * float64(p.linger))
	return p
}

// until is how long a reader lingers, to whom so many events came last time. While little happens all are woken at one
// moment, since to wake up costs more than what is done then; where much does, what all of them do at one moment takes the
// processors from everybody else for as long, so that each has a moment of its own.
func (p pace) until(now time.Time, came int) time.Duration {
	var own time.Duration
	if came >= busy {
		own = p.own
	}
	return now.Add(-own).Truncate(p.linger).Add(p.linger + own).Sub(now)
}

// lingering is the store for a reader who is in no hurry.
type lingering struct {
	*Store

	pace pace
}

// Lingering is the store for a reader who may be a little behind: what comes near the head waits until the next multiple
// of a time, and then comes together. So a reader is woken once for many events, and readers with the same time at one
// moment while little happens, which costs far less than to be woken for each. urgent gives a channel that is closed while
// somebody waits for the reader; then it gets everything at once.
func (s *Store) Lingering(linger time.Duration, urgent func() <-chan struct{}) eventstore.Store {
	return &lingering{Store: s, pace: pace{linger: linger, urgent: urgent}.of(s.patient.Add(1))}
}

// Subscribe implements eventstore.Store.
func (l *lingering) Subscribe(ctx context.Context, after eventstore.Position, filter eventstore.Filter) iter.Seq2[eventstore.Message, error] {
	return l.subscribe(ctx, after, filter, l.pace)
}

// linger lets events come together for a reader to whom so many came last time.
func (s *Store) linger(ctx context.Context, r *reader, pace pace, came int) {
	s.lingers(r, true)
	defer s.lingers(r, false)
	timer := time.NewTimer(pace.until(time.Now(), came))
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
