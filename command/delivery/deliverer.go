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
	"carillon/aggregates/destination"
	"carillon/aggregates/feed"
	"carillon/aggregates/organization"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
)

const (
	idlePoll     = 500 * time.Millisecond // looks into the queue at least this often
	busyPoll     = 20 * time.Millisecond  // and this often while something comes or there is no room
	leaseSlack   = 30 * time.Second       // for queueing in memory and for recording the outcome
	drainTimeout = 5 * time.Second        // for requests under way when the process ends
	expectTime   = time.Second            // how long the queue is looked into often where something is on its way there
	recoverPause = 2 * time.Second        // between two looks for what this worker holds and has forgotten
	freshFor     = 2 * time.Second        // a delivery that was just handed over is sent even while Postgres is away
	holdingPoll  = 50 * time.Millisecond  // while it is not known whether leases still hold
)

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

	Policy Policy
	Limits Limits
	Now    func() time.Time
	Jitter func() float64 // from -1 to 1
	Log    *slog.Logger
	Record func(Attempt) // tells metrics of each attempt
	// Failed hears where an attempt was recorded that failed. nil: nobody does.
	Failed func(eventstore.Position)
	// Suspended lists the organizations of which nothing is sent now, as of all events that are recorded when it is called.
	// nil: there are none.
	Suspended func(context.Context) ([]uuid.UUID, error)
	// LargeBody is told when a large body comes. nil: nobody is.
	LargeBody func()
	// Waiting counts what waits for a processor in this process; it is called by one goroutine at a time. nil: as the
	// runtime tells.
	Waiting func() int

	once       sync.Once
	lanes      *lanes
	suspended  suspensions
	opened     *openedTargets
	entitled   *entitlements
	attempts   *attemptLog
	pacing     pacing
	processors int
	wake       chan struct{}
	dropped    chan struct{} // something goes back to the queue
	mu         sync.Mutex    // guards the next five
	ctx        context.Context
	goesOn     time.Time               // when something that rests is begun; zero: nothing is planned
	later      bool                    // requests are begun again soon
	expects    time.Time               // until when something is expected in the queue
	resting    map[uuid.UUID]time.Time // what can't be sent now, until its lease ends
	running    sync.WaitGroup
}

// Attempt is what metrics want to know of an attempt.
type Attempt struct {
	FailureReason string // empty: success
	Duration      time.Duration
	Trigger       delivery.Trigger
}

var _ Handoff = (*Deliverer)(nil)

func (d *Deliverer) init() {
	d.once.Do(func() {
		d.lanes = newLanes(d.Limits)
		d.opened = newOpenedTargets(d.Vault)
		d.entitled = newEntitlements(d.Store)
		d.attempts = &attemptLog{log: d.Log}
		d.processors = runtime.GOMAXPROCS(0)
		d.wake, d.dropped = make(chan struct{}, 1), make(chan struct{}, 1)
		d.resting = map[uuid.UUID]time.Time{}
		if d.Waiting == nil {
			d.Waiting = runnable()
		}
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
	watching.Go(func() { d.returnDropped(ctx) })
	d.claimLoop(ctx)
	watching.Wait()
	d.mu.Lock()
	d.ctx = nil // takes nothing more
	d.mu.Unlock()
	returning, returned := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer returned()
	d.giveBack(returning, d.lanes.drain())
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

// Reserve implements Handoff.
func (d *Deliverer) Reserve(target *destination.Target, body *Body) (worker int32, until time.Time, ok bool) {
	d.init()
	d.comes(body)
	worker, known := d.Queue.Worker()
	if !known || !d.works() || !d.lanes.restsHeard() || d.suspended.has(target.Organization) || !d.lanes.reserve(target, body) {
		return 0, time.Time{}, false
	}
	return worker, d.Queue.Now().Add(d.lease()), true
}

// Submit implements Handoff.
func (d *Deliverer) Submit(job Job) {
	job.fresh, job.came = true, time.Now()
	job.Losses, _ = d.Queue.Holding()
	d.lanes.add(job, true)
	d.pump()
}

// Expect implements Handoff.
func (d *Deliverer) Expect() {
	d.mu.Lock()
	d.expects = time.Now().Add(expectTime)
	d.mu.Unlock()
	d.Wake()
}

// Cancel implements Handoff.
func (d *Deliverer) Cancel(target *destination.Target, body *Body) { d.lanes.cancel(target, body) }

// Load counts what waits in memory and what is under way.
func (d *Deliverer) Load() (queued, running int) {
	d.init()
	return d.lanes.size()
}

// lease is long enough for a request that times out after a wait in memory.
func (d *Deliverer) lease() time.Duration { return 2*d.Policy.Timeout + leaseSlack }

func (d *Deliverer) works() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ctx != nil
}

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

// claim takes what it has room for, and says when to look again.
func (d *Deliverer) claim(ctx context.Context) time.Duration {
	ask := d.lanes.ask()
	d.giveBack(ctx, d.lanes.takeBack())
	if ask.Limit <= 0 || !d.suspended.ready() {
		return busyPoll
	}
	ask.Lease = d.lease()
	ask.Over = append(ask.Over, d.suspended.list()...)
	jobs, err := d.Queue.Claim(ctx, ask)
	if err == nil || errors.Is(err, ErrNotReady) {
		d.lanes.restsKnown(d.Queue.Resting())
	}
	switch {
	case errors.Is(err, ErrNotReady):
		return busyPoll
	case err != nil:
		if ctx.Err() == nil {
			d.Log.Warn("could not claim due deliveries", "error", err)
		}
		return idlePoll
	}
	d.lanes.answer(ask, jobs)
	var surplus []Job
	for _, job := range jobs {
		job.came = time.Now()
		d.comes(job.Body)
		if d.suspended.has(job.Target.Organization) || !d.lanes.add(job, false) {
			surplus = append(surplus, job)
		}
	}
	d.pump()
	d.giveBack(ctx, surplus)
	switch kept := len(jobs) - len(surplus); {
	case kept >= min(ask.Limit, maxPerDestination):
		return d.pacing.again(0) // more may wait than the claim was allowed to take
	case len(jobs) > 0 || d.expecting():
		return d.pacing.again(busyPoll)
	}
	now := time.Now()
	idle := now.Truncate(idlePoll).Add(idlePoll).Sub(now) // when others of this process wake up as well
	next, planned := d.Queue.NextDue()
	if !planned {
		return idle
	}
	return d.pacing.until(next.Sub(d.Queue.Now()), idle)
}

func (d *Deliverer) expecting() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return time.Now().Before(d.expects)
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

// known lists what is here, and what rests because it can't be sent.
func (d *Deliverer) known() map[uuid.UUID]struct{} {
	ids, now := d.lanes.ids(), d.Queue.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, until := range d.resting {
		if now.After(until) {
			delete(d.resting, id)
			continue
		}
		ids[id] = struct{}{}
	}
	return ids
}

// watch follows the destinations, which organizations are suspended, and who may get what: what waits in memory for a
// destination that changes is sent as it is afterwards, or goes back to the queue if it is disabled; what is in flight to
// one that was deleted is cut off. It waits for nothing but events, so that they are known at once.
func (d *Deliverer) watch(ctx context.Context) {
	for ctx.Err() == nil { // again when the store has become another one
		d.watchFromHead(ctx)
	}
}

func (d *Deliverer) watchFromHead(ctx context.Context) {
	head, err := d.Store.Head(ctx)
	for err != nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(idlePoll):
		}
		head, err = d.Store.Head(ctx)
	}
	d.readSuspensions(ctx)
	filter := eventstore.Categories(destination.Aggregate.Category, organization.Aggregate.Category,
		feed.Aggregate.Category, subscription.Aggregate.Category)
	broken := func() { d.entitled.follow(false) }
	for m := range eventstore.FollowUnbroken(ctx, d.Store, head, filter, d.Log.With("consumer", "deliverer"), broken) {
		switch {
		case m.CaughtUp:
			d.entitled.follow(true)
		case m.Event != nil:
			d.heard(m.Event)
		}
	}
}

