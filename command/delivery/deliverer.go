package delivery

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/command/delivery/schedule"
	"carillon/eventstore"
)

const (
	idlePoll       = 500 * time.Millisecond // looks into the queue at least this often
	busyPoll       = 20 * time.Millisecond  // and this often while deliveries come or there is no room
	soonest        = 10 * time.Millisecond  // and no sooner for what becomes due, which may be nothing that can be taken
	leaseSlack     = 30 * time.Second       // for queueing in memory and for recording the outcome
	drainTimeout   = 5 * time.Second        // for requests in flight when the process ends
	projectionWait = time.Second            // until the read model has what was recorded just now
	recoverPause   = 2 * time.Second        // between two looks for what this worker holds and has forgotten
	freshFor       = 2 * time.Second        // a delivery that was just handed over is sent even while Postgres is away
	holdingPoll    = 50 * time.Millisecond  // while it is not known whether leases still hold

	worthwhileClaim = 128 // after a claim of as many, more may wait
)

// DefaultSettings suit one node.
var DefaultSettings = schedule.Settings{
	InFlight:  2048,
	PerLane:   64,
	Opening:   4 * runtime.GOMAXPROCS(0),
	Queued:    16384,
	Bytes:     32 << 20,
	SlowAfter: 5 * time.Second,
}

// Policy is how hard it is tried.
type Policy struct {
	Timeout       time.Duration   // of one request
	RetrySchedule []time.Duration // waits after the first, second … failed automatic attempt
	RetrySpread   float64         // 0.2: ±20 %
}

// DefaultPolicy follows Standard Webhooks: ten attempts over three days.
var DefaultPolicy = Policy{
	Timeout: 30 * time.Second,
	RetrySchedule: []time.Duration{
		5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
		10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	},
	RetrySpread: 0.2,
}

// Deliverer sends deliveries: those that the dispatcher hands over and those that it claims from the queue.
type Deliverer struct {
	Store  eventstore.Store
	Queue  Queue
	Vault  Vault
	Sender Sender
	// Certificates of organizations. nil: none has one.
	Certificates *Certificates

	Policy   Policy
	Settings schedule.Settings
	Now      func() time.Time
	Jitter   func() float64 // from -1 to 1
	Log      *slog.Logger
	Record   func(Attempt) // tells metrics of each attempt
	// Failed hears where an attempt was recorded that failed. nil: nobody does.
	Failed func(eventstore.Position)
	// Suspended lists the organizations of which nothing is sent now, as of all events that are recorded when it is called.
	// nil: there are none.
	Suspended func(context.Context) ([]uuid.UUID, error)

	once      sync.Once
	suspended suspensions
	targets   recall[*target]
	entitled  *entitlements
	attempts  *attemptLog
	wake      chan struct{}
	returns   chan struct{} // something goes back to the queue

	mu         sync.Mutex // guards the rest
	schedule   *schedule.Scheduler
	ctx        context.Context         // nil: nothing is begun
	timed      time.Time               // when something is begun next; zero means nothing is planned
	back       []uuid.UUID             // what goes back to the queue
	resting    map[uuid.UUID]time.Time // what can't be sent now, until its lease ends
	disabled   map[uuid.UUID]struct{}  // destinations that were disabled while this process followed them
	restsKnown bool                    // those of all processes are; until then nothing is taken from the dispatcher
	running    sync.WaitGroup
}

// Attempt is what metrics want to know of an attempt.
type Attempt struct {
	FailureReason string // empty: success
	Duration      time.Duration
	Trigger       delivery.Trigger
}

func (d *Deliverer) init() {
	d.once.Do(func() {
		d.schedule = schedule.New(d.Settings)
		d.targets.read = readTarget(d.Store, d.Vault, d.Now)
		d.entitled = newEntitlements(d.Store)
		d.attempts = &attemptLog{log: d.Log}
		d.wake, d.returns = make(chan struct{}, 1), make(chan struct{}, 1)
		d.resting, d.disabled = map[uuid.UUID]time.Time{}, map[uuid.UUID]struct{}{}
	})
}

// Run works until the context ends, then lets the requests under way finish and gives back what it holds.
func (d *Deliverer) Run(ctx context.Context) error {
	d.init()
	working, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	d.mu.Lock()
	d.ctx = working
	d.mu.Unlock()
	var watching sync.WaitGroup
	watching.Go(func() { d.watch(ctx) })
	watching.Go(func() { d.giveBackReturned(ctx) })
	d.claimLoop(ctx)
	watching.Wait()
	d.mu.Lock()
	d.ctx = nil // takes nothing more
	d.putBack(d.schedule.DropAll(time.Now()))
	back := d.back
	d.mu.Unlock()
	returning, returned := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer returned()
	d.giveBack(returning, back)
	finished := make(chan struct{})
	go func() { d.running.Wait(); close(finished) }()
	select {
	case <-finished:
	case <-time.After(drainTimeout):
		cancel()
		<-finished
	}
	return nil
}

