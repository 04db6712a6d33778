package sending

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/command/delivery/facts"
	"carillon/command/delivery/schedule"
	"carillon/command/sampling"
	"carillon/eventstore"
	"carillon/eventstore/panics"
)

const (
	idleWait = 500 * time.Millisecond // before a retry of something unavailable
	busyWait = 20 * time.Millisecond  // while there is no room, or older ones are in flight
	// The minimum wait for due deliveries, none of which may be claimable.
	soonest        = 10 * time.Millisecond
	leaseMargin    = 30 * time.Second      // for queueing in memory and for recording the outcome
	drainTimeout   = 5 * time.Second       // for requests in flight when the process ends
	projectionWait = time.Second           // until the read model has what was recorded just now
	recoverPause   = 2 * time.Second       // between two searches for forgotten leases of this worker
	freshFor       = 2 * time.Second       // a delivery that was just handed over is sent even while Postgres is away
	holdingWait    = 50 * time.Millisecond // while it is not known whether leases still hold

	resetPause = time.Second // between two resets, in which nothing is begun

	worthwhileClaim = 128 // after a claim of as many, more may wait
)

// DefaultSearchEvery is the usual time between two searches.
const DefaultSearchEvery = time.Second

// DefaultSettings suit one node.
var DefaultSettings = schedule.Settings{
	InFlight:  2048,
	PerLane:   64,
	Opening:   4 * runtime.GOMAXPROCS(0),
	Queued:    16384,
	Bytes:     32 << 20,
	SlowAfter: 5 * time.Second,
}

// Policy bounds the attempts of a delivery.
type Policy struct {
	Timeout       time.Duration   // of one request
	RetrySchedule []time.Duration // waits after the first, second … failed automatic attempt
}

const retrySpread = 0.2 // of each wait: ±20 %

// Deliverer sends deliveries that the dispatcher hands over or that it claims from the queue.
type Deliverer struct {
	Store  eventstore.Store
	Queue  Queue
	Vault  Vault
	Sender Sender
	// Slots are those of destinations with a limit.
	Slots Slots
	// Facts decide what may be sent. Its Listener is this deliverer while Run works. If it follows dispatches, deliveries
	// are accepted from the dispatcher of another process: it must not if this process may dispatch as well, as
	// deliveries handed over here would be accepted twice.
	Facts *facts.Follower

	Policy   Policy
	Settings schedule.Settings
	Now      func() time.Time
	Jitter   func() float64 // from -1 to 1
	Log      *slog.Logger
	Count    func(Attempt) // counts each attempt in metrics
	// Tracer follows traced deliveries. Optional.
	Tracer Tracer
	// Failed is called for each recorded failed attempt. Optional.
	Failed func(eventstore.Position)
	// SearchEvery is the time from one search for due deliveries to the next, which bounds the delay if this process
	// misses a notification.
	SearchEvery time.Duration
	// Searches reports whether the search that begins at a time is this worker's. nil means all are.
	Searches func(begins time.Time) bool

	once      sync.Once
	published recentPublications // of Applied alone
	attempts  *slog.Logger
	wake      chan struct{}
	returns   chan struct{} // something goes back to the queue
	announces chan struct{} // the capacity is to be announced now

	mu       sync.Mutex // guards the rest
	schedule *schedule.Scheduler
	inFlight map[uuid.UUID]*schedule.Delivery // kept beside the schedule, which may break
	paused   time.Time                        // nothing is begun before, after a panic
	ctx      context.Context                  // nil means no request may begin
	timed    time.Time                        // when something is begun next; zero means nothing is planned
	back     []uuid.UUID                      // deliveries that go back to the queue
	setAside map[uuid.UUID]time.Time          // deliveries that can't be sent before their lease ends
	ended    map[uuid.UUID]struct{}           // deliveries whose stream was deleted
	// Destinations for which something handed over found no room, until that is announced.
	refused    map[uuid.UUID]struct{}
	following  bool // dispatches are read as they are recorded
	restsKnown bool // those of all processes are; until then nothing is taken from the dispatcher
	running    sync.WaitGroup
}

// Attempt describes an attempt for metrics.
type Attempt struct {
	FailureReason delivery.Failure // empty: success
	Duration      time.Duration
	Trigger       delivery.Trigger
}

func (d *Deliverer) init() {
	d.once.Do(func() {
		d.schedule = schedule.New(d.Settings)
		d.attempts = slog.New(sampling.New(d.Log.Handler(), attemptLines))
		d.wake, d.returns = make(chan struct{}, 1), make(chan struct{}, 1)
		d.setAside = map[uuid.UUID]time.Time{}
		d.ended, d.inFlight = map[uuid.UUID]struct{}{}, map[uuid.UUID]*schedule.Delivery{}
		d.refused, d.announces = map[uuid.UUID]struct{}{}, make(chan struct{}, 1)
	})
}

// Run works until the context ends, then lets the requests in flight finish and releases its leases.
func (d *Deliverer) Run(ctx context.Context) error {
	d.init()
	working, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	d.mu.Lock()
	d.ctx = working
	d.mu.Unlock()
	var watching sync.WaitGroup
	watching.Go(d.guardedLoop(ctx, d.giveBackReturned))
	watching.Go(d.guardedLoop(ctx, d.announce))
	d.guardedLoop(ctx, d.claimLoop)()
	watching.Wait()
	var back []uuid.UUID
	d.guarded(func() { back = d.takeNoMore() })()
	returning, returned := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer returned()
	d.giveBack(returning, back)
	d.Queue.NotifyDue()
	finished := make(chan struct{})
	go panics.Func("deliverer", func() { d.running.Wait(); close(finished) })()
	select {
	case <-finished:
	case <-time.After(drainTimeout):
		cancel()
		<-finished
	}
	return nil
}

