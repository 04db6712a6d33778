package schedule

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
