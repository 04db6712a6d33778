// Package facts follows the events that decide whether a delivery is sent, and how: destinations with their secrets,
// access to feeds, subscriptions, client certificates, suspended organizations, limits.
//
//	store ─▶ Follower ─▶ caches ─▶ MaySend: may it be sent now, where to, signed with what?
//	            └─▶ Listener: a deliverer drops what may not be sent any more
package facts

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/feed"
	"carillon/aggregates/organization"
	"carillon/aggregates/publication"
	"carillon/aggregates/subscription"
	"carillon/command/sealing"
	"carillon/eventstore"
)

// Name names the followers of all processes as a consumer that answers wait for.
const Name = "deliverers"

// retryPause is the wait before something unavailable is tried again.
const retryPause = 500 * time.Millisecond

// Vault opens sealed secrets, addresses, headers and keys; sealing.Vault is one.
type Vault interface {
	Open(ctx context.Context, destination uuid.UUID, field sealing.Field, sealed []byte) ([]byte, error)
}

// Follower keeps what deliveries need, as of the events it has applied. Its answers are always current as of them:
// until it has caught up, and while its subscription is broken, it keeps nothing and reads each stream again.
type Follower struct {
	Store eventstore.Store
	Vault Vault
	Now   func() time.Time
	Log   *slog.Logger
	// Connect makes connections that show a certificate; egress.NewTransport does. Optional.
	Connect func(*tls.Certificate) *http.Transport
	// Standing returns the organizations of which nothing is sent now, and the destinations with a limit of requests per
	// second, as of all events that are recorded when it is called. Optional.
	Standing func(context.Context) (suspended []uuid.UUID, limits map[uuid.UUID]float64, err error)
	// Listener hears of each event after it was applied. Optional.
	Listener Listener
	// Dispatches lets the listener hear of publications and dispatches, too.
	Dispatches bool

	once         sync.Once
	targets      *cache[*Target]
	readers      *cache[[]uuid.UUID] // organizations that can see a feed
	subscribed   *cache[bool]        // whether a subscription exists
	certificates *cache[*connections]

	mu        sync.Mutex
	applied   eventstore.Position    // zero while nothing is kept
	suspended map[uuid.UUID]struct{} // nil until it was read: until then nothing is sent at all
	disabled  map[uuid.UUID]struct{} // destinations that were disabled while they were followed
	limits    map[uuid.UUID]float64  // requests per second of the destinations that have a limit
}

// Listener is a deliverer as a follower notifies it.
type Listener interface {
	// Applied is called for each event in order. event is nil unless it is one of a destination or an organization.
	Applied(ctx context.Context, recorded *eventstore.Recorded, event any)
	// Following is called when events begin to be followed as they are recorded, and when that ends.
	Following(following bool)
}

func (f *Follower) init() {
	f.once.Do(func() {
		f.targets = newCache(f.readTarget, nil)
		f.readers = newCache(loading(f.Store, feed.Aggregate, feed.State.Readers), nil)
		f.subscribed = newCache(loading(f.Store, subscription.Aggregate, subscription.State.Exists), nil)
		f.certificates = newCache(f.connect, (*connections).retire)
	})
}

// Run follows events until the context ends.
func (f *Follower) Run(ctx context.Context) {
	f.init()
	for ctx.Err() == nil { // again when the store has become another one
		f.fromHead(ctx)
	}
}

func (f *Follower) fromHead(ctx context.Context) {
	head, err := f.Store.Head(ctx)
	for ; err != nil; head, err = f.Store.Head(ctx) {
		if !pause(ctx) {
			return
		}
	}
	f.mu.Lock()
	f.disabled = map[uuid.UUID]struct{}{}
	f.mu.Unlock()
	f.readStanding(ctx)
	categories := Categories()
	if f.Dispatches {
		categories = append(categories, publication.Aggregate.Category, dispatch.Aggregate.Category)
	}
	broken := func() { f.follow(false, eventstore.Position{}) }
	defer broken()
	at := head
	for m := range eventstore.FollowUnbroken(ctx, f.Store, head, eventstore.Categories(categories...),
		f.Log.With("consumer", Name), broken) {
		if !m.CaughtUp {
			at = m.Position
		}
		switch {
		case m.CaughtUp:
			f.follow(true, at)
		case m.Event != nil:
			f.apply(ctx, m.Event)
		}
	}
}

