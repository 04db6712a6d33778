package delivery

import (
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
)

// Limits bounds the work of one deliverer.
type Limits struct {
	InFlight       int // requests at one time, all destinations together
	PerDestination int // requests at one time to one destination
	PerSlow        int // the same for a destination whose last request took longer than SlowAfter; and as many wait
	Queued         int // deliveries that wait in memory for one destination
	SlowAfter      time.Duration
}

// DefaultLimits suit one node.
var DefaultLimits = Limits{InFlight: 2048, PerDestination: 64, PerSlow: 4, Queued: 256, SlowAfter: 5 * time.Second}

// lanes queues deliveries in one lane for each destination and says which may start: fair between organizations first,
// between the destinations of an organization second. A destination that is slow or dead fills its own lane only.
type lanes struct {
	limits Limits

	mu       sync.Mutex
	inFlight int
	queued   int
	lanes    map[uuid.UUID]*lane
	held     map[uuid.UUID]*Job // what waits and what is under way, by delivery
	turns    []*turn            // organizations with work, the next one first
	byOrg    map[uuid.UUID]*turn
}

// lane is the queue of one destination.
type lane struct {
	destination uuid.UUID
	reserved    int // room promised
	queue       []*Job
	running     map[uuid.UUID]func() // deliveries under way, each with its cancel
	slow        bool
	waiting     bool // in its organization's turn
	skipped     bool // by the last claim, which found it full: more may wait for it in the read model
}

// turn is the round of one organization's lanes.
type turn struct {
	organization uuid.UUID
	lanes        []*lane
}

func newLanes(limits Limits) *lanes {
	return &lanes{limits: limits, lanes: map[uuid.UUID]*lane{}, held: map[uuid.UUID]*Job{}, byOrg: map[uuid.UUID]*turn{}}
}

func (l *lane) full(limits Limits) bool {
	most := limits.Queued
	if l.slow {
		most = limits.PerSlow
	}
	return l.reserved+len(l.queue) >= most
}

// claimable says whether at least half of its room is free, so that a claim is worth its while.
func (l *lane) claimable(limits Limits) bool {
	if l.slow && len(l.running)+len(l.queue) >= limits.PerSlow {
		return false
	}
	return 2*(l.reserved+len(l.queue)) < limits.Queued
}

func (l *lane) mayStart(limits Limits) bool {
	most := limits.PerDestination
	if l.slow {
		most = limits.PerSlow
	}
	return len(l.queue) > 0 && len(l.running) < most
}

func (l *lane) idle() bool { return l.reserved == 0 && len(l.queue) == 0 && len(l.running) == 0 }

func (ls *lanes) lane(destination uuid.UUID) *lane {
	found := ls.lanes[destination]
	if found == nil {
		found = &lane{destination: destination, running: map[uuid.UUID]func(){}}
		ls.lanes[destination] = found
	}
	return found
}

// reserve promises room in a destination's lane.
func (ls *lanes) reserve(destination uuid.UUID) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	found := ls.lane(destination)
	if found.slow || found.full(ls.limits) {
		return false
	}
	found.reserved++
	return true
}

func (ls *lanes) cancel(destination uuid.UUID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.lane(destination).reserved--
}

// add queues a delivery; reserved says that it uses room promised before. It reports false where there is no room. A
// delivery that is here already, because its claim was forgotten or taken from this worker, is not queued again: what
// waits goes on with what the newest claim knows of it.
func (ls *lanes) add(job Job, reserved bool) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	found := ls.lane(job.Target.ID)
	if reserved {
		found.reserved--
	}
	if here := ls.held[job.ID]; here != nil {
		if _, running := found.running[job.ID]; !running {
			*here = job
		}
		return true
	}
	if !reserved && found.full(ls.limits) {
		return false
	}
	ls.held[job.ID] = &job
	found.queue = append(found.queue, &job)
	ls.queued++
	ls.wait(job.Target.Organization, found)
	return true
}

// wait puts a lane that may start something into its organization's turn.
func (ls *lanes) wait(organization uuid.UUID, l *lane) {
	if l.waiting || !l.mayStart(ls.limits) {
		return
	}
	l.waiting = true
	t := ls.byOrg[organization]
	if t == nil {
		t = &turn{organization: organization}
		ls.byOrg[organization] = t
		ls.turns = append(ls.turns, t)
	}
	t.lanes = append(t.lanes, l)
}

