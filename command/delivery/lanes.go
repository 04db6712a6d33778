package delivery

import (
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
)

// Limits bounds the work of one deliverer.
type Limits struct {
	InFlight       int           // requests at one time, all destinations together
	PerDestination int           // requests at one time to one destination
	PerNew         int           // the same before it has answered; each answer allows one more
	PerSlow        int           // the same for a slow one; and as many wait
	SlowAfter      time.Duration // an answer that takes longer, or is not there by then, makes it slow
	Opening        int           // requests at one time that open a connection, where it is crowded

	Fresh         int           // deliveries that came from the dispatcher and wait in memory, all together
	Claimed       int           // deliveries that were claimed from the queue and wait or are under way, all together
	Bytes         int           // of the bodies of all that waits or is under way, apart from small ones
	Queued        int           // deliveries that wait in memory for one destination
	QueuedFor     time.Duration // no more of them than are sent in this time
	QueuedAtFirst int           // as long as its pace is not known
}

// DefaultLimits suit one node.
var DefaultLimits = Limits{
	InFlight: 2048, PerDestination: 64, PerNew: 8, PerSlow: 4, SlowAfter: 5 * time.Second, Opening: 16 * runtime.GOMAXPROCS(0),
	Fresh: 16384, Claimed: 4096, Bytes: 32 << 20, Queued: 2048, QueuedFor: 8 * time.Second, QueuedAtFirst: 256,
}

// What a claim takes: at most this many for one destination, and in all; and where fewer than this are left to an
// organization, nothing for it.
const (
	maxPerDestination = 128
	maxClaim          = 512
	minPerClaim       = 16
)

// openingFor is how long a request counts that opens a connection: after that it waits for somebody else.
const openingFor = 500 * time.Millisecond

// lanes queues deliveries in one lane for each destination and says which may start: fair between organizations first,
// between the destinations of an organization second. A destination that is slow or dead fills its own lane only, and
// the lanes of an organization its own share only: of the requests under way, of the fresh deliveries that wait, and of
// those that were claimed.
type lanes struct {
	limits Limits

	mu      sync.Mutex
	queued  int
	lanes   map[uuid.UUID]*lane
	held    map[uuid.UUID]*held // what waits and what is under way, by delivery
	begun   []*held             // requests in the order in which they began, those left out that are known to be overdue
	opening []*held             // requests that open a connection, in the order in which they began
	cold    *shares             // of those, which have begun within openingFor
	back    []Job               // what waited for a lane that has become slow, and goes back to the queue
	kept    connected           // destinations that were connected when they became idle
	turns   []*turn             // organizations with work, the next one first
	byOrg   map[uuid.UUID]*turn
	over    map[uuid.UUID]struct{} // organizations that the last claim passed by
	running *shares
	slow    *shares // of what is running: what is overdue, and what was begun to a slow destination
	fresh   *shares
	claimed *shares
	bodies  bodies
	tight   map[uuid.UUID]struct{} // organizations of which the last claim may have left what it had no memory for
	latest  latest
}

// turn is the round of one organization's lanes.
type turn struct {
	organization uuid.UUID
	lanes        []*lane
	stuck        bool // all of them are slow
}

func newLanes(limits Limits) *lanes {
	return &lanes{
		limits: limits, lanes: map[uuid.UUID]*lane{}, held: map[uuid.UUID]*held{}, byOrg: map[uuid.UUID]*turn{}, over: map[uuid.UUID]struct{}{},
		running: newShares(limits.InFlight), slow: newShares(limits.InFlight * 3 / 4), cold: newShares(limits.Opening),
		fresh: newShares(limits.Fresh), claimed: newShares(limits.Claimed),
		bodies: bodies{newShares(limits.Bytes)}, tight: map[uuid.UUID]struct{}{},
	}
}

func (ls *lanes) lane(t *destination.Target) *lane {
	found := ls.lanes[t.ID]
	if found == nil {
		found = &lane{destination: t.ID, organization: t.Organization, running: map[uuid.UUID]func(){}, window: ls.limits.PerNew, connected: ls.kept.has(t.ID, time.Now())}
		ls.lanes[t.ID] = found
	}
	return found
}

// look notes which requests are overdue by now, and which must have their connection or wait for it.
func (ls *lanes) look(now time.Time) {
	for len(ls.opening) > 0 && (ls.opening[0].over || now.Sub(ls.opening[0].began) > openingFor) {
		ls.warm(ls.opening[0])
		ls.opening[0] = nil
		ls.opening = ls.opening[1:]
	}
	for len(ls.begun) > 0 && (ls.begun[0].over || now.Sub(ls.begun[0].began) > ls.limits.SlowAfter) {
		if late := ls.begun[0]; !late.over {
			late.overdue = true
			if !late.slow {
				late.slow = true
				ls.slow.take(late.lane.organization)
			}
			late.lane.overdue++
			ls.running.overdue(late.lane.organization, 1)
		}
		ls.begun[0] = nil
		ls.begun = ls.begun[1:]
	}
}