// takeNoMore ends the taking of deliveries, and returns those that were not begun.
func (d *Deliverer) takeNoMore() (back []uuid.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ctx = nil
	d.putBack(d.schedule.DropAll(uuid.Nil, time.Now()))
	return d.back
}

// Wake makes it look into the queue now.
func (d *Deliverer) Wake() {
	d.init()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Due takes in that something is due from a time on; zero means that it may be due already. It waits for nothing.
// Only the worker whose search it is searches: deliveries due later are found by the next one.
func (d *Deliverer) Due(at time.Time) {
	now := d.Queue.Now()
	wait := at.Sub(now)
	switch {
	case at.IsZero():
		d.Wake()
	case !d.searches(now) || wait > d.nextSearch(now):
	case wait > 0:
		time.AfterFunc(wait, panics.Func("deliverer", d.Wake))
	default:
		d.Wake()
	}
}

// searches reports whether this worker searches for deliveries due at a time.
func (d *Deliverer) searches(at time.Time) bool {
	return d.Searches == nil || d.Searches(at.Truncate(d.SearchEvery))
}

// nextSearch returns the time until the next search of all workers.
func (d *Deliverer) nextSearch(at time.Time) time.Duration {
	return at.Truncate(d.SearchEvery).Add(d.SearchEvery).Sub(at)
}

// Load counts deliveries waiting in memory and requests in flight.
func (d *Deliverer) Load() (queued, running int) {
	d.init()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.schedule.Load()
}

// lease is long enough for a request that times out after a wait in memory.
func (d *Deliverer) lease() time.Duration { return 2*d.Policy.Timeout + leaseMargin }

// claimLoop takes due deliveries from the queue whenever there is room.
func (d *Deliverer) claimLoop(ctx context.Context) {
	wait, inTurn, search := time.Duration(0), false, time.Now().Add(recoverPause)
	for {
		if time.Now().After(search) {
			search = time.Now().Add(d.recover(ctx))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-d.wake:
			timer.Stop()
		case <-timer.C:
			if now := d.Queue.Now(); inTurn && !d.searches(now) {
				wait = d.nextSearch(now)
				continue
			}
		}
		wait, inTurn = d.claim(ctx)
	}
}

// claim takes what it has room for, and returns when to look again, and whether only if that search is this
// worker's.
func (d *Deliverer) claim(ctx context.Context) (wait time.Duration, inTurn bool) {
	room, behind := d.room()
	if room.Limit <= 0 || !d.Facts.Ready() {
		return busyWait, false
	}
	room.Over = append(room.Over, d.Facts.SuspendedNow()...)
	claimed, err := d.Queue.Claim(ctx, room, d.lease())
	switch {
	case errors.Is(err, ErrNotReady):
		d.takeRests()
		return busyWait, false
	case err != nil:
		if ctx.Err() == nil {
			d.Log.Warn("claim of due deliveries failed", "error", err)
		}
		return idleWait, false
	}
	d.takeRests()
	surplus := d.take(room, claimed)
	d.giveBack(ctx, surplus)
	switch kept := len(claimed) - len(surplus); {
	case kept >= min(room.Limit, worthwhileClaim):
		return 0, false // more may wait than the claim was allowed to take
	case behind:
		return busyWait, false
	}
	now := d.Queue.Now()
	next, planned := d.Queue.NextDue()
	if wait = max(next.Sub(now), soonest); planned && wait < d.nextSearch(now) && d.searches(now) {
		return wait, false
	}
	return d.nextSearch(now), true
}

// room returns what a claim may take.
func (d *Deliverer) room() (room schedule.Room, behind bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if now.Before(d.paused) {
		return schedule.Room{}, false
	}
	return d.schedule.Room(now)
}

// takeRests takes in how long destinations are to rest, as the last claim saw it.
func (d *Deliverer) takeRests() {
	known := d.Queue.Resting()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.restsKnown = true
	d.schedule.Resting(known, time.Now())
}

// take accepts claimed deliveries, and returns surplus ones and those not to be sent.
func (d *Deliverer) take(room schedule.Room, claimed []*schedule.Delivery) (surplus []uuid.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.schedule.Claimed(room, claimed, projectionWait, now)
	for _, one := range claimed {
		one.QueuedAt = now
		if _, ended := d.ended[one.ID]; ended {
			d.setAside[one.ID] = one.LeasedUntil
			continue
		}
		if !d.offer(one, now) {
			surplus = append(surplus, one.ID)
		}
	}
	d.begin(now)
	return surplus
}

// recover releases forgotten leases of this worker: a claim whose answer was lost, a lease that was
// not in the read model yet when it was given back, a delivery that was dropped because others may have taken it
// over. It returns when to search again: soon if the read model was behind, as such a delivery waits for it.
func (d *Deliverer) recover(ctx context.Context) time.Duration {
	n, err := d.Queue.Recover(ctx, d.lease(), d.known)
	switch {
	case errors.Is(err, ErrNotReady):
		return idleWait
	case err != nil && ctx.Err() == nil:
		d.Log.Debug("search for forgotten leases failed", "error", err)
	case n > 0:
		d.Log.Info("forgotten leases released", "deliveries", n)
		d.Wake()
	}
	return recoverPause
}

// known reports whether a delivery is here, or rests because it can't be sent.
func (d *Deliverer) known(id uuid.UUID) bool {
	now := d.Queue.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	until, rests := d.setAside[id]
	if rests && now.After(until) {
		delete(d.setAside, id)
		rests = false
	}
	return rests || d.schedule.Has(id)
}
