package facts

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/command/delivery/schedule"
)

// Why a delivery is not sent now.
var (
	ErrDeleted = errors.New("the destination was deleted")
	// ErrStopped: it goes back to the queue until the destination is enabled and the organization is not suspended.
	ErrStopped = errors.New("the destination is disabled, or its organization suspended")
)

// NotEntitledError reports that the delivery may not be sent any more.
type NotEntitledError struct{ Reason string } // one of those of package delivery

// Error implements error.
func (e NotEntitledError) Error() string { return e.Reason }

// Stopped reports whether a delivery is not to be sent by what was followed up to now, without a read. The read model
// may learn of that later than this process, so a claim may still return the delivery, and the dispatcher may have
// leased it before: behind requests that hang it would hold its lease until they end.
func (f *Follower) Stopped(d *schedule.Delivery) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, suspended := f.suspended[d.Organization]
	_, disabled := f.disabled[d.Destination]
	return !f.ready() || suspended || disabled && d.Replay == uuid.Nil
}

// Limit returns the requests per second that a destination takes, by what was followed up to now; 0 means no limit.
func (f *Follower) Limit(destination uuid.UUID) float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.limits[destination]
}

// Ready reports whether the suspended organizations and the limits are known: until then nothing is sent.
func (f *Follower) Ready() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ready()
}

func (f *Follower) ready() bool { return f.suspended != nil || f.Standing == nil }

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

// MaySend returns the current destination of a delivery whose request begins now, and the connections for it (nil means
// the shared ones); or why it may not be sent: ErrDeleted, ErrStopped, a NotEntitledError, or an error of a read.
func (f *Follower) MaySend(
	ctx context.Context, d *schedule.Delivery, now time.Time,
) (*Target, http.RoundTripper, error) {
	f.init()
	target, err := f.target(ctx, d.Destination, now)
	if err != nil {
		return nil, nil, err
	}
	standing := standing{stopped: f.Stopped(d), target: target}
	if d.Replay == uuid.Nil {
		if standing.subscribed, err = f.Subscribed(ctx, d.Subscriptions); err != nil {
			return nil, nil, err
		}
	}
	if d.Feed != uuid.Nil {
		if standing.readers, err = f.readers.get(ctx, d.Feed); err != nil {
			return nil, nil, fmt.Errorf("read feed: %w", err)
		}
	}
	if err := decide(d, standing); err != nil {
		return nil, nil, err
	}
	via, err := f.Connections(ctx, d.Organization)
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
func decide(d *schedule.Delivery, now standing) error {
	switch {
	case now.target == nil:
		return ErrDeleted
	case now.stopped, !now.target.Enabled && d.Replay == uuid.Nil:
		return ErrStopped
	case d.Feed != uuid.Nil && len(now.readers) == 0:
		return NotEntitledError{delivery.ReasonNoFeed}
	case d.Feed != uuid.Nil && !slices.Contains(now.readers, d.Organization):
		return NotEntitledError{delivery.ReasonUnshared}
	case d.Replay == uuid.Nil && !now.subscribed:
		return NotEntitledError{delivery.ReasonUnsubscribed}
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
