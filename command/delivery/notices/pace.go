package notices

import (
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
)

// noticeInterval is the shortest time between two notices of one kind about one destination.
const noticeInterval = time.Minute

// recountFactor limits the notices of a minute: the one that waits is replaced when what it does not count yet is a
// quarter of what it counts.
const recountFactor = 4

// paceKey names a kind of notices and what they are about. It is the text that a pace is stored by.
type paceKey string

// String implements fmt.Stringer.
func (k paceKey) String() string { return string(k) }

func parsePaceKey(text string) (paceKey, error) { return paceKey(text), nil }

// noticePace is the last notice of a kind about a destination.
type noticePace struct {
	Until     time.Time `json:"until"`              // no other is sent before
	Waiting   uuid.UUID `json:"waiting,omitzero"`   // the delivery that is sent then
	Count     int       `json:"count"`              // what it stands for
	Uncounted int       `json:"uncounted,omitzero"` // what happened since; the next notice counts it
}

// pace decides whether a notice is recorded, and when it is sent: the first at once, others when a minute has passed
// since the last one; what waits then is one notice that counts the others.
func (n *Notices) pace(key paceKey, id uuid.UUID, at time.Time, s *dispatch.Scheduled) (p noticePace, record bool) {
	next, last := noticePace{Until: at.Add(noticeInterval), Count: 1}, n.paces.Get(key)
	switch {
	case last == nil, !at.Before(last.Until.Add(noticeInterval)), !at.Before(last.Until) && last.Waiting == uuid.Nil:
	case at.Before(last.Until):
		if last.Waiting != uuid.Nil && recountFactor*(last.Uncounted+1) < last.Count {
			next = *last
			next.Uncounted++
			n.paces.Set(key, &next)
			return next, false
		}
		s.NotBefore, s.Supersedes = last.Until, last.Waiting
		next = noticePace{Until: last.Until, Waiting: id, Count: 1}
		if last.Waiting != uuid.Nil {
			next.Count += last.Count
		}
	default: // one was sent at that time
		s.NotBefore = last.Until.Add(noticeInterval)
		next = noticePace{Until: s.NotBefore, Waiting: id, Count: 1}
	}
	if last != nil {
		next.Count += last.Uncounted
	}
	n.paces.Set(key, &next)
	return next, true
}

// DropOldPaces forgets notices that delay no other any more.
func (n *Notices) DropOldPaces() {
	for key, pace := range n.paces.All() {
		if pace.Until.Add(noticeInterval).Before(n.Newest) {
			n.paces.Set(key, nil)
		}
	}
}
