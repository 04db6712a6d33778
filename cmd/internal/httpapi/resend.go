package httpapi

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/command"
)

// resendRoutes send again, or send late.
func (a *API) resendRoutes(r chi.Router) {
	r.Post("/events/destinations/{ref}/backfill", wire.Events.Handle(a.backfill))
	r.Post("/events/deliveries/{id}/replay", wire.Events.Handle(a.replayDelivery))
}

type backfillBody struct {
	Since        wire.Optional[string] `json:"since"`
	Until        wire.Optional[string] `json:"until"`
	since, until time.Time
}

// Check implements wire.Body. How long the window may be is the command's.
func (b *backfillBody) Check(c *wire.Checks) {
	b.since = checkTime(c, "since", b.Since)
	b.until = checkTime(c, "until", b.Until)
}

func checkTime(c *wire.Checks, field string, given wire.Optional[string]) time.Time {
	if !c.Require(field, given.Set) {
		return time.Time{}
	}
	at, err := wire.ParseTime(given.Value)
	if err != nil {
		c.Fail(field, "must be an ISO 8601 time with Z or an offset, such as 2026-11-21T12:00:00Z")
	}
	return at
}

type backfillJSON struct {
	EventsScanned     int `json:"eventsScanned"`
	DeliveriesCreated int `json:"deliveriesCreated"`
}

func (a *API) backfill(r *http.Request) (wire.Reply, error) {
	body, err := wire.Decode[backfillBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	destination, err := a.destination(r)
	if err != nil {
		return wire.Reply{}, err
	}
	done, at, err := a.Commands.BackfillDestination(r.Context(), callerOf(r), destination.ID, body.since, body.until)
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), at, "deliveries")
	a.Wake()
	return wire.OK(backfillJSON(done)), nil
}

type replayJSON struct {
	DeliveryID uuid.UUID `json:"deliveryId"`
	WorkflowID uuid.UUID `json:"workflowId"`
}

func (a *API) replayDelivery(r *http.Request) (wire.Reply, error) {
	id, err := wire.PathUUID(r, "id", wire.BadParam)
	if err != nil {
		return wire.Reply{}, err
	}
	if err := wire.DecodeNothing(r); err != nil {
		return wire.Reply{}, err
	}
	found, err := a.Queries.Delivery(r.Context(), callerOf(r).Organization, id, a.Now())
	if err != nil {
		return wire.Reply{}, named(err, "delivery")
	}
	run, at, err := a.Commands.ReplayDelivery(r.Context(), callerOf(r), command.ReplayInput{
		Delivery: id, Destination: found.Destination, FeedType: found.Event.FeedType, FeedID: found.Event.FeedID,
	})
	if err != nil {
		return wire.Reply{}, err
	}
	a.await(r.Context(), at, "deliveries")
	a.Wake()
	return wire.Accepted(replayJSON{DeliveryID: id, WorkflowID: run}), nil
}
