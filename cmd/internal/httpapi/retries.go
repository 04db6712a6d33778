package httpapi

import (
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/subscription"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/projections/deliveries"
	"carillon/projections/deliveries/deliverystate"
)

// retryDelivery answers POST /events/deliveries/{id}/retry.
func (a *API) retryDelivery(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	found, err := a.Queries.Delivery(r.Context(), callerOf(r).Organization, id, a.Now())
	if err != nil {
		return wire.Reply{}, a.noDelivery(err)
	}
	retried, err := a.Commands.RetryDelivery(r.Context(), callerOf(r), command.RetryDelivery{
		Delivery: id, Destination: found.Destination, Sending: found.State == deliverystate.Delivering,
	})
	reply := wire.Accepted(Retry{DeliveryID: id, NextAttemptAt: retried.Value})
	return a.Changed(r, retried.Position, err, reply, deliveries.ReadModel.Name)
}

// recoverDestination answers POST /events/destinations/{ref}/recover.
func (a *API) recoverDestination(r *http.Request, body recoverBody, id uuid.UUID) (wire.Reply, error) {
	in := command.RecoverDestination{
		Destination: id,
		Since:       body.since,
		Until:       body.until,
		Types:       body.Types.Value,
	}
	if body.DryRun.Value {
		of, err := a.Commands.CountRecovery(r.Context(), callerOf(r), in)
		return wire.Accepted(Recovery(of)), err
	}
	done, err := a.Commands.RecoverDestination(r.Context(), callerOf(r), in)
	return a.Changed(r, done.Position, err, wire.Accepted(Recovery(done.Value)), deliveries.ReadModel.Name)
}

// Retry is the answer to a retry.
type Retry struct {
	DeliveryID    uuid.UUID `json:"deliveryId"`
	NextAttemptAt time.Time `json:"nextAttemptAt"`
}

// Recovery is the answer to a recovery.
type Recovery struct {
	Retried  int `json:"retried"`
	Replayed int `json:"replayed"`
}

type recoverBody struct {
	Since        wire.Optional[string]   `json:"since"`
	Until        wire.Optional[string]   `json:"until"`
	Types        wire.Optional[[]string] `json:"types"`
	DryRun       wire.Optional[bool]     `json:"dryRun"`
	since, until time.Time
}

// Check implements wire.Body. The command checks how long the window is.
func (b *recoverBody) Check(c *wire.Checks) {
	if b.Since.Set {
		b.since = checkTime(c, "since", b.Since)
	}
	if b.Until.Set {
		b.until = checkTime(c, "until", b.Until)
	}
	if n := len(b.Types.Value); b.Types.Set && (n == 0 || n > subscription.MaxEventTypes) {
		c.Fail("types", "must have 1 to 100 entries")
	}
	for i, one := range b.Types.Value {
		if !subscription.ValidPattern(one) {
			c.Fail(wire.At("types", i, ""), "must be an exact type, a trailing wildcard such as news.*, or *")
		}
	}
}
