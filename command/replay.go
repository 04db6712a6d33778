package command

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/feed"
	"carillon/aggregates/organization"
	"carillon/eventstore"
)

// ReplayDelivery names a delivery as the read model knows it.
type ReplayDelivery struct {
	Delivery    uuid.UUID
	Destination uuid.UUID
	FeedID      uuid.UUID // of its event; zero: no feed
}

// ReplayDelivery asks for one more attempt of a delivery that has come to its end. The result has the id of
// the run.
func (c *Commands) ReplayDelivery(
	ctx context.Context, by Caller, in ReplayDelivery,
) (replayed Result[delivery.State], err error) {
	if refusal, err := c.unreadable(ctx, by, in.FeedID); refusal != nil || err != nil {
		return replayed, cmp.Or(err, error(refusal))
	}
	run := uuid.New()
	replayed, err = within(ctx, c.Quotas, amount{by.Organization, organization.LimitRedeliveries, run, 1},
		func() (Result[delivery.State], error) {
			out, err := c.ask(ctx, by, in.Delivery, delivery.RequestReplay{
				Organization: by.Organization,
				Destination:  in.Destination,
				Replay:       run,
				At:           c.now(),

				RetiredBefore: c.retiredBefore(),
			})
			return resultOf(run, out.Loaded), err
		})
	return replayed, refused(err)
}

// unreadable returns why deliveries of a feed's events can't be replayed, if they can't. uuid.Nil is no feed.
func (c *Commands) unreadable(ctx context.Context, by Caller, id uuid.UUID) (*Refusal, error) {
	if id == uuid.Nil {
		return nil, nil
	}
	of, err := feed.Aggregate.Load(ctx, c.Store, id)
	switch {
	case err != nil:
		return nil, err
	case len(of.State.Readers()) == 0:
		return refuse(Exists, "", "the delivery can't be replayed: the feed of its event was deleted"), nil
	case !of.State.VisibleTo(by.Organization):
		return refuse(Exists, "",
			"the delivery can't be replayed: your organization no longer has access to the feed of its event"), nil
	}
	return nil, nil
}

// ask records what a caller asks of a delivery. One without a stream any more is retired.
func (c *Commands) ask(
	ctx context.Context, by Caller, id uuid.UUID, request delivery.Command,
) (eventstore.Outcome[delivery.State, delivery.Event], error) {
	out, err := delivery.Aggregate.Execute(ctx, c.Store, id, request, delivery.Options{Metadata: by.metadata()})
	if errors.Is(err, eventstore.ErrStreamDeleted) {
		err = delivery.ErrRetired
	}
	return out, err
}

// RetryDelivery names a delivery as the read model knows it.
type RetryDelivery struct {
	Delivery    uuid.UUID
	Destination uuid.UUID
	Sending     bool // an attempt is in flight
}

// RetryDelivery makes a delivery that waits for its retry, or for the end of its debounce window, due now. It returns
// when it is sent: later if its receiver asked to be left alone, or has a limit.
func (c *Commands) RetryDelivery(
	ctx context.Context, by Caller, in RetryDelivery,
) (retried Result[time.Time], err error) {
	to, err := c.knownDestination(ctx, by, in.Destination)
	if err != nil {
		return retried, err
	}
	retried.Value, err = c.Backlog.HeldUntil(ctx, in.Destination)
	if err != nil {
		return retried, err
	}
	out, err := c.ask(ctx, by, in.Delivery, delivery.RequestRetry{
		Organization: by.Organization,
		Destination:  in.Destination,
		Sending:      in.Sending,
		Off:          to.State.Status != destination.StatusEnabled,
		At:           c.now(),
	})
	if next := out.State.NextAttemptAt; next.After(retried.Value) {
		retried.Value = next
	}
	retried.Position = out.Position
	return retried, refused(err)
}
