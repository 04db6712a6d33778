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
	OpeningBeside  int           // the same of one organization beside others, as soon as anybody waits for a processor

	Fresh         int           // deliveries that came from the dispatcher and wait in memory, all together
	Claimed       int           // deliveries that were claimed from the queue and wait or are under way, all together
	Bytes         int           // of the bodies of all that waits or is under way, apart from small ones
	Queued        int           // deliveries that wait in memory for one destination
	QueuedFor     time.Duration // no more of them than are sent in this time
	QueuedAtFirst int           // as long as its pace is not known
}

// DefaultLimits suit one node.
var DefaultLimits = Limits{
	InFlight: 2048, PerDestination: 64, PerNew: 8, PerSlow: 4, SlowAfter: 5 * time.Second, Opening: 16 * runtime.GOMAXPROCS(0), OpeningBeside: runtime.GOMAXPROCS(0),
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
	heard   heard
	rests   rests
}

func newLanes(limits Limits) *lanes {
	return &lanes{
		limits: limits, lanes: map[uuid.UUID]*lane{}, held: map[uuid.UUID]*held{}, byOrg: map[uuid.UUID]*turn{}, over: map[uuid.UUID]struct{}{},
		running: newShares(limits.InFlight), slow: newShares(limits.InFlight * 3 / 4), cold: newShares(limits.Opening),
		fresh: newShares(limits.Fresh), claimed: newShares(limits.Claimed),
		bodies: bodies{newShares(limits.Bytes)}, tight: map[uuid.UUID]struct{}{}, rests: rests{of: map[uuid.UUID]*rest{}},
	}
}

func (ls *lanes) lane(t *destination.Target) *lane {
	found := ls.lanes[t.ID]
	if found == nil {
		found = &lane{destination: t.ID, organization: t.Organization, running: map[uuid.UUID]func(){}, window: ls.limits.PerNew, connected: ls.kept.has(t.ID, time.Now()), rest: ls.rests.of[t.ID]}
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
	ls.unreserve(l, body)
}

// unreserve gives back the room that was promised for a fresh delivery.
func (ls *lanes) unreserve(l *lane, body *Body) {
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

// add queues a delivery; reserved says that it uses room promised before. It reports false where there is no room, or where
// its destination was disabled or deleted meanwhile. A delivery that is here already, because its claim was forgotten or
// taken from this worker, is not queued again: what waits goes on with what the newest claim knows of it.
func (ls *lanes) add(job Job, reserved bool) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.look(time.Now())
	l := ls.lane(job.Target)
	if reserved {
		l.reserved--
	}
	target := ls.heard.now(job.Target)
	stays := target == job.Target || job.goesTo(target)
	if stays {
		job.Target = target
	}
	if here := ls.held[job.ID]; here != nil {
		if reserved {
			ls.unreserve(l, job.Body)
		}
		if _, running := l.running[job.ID]; !running && stays { // what waits and does not stay was dropped by the change
			ls.letGo(l, here.Body)
			ls.hold(l, job.Body)
			here.Job = job
		}
		return true
	}
	if !stays {
		if reserved {
			ls.unreserve(l, job.Body)
		}
		ls.dropIdle(l)
		return false
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
	l.queue.add(entry, reserved)
	ls.queued++
	ls.wait(l)
	return true
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

// size counts what waits and what is under way.
func (ls *lanes) size() (queued, running int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.queued, ls.running.used
}