// reserve promises room for a fresh delivery in a destination's lane.
func (ls *lanes) reserve(target *destination.Target, body *Body) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l, now := ls.lane(target), time.Now()
	ls.look(now)
	if !l.takesFresh(ls.limits) || l.waits() >= ls.fresh.left(l.organization) || !ls.bodies.fits(body, l) {
		l.spilled = now
		return false
	}
	l.reserved++
	ls.fresh.take(l.organization)
	ls.hold(l, body)
	return true
}

func (ls *lanes) cancel(target *destination.Target, body *Body) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.lane(target)
	l.reserved--
	ls.fresh.giveBack(l.organization)
	ls.letGo(l, body)
}

// hold counts the memory of a body for a lane.
func (ls *lanes) hold(l *lane, body *Body) {
	l.bytes += body.counted()
	ls.bodies.hold(body, l.organization)
}

func (ls *lanes) letGo(l *lane, body *Body) {
	l.bytes -= body.counted()
	ls.bodies.release(body, l.organization)
}

// add queues a delivery; reserved says that it uses room promised before. It reports false where there is no room. A
// delivery that is here already, because its claim was forgotten or taken from this worker, is not queued again: what
// waits goes on with what the newest claim knows of it.
func (ls *lanes) add(job Job, reserved bool) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.look(time.Now())
	l := ls.lane(job.Target)
	if reserved {
		l.reserved--
	}
	if here := ls.held[job.ID]; here != nil {
		if reserved {
			ls.fresh.giveBack(l.organization)
			ls.letGo(l, job.Body)
		}
		if _, running := l.running[job.ID]; !running {
			ls.letGo(l, here.Body)
			ls.hold(l, job.Body)
			here.Job = job
		}
		return true
	}
	from := ls.fresh
	if !reserved {
		if l.slow() && l.waits() >= ls.limits.PerSlow {
			return false
		}
		from = ls.claimed
		from.take(l.organization)
		ls.hold(l, job.Body)
	}
	entry := &held{Job: job, lane: l, from: from}
	ls.held[job.ID] = entry
	l.queue = append(l.queue, entry)
	ls.queued++
	ls.wait(l)
	return true
}

// wait puts a lane that may start something into its organization's turn.
func (ls *lanes) wait(l *lane) {
	if l.waiting || !l.mayStart(ls.limits) {
		return
	}
	l.waiting = true
	t := ls.byOrg[l.organization]
	if t == nil {
		t = &turn{organization: l.organization}
		ls.byOrg[l.organization] = t
		ls.turns = append(ls.turns, t)
	}
	t.lanes, t.stuck = append(t.lanes, l), false
}

// next takes the delivery whose turn it is, and registers how to cancel it. Where it is crowded here, requests that open
// a connection are few at one time, and divided between organizations as all requests are.
func (ls *lanes) next(cancel func(), crowded bool) (Job, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := time.Now()
	ls.look(now)
	for range len(ls.turns) {
		t := ls.turns[0]
		ls.turns = ls.turns[1:]
		started := ls.nextOf(t, cancel, now, crowded && ls.cold.left(t.organization) <= 0, crowded && ls.besides(t.organization, now))
		if len(t.lanes) > 0 {
			ls.turns = append(ls.turns, t)
		} else {
			delete(ls.byOrg, t.organization)
		}
		if started != nil {
			return started.Job, true
		}
	}
	return Job{}, false
}

// nextOf takes the next delivery of an organization, if its share allows one more. What may not start now is looked at
// again when a request ends, of its own lane or of any.
func (ls *lanes) nextOf(t *turn, cancel func(), now time.Time, onlyWarm, few bool) *held {
	if t.stuck && ls.slow.free() == 0 {
		return nil // of organizations with nothing else there may be thousands
	}
	left := ls.running.left(t.organization)
	if left <= 0 {
		return nil
	}
	leftForSlow := min(ls.running.leftForSlow(t.organization), ls.slow.left(t.organization))
	scarce := ls.running.free() <= ls.limits.InFlight/sparedToProven
	looks, slow := len(t.lanes), 0
	if onlyWarm || few {
		looks = min(looks, ls.limits.Opening) // thousands may be cold; the next call goes on where this one ends, and there is one soon
	}
	for range looks {
		l, most := t.lanes[0], max(1, besides/len(t.lanes))
		t.lanes = t.lanes[1:]
		if !l.mayStart(ls.limits) {
			l.waiting = false
			continue
		}
		late, cold := l.slow(), !l.connected
		if late {
			slow++
		}
		if len(l.running) >= left || late && leftForSlow <= 0 || cold && onlyWarm || scarce && (cold || late) || few && len(l.running) >= most {
			t.lanes = append(t.lanes, l)
			continue
		}
		next := l.start(cancel, now)
		if next.slow = late; late {
			ls.slow.take(l.organization)
		}
		if next.cold = cold; cold {
			ls.cold.take(l.organization)
			ls.opening = append(ls.opening, next)
		}
		ls.queued--
		ls.running.take(l.organization)
		ls.latest.begins(l.organization, now)
		ls.begun = append(ls.begun, next)
		if next.from == ls.fresh {
			next.from.giveBack(l.organization)
			next.from = nil
		}
		if l.waiting = l.mayStart(ls.limits); l.waiting {
			t.lanes = append(t.lanes, l)
		}
		return next
	}
	t.stuck = slow > 0 && slow == len(t.lanes)
	return nil
}