// heard takes in an event that the deliverer follows.
func (d *Deliverer) heard(recorded *eventstore.Recorded) {
	switch recorded.Category() {
	case organization.Aggregate.Category:
		d.afterSuspension(recorded)
	case destination.Aggregate.Category:
		event, err := destination.Events.Decode(recorded)
		if err != nil {
			d.Log.Error("deliverer can't read what changed about a destination", "error", err)
			return // the projection that stops on it says so loudly; sending goes on with what is known
		}
		d.afterChange(recorded, event)
	default:
		d.entitled.changed(recorded)
	}
}

// afterChange lets what waits for a destination follow it: it is sent as the destination is now, and goes back to the
// queue where that is disabled.
func (d *Deliverer) afterChange(recorded *eventstore.Recorded, event destination.Event) {
	id, enabled := recorded.StreamID(), false
	after := func(t *destination.Target) *destination.Target { return t.After(id, recorded.Revision, event) }
	switch event.(type) {
	case destination.Deleted:
		after = nil
		d.opened.end(id)
	case destination.Enabled:
		enabled = true
		d.lanes.unrest(id)
	case destination.Revised:
		d.lanes.unrest(id) // it may be another receiver
	case destination.Created, destination.Disabled, destination.AutoDisabled,
		destination.SecretMinted, destination.SecretRotated, destination.SecretExpired: // it goes on, as it is now
	}
	d.opened.forget(id)
	d.drop(d.lanes.change(id, after))
	if enabled {
		d.Wake()
	}
}

// drop lets jobs go back to the queue, and waits for nothing.
func (d *Deliverer) drop(jobs []Job) {
	if len(jobs) == 0 {
		return
	}
	d.lanes.putBack(jobs)
	select {
	case d.dropped <- struct{}{}:
	default:
	}
}

// returnDropped gives back what was dropped, until the context ends.
func (d *Deliverer) returnDropped(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.dropped:
			d.release(ctx, d.lanes.takeBack())
		}
	}
}

// release gives jobs back and looks at once who else may take them.
func (d *Deliverer) release(ctx context.Context, jobs []Job) {
	if len(jobs) > 0 {
		d.giveBack(ctx, jobs)
		d.Wake()
	}
}

func (d *Deliverer) giveBack(ctx context.Context, jobs []Job) {
	if len(jobs) == 0 {
		return
	}
	ids := make([]uuid.UUID, len(jobs))
	for i, job := range jobs {
		ids[i] = job.ID
	}
	if err := d.Queue.Release(ctx, ids); err != nil {
		d.Log.Warn("could not give back leases; they end by themselves", "error", err)
	}
}
