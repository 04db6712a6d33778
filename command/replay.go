package command

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
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
	if in.FeedID != uuid.Nil {
		of, err := feed.Aggregate.Load(ctx, c.Store, in.FeedID)
		switch {
		case err != nil:
			return replayed, err
		case len(of.State.Readers()) == 0:
			return replayed, refuse(Exists, "",
				"the delivery can't be replayed: the feed of its event was deleted")
		case !of.State.VisibleTo(by.Organization):
			return replayed, refuse(Exists, "",
				"the delivery can't be replayed: your organization no longer has access to the feed of its event")
		}
	}
	run := uuid.New()
	replayed, err = within(ctx, c.Quotas, amount{by.Organization, organization.LimitRedeliveries, run, 1},
		func() (Result[delivery.State], error) {
			out, err := delivery.Aggregate.Execute(ctx, c.Store, in.Delivery, delivery.RequestReplay{
				Organization: by.Organization,
				Destination:  in.Destination,
				Replay:       run,
				At:           c.now(),

				RetiredBefore: c.retiredBefore(),
			}, delivery.Options{Metadata: by.metadata()})
			return resultOf(run, out.Loaded), err
		})
	if errors.Is(err, eventstore.ErrStreamDeleted) {
		err = delivery.ErrRetired
	}
	return replayed, refused(err)
}