// done ends a delivery's request. took is how long the answer took; zero where none was asked for, which says nothing of
// the destination. It reports whether a claim is worth its while that was not before.
func (ls *lanes) done(job Job, took time.Duration) (wants bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.look(time.Now())
	ended := ls.held[job.ID]
	l := ended.lane
	delete(l.running, job.ID)
	ls.forget(ended)
	ls.running.giveBack(l.organization)
	if ended.slow {
		ls.slow.giveBack(l.organization)
	}
	if t := ls.byOrg[l.organization]; t != nil {
		t.stuck = false
	}
	if ended.over = true; ended.overdue {
		l.overdue--
		ls.running.overdue(l.organization, -1)
	}
	ls.warm(ended)
	ended.Body = nil // it is looked at until it would have been overdue
	if took > 0 {
		l.answered(ls.limits, took)
		l.connected = !ended.hungUp
	}
	ls.wait(l)
	if l.skipped && l.claimable(ls.limits) && ls.bodies.roomy(l) {
		l.skipped, wants = false, true
	}
	if _, over := ls.over[l.organization]; over && ls.claimed.left(l.organization) >= 2*minPerClaim && ls.bodies.left(l.organization) >= largeBody {
		delete(ls.over, l.organization)
		wants = true
	}
	ls.dropIdle(l)
	return wants
}

// sent says that a request has ended, of which the outcome is yet to be recorded, and whether its connection was kept. It
// reports whether it had opened one: then another request may.
func (ls *lanes) sent(job Job, kept bool) (opened bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	h := ls.held[job.ID]
	h.hungUp, opened = !kept, h.cold
	ls.warm(h)
	return opened
}

// warm counts a request no more that opened a connection.
func (ls *lanes) warm(h *held) {
	if h.cold {
		h.cold = false
		ls.cold.giveBack(h.lane.organization)
	}
}

// dropIdle forgets a lane of which nothing is to be remembered.
func (ls *lanes) dropIdle(l *lane) {
	if l.idle() && !l.late && l.spilled.IsZero() {
		delete(ls.lanes, l.destination)
		if l.connected {
			ls.kept.add(l.destination, time.Now())
		} else {
			ls.kept.forget(l.destination)
		}
	}
}

// forget drops a delivery that waited or was under way.
func (ls *lanes) forget(h *held) {
	delete(ls.held, h.ID)
	ls.letGo(h.lane, h.Body)
	if h.from != nil {
		h.from.giveBack(h.lane.organization)
	}
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
	kept := make([]*held, 0, len(l.queue))
	for _, waits := range l.queue {
		if _, made := targets[waits.Target]; !made && after != nil {
			targets[waits.Target] = after(waits.Target)
		}
		if next := targets[waits.Target]; next != nil && (next.Enabled || waits.Replay != uuid.Nil) {
			waits.Target = next
			kept = append(kept, waits)
			continue
		}
		dropped = append(dropped, waits.Job)
		ls.forget(waits)
	}
	l.queue = kept
	ls.queued -= len(dropped)
	if l.waiting && len(kept) == 0 {
		ls.unwait(l)
	}
	if after == nil {
		l.late, l.spilled = false, time.Time{} // nothing is to be remembered of it
		for _, cancel := range l.running {
			cancel()
		}
		ls.dropIdle(l)
	}
	return dropped
}

// suspend drops what waits for the destinations of an organization, and returns it. What is under way goes on.
func (ls *lanes) suspend(organization uuid.UUID) (dropped []Job) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.lanes {
		if l.organization != organization {
			continue
		}
		for _, waits := range l.queue {
			dropped = append(dropped, waits.Job)
			ls.forget(waits)
		}
		ls.queued -= len(l.queue)
		l.queue = nil
		if l.waiting {
			ls.unwait(l)
		}
	}
	return dropped
}

// drain empties all queues, for good, and returns what was in them.
func (ls *lanes) drain() (dropped []Job) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.lanes {
		for _, waits := range l.queue {
			dropped = append(dropped, waits.Job)
			ls.forget(waits)
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

// size counts what waits and what is under way.
func (ls *lanes) size() (queued, running int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.queued, ls.running.used
}