// Wake makes it look into the queue now.
func (d *Deliverer) Wake() {
	d.init()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Load counts what waits in memory and what is under way.
func (d *Deliverer) Load() (queued, running int) {
	d.init()
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.schedule.Load()
}

// lease is long enough for a request that times out after a wait in memory.
func (d *Deliverer) lease() time.Duration { return 2*d.Policy.Timeout + leaseSlack }

// claimLoop takes due deliveries from the queue whenever there is room.
func (d *Deliverer) claimLoop(ctx context.Context) {
	wait, recovered := time.Duration(0), time.Now()
	for {
		if time.Since(recovered) >= recoverPause {
			d.recover(ctx)
			recovered = time.Now()
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-d.wake:
			timer.Stop()
		case <-timer.C:
		}
		wait = d.claim(ctx)
	}
}

// claim takes what it has room for, and returns when to look again.
func (d *Deliverer) claim(ctx context.Context) time.Duration {
	room := d.room()
	if room.Limit <= 0 || !d.suspended.ready() {
		return busyPoll
	}
	jobs, err := d.Queue.Claim(ctx, Ask{
		Limit: room.Limit, PerDestination: room.PerLane, Lease: d.lease(), Full: room.Full, Slow: room.Slow, PerSlow: room.PerSlow,
		Over: append(room.Over, d.suspended.list()...), Bytes: room.Bytes, BytesOf: room.BytesOf,
	})
	switch {
	case errors.Is(err, ErrNotReady):
		d.takeRests()
		return busyPoll
	case err != nil:
		if ctx.Err() == nil {
			d.Log.Warn("could not claim due deliveries", "error", err)
		}
		return idlePoll
	}
	d.takeRests()
	surplus := d.take(room, jobs)
	d.giveBack(ctx, surplus)
	switch kept := len(jobs) - len(surplus); {
	case kept >= min(room.Limit, worthwhileClaim):
		return 0 // more may wait than the claim was allowed to take
	case kept > 0 || room.Behind:
		return busyPoll
	}
	now := time.Now()
	idle := now.Truncate(idlePoll).Add(idlePoll).Sub(now) // when others of this process wake up as well
	next, planned := d.Queue.NextDue()
	if !planned {
		return idle
	}
	return min(max(next.Sub(d.Queue.Now()), soonest), idle)
}

// room returns what a claim may take.
func (d *Deliverer) room() schedule.Room {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.schedule.Room(time.Now())
}

// takeRests takes in how long destinations are to rest, as the last claim saw it.
func (d *Deliverer) takeRests() {
	known := d.Queue.Resting()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.restsKnown = true
	d.schedule.Resting(known, time.Now())
}

// take takes on what was claimed, and returns what there is no room for and what is not to be sent.
func (d *Deliverer) take(room schedule.Room, jobs []Job) (surplus []uuid.UUID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	claimed := make([]schedule.Delivery, len(jobs))
	for i := range jobs {
		jobs[i].came = now
		claimed[i] = jobs[i].scheduled()
	}
	d.schedule.Claimed(room, claimed, projectionWait, now)
	for i := range claimed {
		if d.stopped(&jobs[i]) || !d.schedule.Offer(claimed[i], now) {
			surplus = append(surplus, jobs[i].ID)
		}
	}
	d.begin(now)
	return surplus
}

// recover gives back what this worker holds without knowing of it: a claim whose answer was lost, a lease that was not
// in the read model yet when it was given back, a delivery that was dropped because others may have taken it over.
func (d *Deliverer) recover(ctx context.Context) {
	n, err := d.Queue.Recover(ctx, d.lease(), d.known)
	switch {
	case err != nil && ctx.Err() == nil:
		d.Log.Debug("could not look for forgotten deliveries", "error", err)
	case n > 0:
		d.Log.Info("deliveries that this worker held and did not know of go back to the queue", "deliveries", n)
		d.Wake()
	}
}

// known reports whether a delivery is here, or rests because it can't be sent.
func (d *Deliverer) known(id uuid.UUID) bool {
	now := d.Queue.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	until, rests := d.resting[id]
	if rests && now.After(until) {
		delete(d.resting, id)
		rests = false
	}
	return rests || d.schedule.Has(id)
}