// Categories lists those of the streams that decide over deliveries.
func Categories() []string {
	return []string{
		destination.Aggregate.Category, organization.Aggregate.Category, feed.Aggregate.Category,
		subscription.Aggregate.Category, clientcertificate.Aggregate.Category,
	}
}

// pause waits before another try, and reports whether the context goes on.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(retryPause):
		return true
	}
}

// follow starts or stops keeping values, as events are followed or not.
func (f *Follower) follow(following bool, at eventstore.Position) {
	f.targets.follow(following)
	f.readers.follow(following)
	f.subscribed.follow(following)
	f.certificates.follow(following)
	f.mu.Lock()
	f.applied = at
	f.mu.Unlock()
	if f.Listener != nil {
		f.Listener.Following(following)
	}
}

// Applied returns the position up to which all events are applied. It is zero while values are not kept but read from
// their streams: then each is current.
func (f *Follower) Applied() eventstore.Position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.applied
}

// apply drops what an event has changed, and notifies the listener.
func (f *Follower) apply(ctx context.Context, recorded *eventstore.Recorded) {
	id := recorded.StreamID()
	var event any
	var err error
	switch recorded.Category() {
	case destination.Aggregate.Category:
		f.targets.forget(id)
		event, err = f.applyDestination(recorded)
	case organization.Aggregate.Category:
		event, err = f.applyOrganization(recorded)
	case feed.Aggregate.Category:
		f.readers.forget(id)
	case subscription.Aggregate.Category:
		f.subscribed.forget(id)
	case clientcertificate.Aggregate.Category:
		f.certificates.forget(id)
	}
	if err != nil {
		f.Log.Error("event unreadable for deliveries", "stream", recorded.Stream, "error", err)
	}
	f.mu.Lock()
	if f.applied != (eventstore.Position{}) {
		f.applied = recorded.Position
	}
	f.mu.Unlock()
	if f.Listener != nil {
		f.Listener.Applied(ctx, recorded, event)
	}
}

func (f *Follower) applyDestination(recorded *eventstore.Recorded) (destination.Event, error) {
	event, err := destination.Events.Decode(recorded)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	id := recorded.StreamID()
	switch e := event.(type) {
	case destination.Disabled, destination.AutoDisabled:
		f.disabled[id] = struct{}{}
	case destination.Enabled:
		delete(f.disabled, id)
	case destination.Deleted:
		delete(f.disabled, id)
		delete(f.limits, id)
	case destination.Created:
		f.setLimit(id, e.MaxRequestsPerSecond)
	case destination.Revised:
		f.setLimit(id, e.MaxRequestsPerSecond)
	// These stop nothing.
	case destination.SecretMinted, destination.SecretRotated, destination.SecretExpired:
	}
	return event, nil
}

func (f *Follower) setLimit(id uuid.UUID, limit destination.Rate) {
	if delete(f.limits, id); limit > 0 {
		f.limits[id] = float64(limit)
	}
}

func (f *Follower) applyOrganization(recorded *eventstore.Recorded) (organization.Event, error) {
	event, err := organization.Events.Decode(recorded)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch event.(type) {
	case organization.Suspended, organization.Deleted: // its objects are deleted soon after it
		f.suspended[recorded.StreamID()] = struct{}{}
	case organization.Resumed:
		delete(f.suspended, recorded.StreamID())
	// These stop nothing.
	case organization.Registered, organization.KeyIssued, organization.KeyRotated, organization.KeyRevoked,
		organization.LimitsSet:
	}
	return event, nil
}

// readStanding reads the suspended organizations and the limits of destinations, and retries until it succeeds.
func (f *Follower) readStanding(ctx context.Context) {
	var all []uuid.UUID
	limits := map[uuid.UUID]float64{}
	for f.Standing != nil {
		var err error
		if all, limits, err = f.Standing(ctx); err == nil {
			break
		}
		if !pause(ctx) {
			return
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.suspended, f.limits = map[uuid.UUID]struct{}{}, limits
	for _, id := range all {
		f.suspended[id] = struct{}{}
	}
}
