package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/feed"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
)

// entitlements decide whether a delivery may still be sent when its attempt begins: access may have ended days ago,
// after it was made.
type entitlements struct {
	readers    recall[[]uuid.UUID] // organizations that can see a feed
	subscribed recall[bool]        // whether a subscription exists
}

func newEntitlements(store eventstore.Store) *entitlements {
	e := &entitlements{}
	e.readers.read = loading(store, feed.Aggregate, feed.State.Readers)
	e.subscribed.read = loading(store, subscription.Aggregate, subscription.State.Exists)
	return e
}

// check fails with notEntitledError if a delivery may not be sent any more. A replay was asked for: it needs no
// subscription.
func (e *entitlements) check(ctx context.Context, job *Job) error {
	if id := job.Body.Published.FeedID; id != uuid.Nil { // the data may be given up meanwhile, so no copy of all
		readers, err := e.readers.get(ctx, id)
		switch {
		case err != nil:
			return fmt.Errorf("read feed: %w", err)
		case len(readers) == 0:
			return notEntitledError{reasonNoFeed}
		case !slices.Contains(readers, job.Organization):
			return notEntitledError{reasonUnshared}
		}
	}
	if job.Replay != uuid.Nil {
		return nil
	}
	subscribed, err := e.wanted(ctx, job)
	if err == nil && !subscribed {
		err = notEntitledError{reasonNobody}
	}
	return err
}

// wanted reports whether one of the subscriptions exists that a delivery was made for.
func (e *entitlements) wanted(ctx context.Context, job *Job) (bool, error) {
	for _, id := range job.Subscriptions {
		exists, err := e.subscribed.get(ctx, id)
		if err != nil {
			return false, fmt.Errorf("read subscription: %w", err)
		}
		if exists {
			return true, nil
		}
	}
	return len(job.Subscriptions) == 0, nil
}

// changed drops cached values of the feed or subscription of an event.
func (e *entitlements) changed(recorded *eventstore.Recorded) {
	switch recorded.Category() {
	case feed.Aggregate.Category:
		e.readers.forget(recorded.StreamID())
	case subscription.Aggregate.Category:
		e.subscribed.forget(recorded.StreamID())
	}
}

func (e *entitlements) follow(following bool) {
	e.readers.follow(following)
	e.subscribed.follow(following)
}

// notEntitledError: the delivery may not be sent any more.
type notEntitledError struct{ reason string }

// Error implements error.
func (e notEntitledError) Error() string { return e.reason }

// discard ends a delivery that may not be sent any more, or its replay, and retries while the store is unavailable.
func (d *Deliverer) discard(ctx context.Context, job *Job, reason string) {
	at := d.Now().UTC().Truncate(time.Microsecond)
	command := delivery.Command(delivery.Discard{Reason: reason, At: at})
	if job.Replay != uuid.Nil {
		command = delivery.DropReplay{Replay: job.Replay, Reason: reason, At: at}
	}
	options := delivery.Options{CommandID: uuid.New(), Known: job.Known, Metadata: eventstore.Metadata{
		Organization:  job.Organization,
		CorrelationID: job.Body.Event,
		CausationID:   job.ID,
		Actor:         DelivererName,
		Reason:        reason,
	}}
	for {
		_, err := delivery.Aggregate.Execute(ctx, d.Store, job.ID, command, options)
		switch {
		case err == nil:
			d.Log.Info("delivery discarded", "delivery", job.ID, "destination", job.Destination, "organization",
				job.Organization, "reason", reason)
			return
		case ctx.Err() != nil:
			return
		case errors.Is(err, eventstore.ErrStreamDeleted):
			d.end(job)
			return
		}
		d.Log.Warn("delivery not discarded yet", "delivery", job.ID, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(recordPause):
		}
	}
}
