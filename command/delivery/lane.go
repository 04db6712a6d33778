package delivery

import (
	"time"

	"github.com/google/uuid"
)

// lane is the queue of one destination.
type lane struct {
	destination  uuid.UUID
	organization uuid.UUID
	reserved     int // room promised
	bytes        int // of bodies that wait, are under way or are promised room, apart from small ones
	queue        queue
	running      map[uuid.UUID]func() // deliveries under way, each with its cancel
	overdue      int                  // of those, for longer than SlowAfter
	window       int                  // requests at one time, while it is not slow; it grows with each answer
	took         time.Duration        // that an answer takes, on average
	connected    bool                 // the connection of the last request was kept
	late         bool                 // the last answer took longer than SlowAfter
	waiting      bool                 // in its organization's turn
	skipped      bool                 // by the last claim, which found it full: more may wait for it in the read model
	asked        bool                 // the claim that is under way takes more for it
	rest         *rest                // its receiver asked for it lately; nil: it did not
	spilled      time.Time            // when there last was no room for a fresh delivery; zero: all that waits is here
}

// held is a delivery that waits here or is under way.
type held struct {
	Job

	lane    *lane
	from    *shares   // what it takes a part of; nil: of none any more
	began   time.Time // its request
	overdue bool      // its request, for longer than SlowAfter
	slow    bool      // its request is overdue, or its lane was slow when it began
	over    bool      // its request has ended
	hungUp  bool      // its connection was not kept
	refused bool      // its receiver asked to be left alone for a while
	cold    bool      // it opens a connection; false again when it has ended or took longer than openingFor
}

// slow says that its last answer came late, or that one is late that has not come yet.
func (l *lane) slow() bool { return l.late || l.overdue > 0 }

// most is how many may wait: what is sent within some seconds at the pace it has.
func (l *lane) most(limits Limits) int {
	switch {
	case l.slow():
		return limits.PerSlow
	case l.rest != nil:
		return min(l.rest.room(limits, time.Now()), limits.QueuedAtFirst)
	case l.took == 0:
		return limits.QueuedAtFirst
	}
	return min(limits.Queued, max(limits.QueuedAtFirst/4, int(limits.QueuedFor/l.took)*l.window))
}

// takesFresh says whether a fresh delivery may be queued: where few of these wait, however much was claimed. After some
// were left to the read model, which are older, fresh ones only keep it from running dry.
func (l *lane) takesFresh(limits Limits) bool {
	if l.slow() {
		return false
	}
	if !l.spilled.IsZero() {
		return l.waits() < l.most(limits)/4
	}
	return l.reserved+len(l.queue.fresh) < l.most(limits)
}

// claimable says whether at least half of its room is free, so that a claim is worth its while.
func (l *lane) claimable(limits Limits) bool {
	if l.slow() {
		return 2*(len(l.running)+l.waits()) <= limits.PerSlow
	}
	return 2*l.waits() < l.most(limits)
}

// waits counts what waits or is promised room.
func (l *lane) waits() int { return l.reserved + l.queue.len() }

func (l *lane) mayStart(limits Limits) bool {
	most := l.window
	if l.slow() {
		most = limits.PerSlow
	}
	if l.rest != nil && time.Now().Before(l.rest.next) {
		return false
	}
	return l.queue.len() > 0 && len(l.running) < most
}

// start takes the delivery that goes first.
func (l *lane) start(cancel func(), now time.Time) *held {
	next := l.queue.next(!l.spilled.IsZero())
	l.running[next.ID] = cancel
	next.began = now
	if l.rest != nil {
		l.rest.next = now.Add(l.rest.pace)
	}
	return next
}

// answered learns from an answer how much it may be given.
func (l *lane) answered(limits Limits, took time.Duration, refused bool) {
	const weight = 8 // of what was known before
	if l.took == 0 {
		l.took = took
	}
	l.took += (took - l.took) / weight
	if l.late = took > limits.SlowAfter; l.late {
		l.window = limits.PerNew
		return
	}
	if refused {
		return
	}
	if l.rest != nil {
		l.rest.answered()
	}
	l.window = min(l.window+1, limits.PerDestination)
}

func (l *lane) idle() bool { return l.waits() == 0 && len(l.running) == 0 }