// next takes the delivery whose turn it is, and registers how to cancel it.
func (ls *lanes) next(cancel func()) (Job, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.inFlight >= ls.limits.InFlight || len(ls.turns) == 0 {
		return Job{}, false
	}
	t := ls.turns[0]
	ls.turns = ls.turns[1:]
	l := t.lanes[0]
	t.lanes = t.lanes[1:]
	l.waiting = false
	job := *l.queue[0]
	l.queue[0] = nil
	l.queue = l.queue[1:]
	l.running[job.ID] = cancel
	ls.queued--
	ls.inFlight++
	if l.mayStart(ls.limits) {
		l.waiting = true
		t.lanes = append(t.lanes, l)
	}
	if len(t.lanes) > 0 {
		ls.turns = append(ls.turns, t)
	} else {
		delete(ls.byOrg, t.organization)
	}
	return job, true
}

// done ends a delivery's request. It reports whether the lane that a claim has skipped has room again.
func (ls *lanes) done(job Job, took time.Duration) (wants bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lanes[job.Target.ID]
	delete(l.running, job.ID)
	delete(ls.held, job.ID)
	ls.inFlight--
	l.slow = took > ls.limits.SlowAfter
	ls.wait(job.Target.Organization, l)
	wants = l.skipped && l.claimable(ls.limits)
	l.skipped = l.skipped && !wants
	if l.idle() && !l.slow {
		delete(ls.lanes, l.destination)
	}
	return wants
}

// change gives what waits for a destination another target, and drops what then may not be sent any more. Where after is
// nil the destination was deleted: all is dropped, and what is under way is cancelled. It returns what was dropped.
func (ls *lanes) change(id uuid.UUID, after func(*destination.Target) *destination.Target) (dropped []Job) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lanes[id]
	if l == nil {
		return nil
	}
	targets := map[*destination.Target]*destination.Target{} // few: those of deliveries that were made at the same time are one
	kept := make([]*Job, 0, len(l.queue))
	for _, job := range l.queue {
		if _, made := targets[job.Target]; !made && after != nil {
			targets[job.Target] = after(job.Target)
		}
		if next := targets[job.Target]; next != nil && (next.Enabled || job.Replay != uuid.Nil) {
			job.Target = next
			kept = append(kept, job)
			continue
		}
		dropped = append(dropped, *job)
		delete(ls.held, job.ID)
	}
	l.queue = kept
	ls.queued -= len(dropped)
	if l.waiting && len(kept) == 0 {
		ls.unwait(l)
	}
	if after == nil {
		for _, cancel := range l.running {
			cancel()
		}
	}
	return dropped
}

// drain empties all queues, for good, and returns what was in them.
func (ls *lanes) drain() (dropped []Job) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.lanes {
		for _, job := range l.queue {
			dropped = append(dropped, *job)
			delete(ls.held, job.ID)
		}
		l.queue, l.waiting = nil, false
	}
	ls.queued, ls.turns = 0, nil
	clear(ls.byOrg)
	return dropped
}

// ids lists what waits and what is under way.
func (ls *lanes) ids() map[uuid.UUID]struct{} {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ids := make(map[uuid.UUID]struct{}, len(ls.held))
	for id := range ls.held {
		ids[id] = struct{}{}
	}
	return ids
}

func (ls *lanes) unwait(l *lane) {
	l.waiting = false
	for i, t := range ls.turns {
		for j, other := range t.lanes {
			if other != l {
				continue
			}
			t.lanes = append(t.lanes[:j:j], t.lanes[j+1:]...)
			if len(t.lanes) == 0 {
				ls.turns = append(ls.turns[:i:i], ls.turns[i+1:]...)
				delete(ls.byOrg, t.organization)
			}
			return
		}
	}
}

// room is how many more deliveries the lanes may take from the read model, and which destinations take none.
func (ls *lanes) room() (free int, full []uuid.UUID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	free = ls.limits.InFlight - ls.inFlight - ls.queued
	for destination, l := range ls.lanes {
		if l.skipped = !l.claimable(ls.limits); l.skipped {
			full = append(full, destination)
		}
	}
	return free, full
}

// size counts what waits and what is under way.
func (ls *lanes) size() (queued, running int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.queued, ls.inFlight
}
