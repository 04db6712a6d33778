package delivery

import "iter"

// queue is what waits in a lane: fresh deliveries, which come from the dispatcher, and claimed ones, such as retries,
// replays and backfills, each in the order in which they came.
type queue struct {
	fresh, claimed []*held
	turn           bool // of a fresh one, where both wait
}

func (q *queue) len() int { return len(q.fresh) + len(q.claimed) }

func (q *queue) add(h *held, fresh bool) {
	if fresh {
		q.fresh = append(q.fresh, h)
		return
	}
	q.claimed = append(q.claimed, h)
}

// next takes the one that goes first: fresh and claimed ones by turns, so that thousands that somebody has asked for again
// don't stand before what happens now; or where fresh ones have been left to be claimed, whichever came first.
func (q *queue) next(spilled bool) *held {
	from := &q.claimed
	switch {
	case len(q.fresh) == 0:
	case len(q.claimed) == 0:
		from = &q.fresh
	default:
		if spilled {
			q.turn = q.fresh[0].came.Before(q.claimed[0].came)
		}
		if q.turn {
			from = &q.fresh
		}
		q.turn = !q.turn
	}
	first := (*from)[0]
	(*from)[0] = nil
	*from = (*from)[1:]
	return first
}

// all lists what waits.
func (q *queue) all() iter.Seq[*held] {
	return func(yield func(*held) bool) {
		for _, part := range [...][]*held{q.fresh, q.claimed} {
			for _, h := range part {
				if !yield(h) {
					return
				}
			}
		}
	}
}

// keep lets go of what doesn't stay.
func (q *queue) keep(stays func(*held) bool) {
	for _, part := range [...]*[]*held{&q.fresh, &q.claimed} {
		var kept []*held
		for _, h := range *part {
			if stays(h) {
				kept = append(kept, h)
			}
		}
		*part = kept
	}
}

// shorten lets go of what came last of each, so that no more wait. Of so many each may have half; what one leaves the
// other gets.
func (q *queue) shorten(most int, dropped func(*held)) {
	fresh := min(len(q.fresh), max(most/2, most-len(q.claimed)))
	claimed := min(len(q.claimed), most-fresh)
	for _, h := range q.fresh[fresh:] {
		dropped(h)
	}
	for _, h := range q.claimed[claimed:] {
		dropped(h)
	}
	clear(q.fresh[fresh:])
	clear(q.claimed[claimed:])
	q.fresh, q.claimed = q.fresh[:fresh:fresh], q.claimed[:claimed:claimed]
}
