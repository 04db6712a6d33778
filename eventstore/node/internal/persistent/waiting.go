package persistent

import "time"

// retries are messages to be sent again, as a heap in the order they were first read.
type retries []*message

func (r *retries) push(m *message) {
	heap := append(*r, m)
	for i := len(heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if heap[parent].order <= heap[i].order {
			break
		}
		heap[parent], heap[i] = heap[i], heap[parent]
		i = parent
	}
	*r = heap
}

func (r *retries) pop() *message {
	heap := *r
	first, last := heap[0], len(heap)-1
	heap[0], heap[last] = heap[last], nil
	heap = heap[:last]
	for i := 0; ; {
		least := 2*i + 1
		if least >= last {
			break
		}
		if right := least + 1; right < last && heap[right].order < heap[least].order {
			least = right
		}
		if heap[i].order <= heap[least].order {
			break
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
	*r = heap
	return first
}

// waiting are the messages ready to be sent: those to be retried before those that are fresh.
type waiting struct {
	retries retries
	fresh   []*message
	bytes   int
}

func (w *waiting) len() int { return len(w.retries) + len(w.fresh) }

func (w *waiting) addFresh(m *message) {
	w.fresh = append(w.fresh, m)
	w.bytes += m.event.Size
}

func (w *waiting) addRetry(m *message) {
	w.retries.push(m)
	w.bytes += m.event.Size
}

// dispatch offers each message in turn; those that are taken leave. It stops when offer says that nobody can take
// any more.
func (w *waiting) dispatch(offer func(*message) (taken, more bool)) {
	var kept []*message
	for more := true; more && len(w.retries) > 0; {
		m := w.retries.pop()
		var taken bool
		if taken, more = offer(m); taken {
			w.bytes -= m.event.Size
		} else {
			kept = append(kept, m)
		}
		if !more {
			break
		}
	}
	exhausted := len(w.retries) > 0
	for _, m := range kept {
		w.retries.push(m)
	}
	if exhausted {
		return
	}
	rest := 0
	for i, m := range w.fresh {
		taken, more := offer(m)
		if taken {
			w.bytes -= m.event.Size
		} else {
			w.fresh[rest] = m
			rest++
		}
		if !more {
			rest += copy(w.fresh[rest:], w.fresh[i+1:])
			break
		}
	}
	clear(w.fresh[rest:])
	w.fresh = w.fresh[:rest]
}

// deadlines are the messages in flight in the order they time out, which is the order they were sent.
type deadlines struct{ queue []sent }

// sent is one sending of a message; it counts as long as the message still has that deadline.
type sent struct {
	message  *message
	deadline time.Time
}

func (d *deadlines) add(m *message) { d.queue = append(d.queue, sent{m, m.deadline}) }

// next is when the next message in flight times out; zero where none does.
func (d *deadlines) next() time.Time {
	for n, at := range d.queue {
		if at.message != nil && at.message.consumer != nil && at.message.deadline.Equal(at.deadline) {
			d.queue = d.queue[n:]
			return at.deadline
		}
		d.queue[n] = sent{} // answered meanwhile
	}
	d.queue = d.queue[:0]
	return time.Time{}
}

// expired removes and returns the messages in flight whose time has come.
func (d *deadlines) expired(now time.Time) (late []*message) {
	for next := d.next(); !next.IsZero() && !next.After(now); next = d.next() {
		late = append(late, d.queue[0].message)
		d.queue[0] = sent{}
		d.queue = d.queue[1:]
	}
	return late
}
