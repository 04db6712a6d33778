package facts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Candidate is a delivery that is about to be sent. Access may have ended since it was made.
type Candidate struct {
	Organization  uuid.UUID
	Destination   uuid.UUID
	Feed          uuid.UUID   // of its event; Nil means it has none
	Subscriptions []uuid.UUID // that it was made for. Empty means unknown.
	// Replay marks one that a caller asked for: it is sent to a disabled destination, and needs no subscription.
	Replay bool
}

// Why a delivery is not sent now.
var (
	ErrDeleted = errors.New("the destination was deleted")
	// ErrStopped: it goes back to the queue until the destination is enabled and the organization is not suspended.
	ErrStopped = errors.New("the destination is disabled, or its organization suspended")
)

// NotEntitledError reports that the delivery may not be sent any more.
type NotEntitledError struct{ Reason string }

// Error implements error.
func (e NotEntitledError) Error() string { return e.Reason }

// Reasons of a NotEntitledError, as they are recorded with a discarded delivery.
const (
	ReasonNoFeed       = "the feed of its event was deleted"
	ReasonUnshared     = "the organization can no longer see the feed of its event"
	ReasonUnsubscribed = "the last subscription that asked for it was deleted"
)

// Stopped reports whether a delivery is not to be sent by what was followed up to now, without a read. The read model
// may learn of that later than this process, so a claim may still return the delivery, and the dispatcher may have
// leased it before: behind requests that hang it would hold its lease until they end.
func (f *Follower) Stopped(c Candidate) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, suspended := f.suspended[c.Organization]
	_, disabled := f.disabled[c.Destination]
	return !f.ready() || suspended || disabled && !c.Replay
}

// Ready reports whether the suspended organizations are known: until then nothing is sent.
func (f *Follower) Ready() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ready()
}

func (f *Follower) ready() bool { return f.suspended != nil || f.Suspended == nil }

// SuspendedNow lists the suspended organizations.
func (f *Follower) SuspendedNow() []uuid.UUID {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := make([]uuid.UUID, 0, len(f.suspended))
	for id := range f.suspended {
		list = append(list, id)
	}
	return list
}

// Admit returns the current destination of a delivery whose request begins now, and the connections for it (nil means
// the shared ones); or why it may not be sent: ErrDeleted, ErrStopped, a NotEntitledError, or an error of a read.
func (f *Follower) Admit(ctx context.Context, c Candidate, now time.Time) (*Target, http.RoundTripper, error) {
	f.init()
	target, err := f.target(ctx, c.Destination, now)
	if err != nil {
		return nil, nil, err
	}
	standing := standing{stopped: f.Stopped(c), target: target}
	if !c.Replay {
		if standing.subscribed, err = f.Subscribed(ctx, c.Subscriptions); err != nil {
			return nil, nil, err
		}
	}
	if c.Feed != uuid.Nil {
		if standing.readers, err = f.readers.get(ctx, c.Feed); err != nil {
			return nil, nil, fmt.Errorf("read feed: %w", err)
		}
	}
	if err := decide(c, standing); err != nil {
		return nil, nil, err
	}
	via, err := f.Connections(ctx, c.Organization)
	return target, via, err
}

// standing holds the facts about a delivery when its request begins.
type standing struct {
	stopped    bool
	target     *Target
	readers    []uuid.UUID // of its feed
	subscribed bool
}

// decide returns why a delivery may not be sent; nil means it may.
func decide(c Candidate, now standing) error {
	switch {
	case now.target == nil:
		return ErrDeleted
	case now.stopped, !now.target.Enabled && !c.Replay:
		return ErrStopped
	case c.Feed != uuid.Nil && len(now.readers) == 0:
		return NotEntitledError{ReasonNoFeed}
	case c.Feed != uuid.Nil && !slices.Contains(now.readers, c.Organization):
		return NotEntitledError{ReasonUnshared}
	case !c.Replay && !now.subscribed:
		return NotEntitledError{ReasonUnsubscribed}
	}
	return nil
}

// Subscribed reports whether one of the subscriptions exists that a delivery was made for.
func (f *Follower) Subscribed(ctx context.Context, subscriptions []uuid.UUID) (bool, error) {
	f.init()
	for _, id := range subscriptions {
		exists, err := f.subscribed.get(ctx, id)
		if err != nil {
			return false, fmt.Errorf("read subscription: %w", err)
		}
		if exists {
			return true, nil
		}
	}
	return len(subscriptions) == 0, nil
}
