package delivery

import "time"

// pacing says when the queue is looked into again. It is for one goroutine.
type pacing struct {
	aimed bool // the last wait was for a moment nearer than busyPoll
}

// again is what to wait after a claim that was worth its while: what comes meanwhile is claimed together.
func (p *pacing) again(wait time.Duration) time.Duration {
	p.aimed = false
	return wait
}

// until is what to wait where nothing can be claimed before the next delivery is due: exactly until then, so that retries
// are not late. A moment that came to nothing, because all that is due then is of destinations that are full or of
// organizations that have used up their share, may be followed by a thousand such moments: so what comes after one is
// waited for busyPoll at least.
func (p *pacing) until(due, most time.Duration) time.Duration {
	if p.aimed {
		due = max(due, busyPoll)
	}
	p.aimed = !p.aimed && due < busyPoll
	return min(max(due, 0), most)
}
