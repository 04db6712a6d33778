package command

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/organization"
	"carillon/eventstore"
)

// ReplayDelivery names a delivery as the read model knows it.
type ReplayDelivery struct {
	Delivery    uuid.UUID
	Destination uuid.UUID
	FeedType    string // of its event; empty: no feed
	FeedID      uuid.UUID
}

// ReplayDelivery asks for one more attempt of a delivery that has come to its end. It returns the id of the run.
func (c *Commands) ReplayDelivery(ctx context.Context, by Caller, in ReplayDelivery) (uuid.UUID, eventstore.Position, error) {
	if in.FeedID != uuid.Nil {
		readable, err := c.Access.Readable(ctx, by.Organization, in.FeedType, in.FeedID)
		if err != nil {
			return uuid.Nil, eventstore.Start, err
		}
		if !readable {
			return uuid.Nil, eventstore.Start, refuse(Exists, "", "the delivery can't be replayed: your organization no longer has access to the feed of its event")
		}
	}
	run := uuid.New()
	var out eventstore.Outcome[delivery.State, delivery.Event]
	err := c.within(ctx, amount{by.Organization, organization.LimitRedeliveries, run, 1}, func() (at eventstore.Position, err error) {
		out, err = delivery.Aggregate.Execute(ctx, c.Store, in.Delivery, delivery.RequestReplay{
			Organization: by.Organization, Destination: in.Destination, Replay: run, At: c.now(),
		}, delivery.Options{Metadata: by.metadata()})
		return out.Position, err
	})
	for _, refusal := range []error{delivery.ErrInFlight, delivery.ErrReplaying, delivery.ErrSuperseded, delivery.ErrDiscarded} {
		if errors.Is(err, refusal) {
			return run, eventstore.Start, &Refusal{Kind: Exists, Message: refusal.Error(), Err: err}
		}
	}
	return run, out.Position, err
}
