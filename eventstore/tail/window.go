package tail

import (
	"slices"
	"strings"

	"carillon/eventstore"
)

// window is the newest events, in order. It is not safe for concurrent use.
type window struct {
	before eventstore.Position    // everything stored after it is kept, as far as it has come
	ring   []*eventstore.Recorded // the event of number n is at n % len
	first  uint64                 // numbers: of the oldest event that is kept,
	next   uint64                 // and of the one to come
	start  uint64                 // and of the first one since restart
	bytes  int
	most   int // bytes

	readers map[*reader]struct{}
}

// reader is a consumer of the shared subscription.
type reader struct {
	prefixes []string
	next     uint64              // number of the event to look at
	at       eventstore.Position // of the last one looked at
	silent   int                 // events in a row that did not concern it
	lingers  bool                // it is woken when many events wait, not for each
	taken    []eventstore.Message
	wake     chan struct{}
}

func newWindow(before eventstore.Position, events, bytes int) *window {
	return &window{
		before:  before,
		ring:    make([]*eventstore.Recorded, events),
		most:    bytes,
		readers: map[*reader]struct{}{},
	}
}

// newest is the position of the newest event, or that before the first one to come.
func (w *window) newest() eventstore.Position {
	if w.first == w.next {
		return w.before
	}
	return w.ring[(w.next-1)%uint64(len(w.ring))].Position
}

// goesOnFrom reports whether nothing that came after a position is missing.
func (w *window) goesOnFrom(after eventstore.Position) bool { return !after.Before(w.before) }

// join adds a reader that goes on after a position, unless something is missing there. If there was a restart since the
// given start, the position is another store's: the reader finds that out when it looks.
func (w *window) join(after eventstore.Position, start uint64, filter eventstore.Filter) (r *reader, ok bool) {
	if !w.goesOnFrom(after) {
		return nil, false
	}
	r = &reader{
		prefixes: filter.Prefixes,
		next:     w.first,
		at:       after,
		wake:     make(chan struct{}, 1),
	}
	if start < w.start {
		r.next = start
	}
	w.readers[r] = struct{}{}
	return r, true
}

func (w *window) leave(r *reader) { delete(w.readers, r) }

// restart lets go of everything, as none of it is in the present store. Readers find that out when they look.
func (w *window) restart(before eventstore.Position) {
	clear(w.ring)
	w.next++
	w.first, w.start, w.bytes, w.before = w.next, w.next, 0, before
	for r := range w.readers {
		select {
		case r.wake <- struct{}{}:
		default: // it is about to look
		}
	}
}

// add keeps an event and lets go of old ones. A reader at the end that the event does not concern passes it here.
func (w *window) add(event *eventstore.Recorded) {
	size := uint64(len(w.ring))
	for w.next-w.first == size || w.bytes > w.most {
		oldest := &w.ring[w.first%size]
		w.bytes -= weight(*oldest)
		w.before, *oldest = (*oldest).Position, nil
		w.first++
	}
	w.ring[w.next%size] = event
	w.next++
	w.bytes += weight(event)
	for r := range w.readers {
		if r.next == w.next-1 && r.silent < silentAfter && !r.wants(event) {
			r.pass(event)
			continue
		}
		if r.lingers && !w.crowded(r) {
			continue
		}
		select {
		case r.wake <- struct{}{}:
		default: // it is about to look
		}
	}
}

// crowded reports whether a reader must stop lingering: too many events wait for it, or they are about to be evicted.
func (w *window) crowded(r *reader) bool {
	waiting := w.next - r.next
	return waiting >= lingerEvents || w.first > 0 && r.next < w.first+waiting
}

// take returns the reader's events, valid until the next call, and false if it has fallen behind the kept ones.
func (w *window) take(r *reader) (messages []eventstore.Message, kept bool) {
	clear(r.taken)
	r.taken = r.taken[:0]
	if r.next < w.first {
		return nil, false
	}
	for r.next < w.next && len(r.taken) < atOnce {
		event := w.ring[r.next%uint64(len(w.ring))]
		wanted := r.wants(event)
		r.pass(event)
		if wanted {
			r.silent = 0
			r.taken = append(r.taken, eventstore.Message{Event: event, Position: event.Position})
		}
	}
	if r.silent >= silentAfter {
		r.silent = 0
		r.taken = append(r.taken, eventstore.Message{Position: r.at})
	}
	return r.taken, true
}

func (r *reader) wants(event *eventstore.Recorded) bool {
	return r.at.Before(event.Position) && (len(r.prefixes) == 0 ||
		slices.ContainsFunc(r.prefixes, func(prefix string) bool { return strings.HasPrefix(event.Stream, prefix) }))
}

// pass goes over an event. A reader that came from a separate subscription may have been ahead of the kept events.
func (r *reader) pass(event *eventstore.Recorded) {
	r.next++
	r.silent++
	if r.at.Before(event.Position) {
		r.at = event.Position
	}
}

func weight(event *eventstore.Recorded) int { return len(event.Data) + len(event.Metadata) }
