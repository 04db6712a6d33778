package schedule

// queue holds the waiting deliveries of a lane: fresh and claimed ones, each in the order in which they came.
type queue struct {
	fresh, claimed []*entry
	freshNext      bool // where both wait
}

func (q *queue) len() int { return len(q.fresh) + len(q.claimed) }

func (q *queue) add(e *entry) {
	if e.Claimed {
		q.claimed = append(q.claimed, e)
		return
	}
	q.fresh = append(q.fresh, e)
}

// next takes the delivery that goes first. Fresh and claimed ones take turns, so that thousands that are sent again
// do not stand before what happens now; after a refusal whichever came first is the next.
func (q *queue) next(inOrder bool) *entry {
	from := &q.claimed
	switch {
	case len(q.fresh) == 0:
	case len(q.claimed) == 0:
		from = &q.fresh
	default:
		if inOrder {
			q.freshNext = q.fresh[0].number < q.claimed[0].number
		}
		if q.freshNext {
			from = &q.fresh
		}
		q.freshNext = !q.freshNext
	}
	first := (*from)[0]
	(*from)[0] = nil
	*from = (*from)[1:]
	return first
}

// shorten drops the newest of each, so that no more than most wait. Each may have half of them; what one
// leaves the other gets.
func (q *queue) shorten(most int, dropped func(*entry)) {
	fresh := min(len(q.fresh), max(most/2, most-len(q.claimed)))
	claimed := min(len(q.claimed), most-fresh)
	for _, e := range q.fresh[fresh:] {
		dropped(e)
	}
	for _, e := range q.claimed[claimed:] {
		dropped(e)
	}
	clear(q.fresh[fresh:])
	clear(q.claimed[claimed:])
	q.fresh, q.claimed = q.fresh[:fresh:fresh], q.claimed[:claimed:claimed]
}

// ring is a round of elements that hold their own links. Its first element has the next turn.
type ring[T any] struct {
	first *node[T]
	size  int
}

type node[T any] struct {
	value      T
	prev, next *node[T] // nil: it is in no ring
}

// push adds an element behind all others.
func (r *ring[T]) push(n *node[T]) {
	if r.first == nil {
		n.prev, n.next = n, n
		r.first = n
	} else {
		n.prev, n.next = r.first.prev, r.first
		n.prev.next, n.next.prev = n, n
	}
	r.size++
}

func (r *ring[T]) remove(n *node[T]) {
	r.size--
	if r.size == 0 {
		r.first = nil
	} else {
		n.prev.next, n.next.prev = n.next, n.prev
		if r.first == n {
			r.first = n.next
		}
	}
	n.prev, n.next = nil, nil
}

// rotate returns the first element, and puts it behind all others.
func (r *ring[T]) rotate() T {
	first := r.first
	r.first = first.next
	return first.value
}
