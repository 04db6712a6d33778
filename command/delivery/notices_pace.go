package delivery

import (
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
)

// noticeInterval is the shortest time between two notices of one kind about one destination.
const noticeInterval = time.Minute

// noticePace is the last notice of a kind about a destination.
type noticePace struct {
	Until   time.Time `json:"until"`            // no other is sent before
	Waiting uuid.UUID `json:"waiting,omitzero"` // the delivery that is sent then
	Count   int       `json:"count"`            // what it stands for
}

// pace decides when a notice is sent: the first at once, others when a minute has passed since the last one; what
// waits then is one notice that counts all.
func (n *notices) pace(key windowKey, id uuid.UUID, at time.Time, s *dispatch.Scheduled) noticePace {
	next, last := noticePace{Until: at.Add(noticeInterval), Count: 1}, n.paces.Get(key)
	switch {
	case last == nil, !at.Before(last.Until.Add(noticeInterval)), !at.Before(last.Until) && last.Waiting == uuid.Nil:
	case at.Before(last.Until):
		s.NotBefore, s.Supersedes = last.Until, last.Waiting
		next = noticePace{Until: last.Until, Waiting: id, Count: 1}
		if last.Waiting != uuid.Nil {
			next.Count += last.Count
		}
	default: // one was sent at that time
		s.NotBefore = last.Until.Add(noticeInterval)
		next = noticePace{Until: s.NotBefore, Waiting: id, Count: 1}
	}
	n.paces.Set(key, &next)
	return next
}

// dropOldPaces forgets notices that delay no other any more.
func (n *notices) dropOldPaces() {
	for key, pace := range n.paces.All() {
		if pace.Until.Add(noticeInterval).Before(n.newest) {
			n.paces.Set(key, nil)
		}
	}
}
