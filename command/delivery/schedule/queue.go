package schedule

import "slices"

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

// putBack adds an entry before all others of its kind.
func (q *queue) putBack(e *entry) {
	if e.Claimed {
		q.claimed = slices.Insert(q.claimed, 0, e)
		return
	}
	q.fresh = slices.Insert(q.fresh, 0, e)
}

// next takes the delivery that goes first. Fresh and claimed ones take turns, so that thousands that are sent again
// do not stand before what happens now; after a spill whichever came first is the next.
func (q *queue) next(spilled bool) *entry {
	from := &q.claimed
	switch {
	case len(q.fresh) == 0:
	case len(q.claimed) == 0:
		from = &q.fresh
	default:
		if spilled {
			q.freshNext = q.fresh[0].came < q.claimed[0].came
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
