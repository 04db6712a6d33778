package command

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
)

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
