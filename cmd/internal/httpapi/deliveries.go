package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"carillon/aggregates/subscription"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/sealing"
	"carillon/projections/deliveries"
	"carillon/projections/deliveries/deliverystate"
	"carillon/projections/publications"
	"carillon/query"
)

func (a *API) deliveryRoutes(r routes) {
	r.read.Get("/events/destinations/{ref}/deliveries", wire.Events.Handle(a.listDeliveries))
	r.read.Get("/events/deliveries", wire.Events.Handle(a.listAllDeliveries))
	r.read.Get("/events/deliveries/{id}", wire.Events.Handle(wire.NoQuery(wire.With(pathID, a.getDelivery))))
	r.write.Post("/events/deliveries/{id}/replay", wire.Events.Handle(wire.With(pathID, wire.Empty(a.replayDelivery))))
	r.write.Post("/events/deliveries/{id}/retry", wire.Events.Handle(wire.With(pathID, wire.Empty(a.retryDelivery))))
	r.write.Post("/events/destinations/{ref}/recover",
		wire.Events.Handle(wire.With2(wire.DecodeOptional[recoverBody], a.destinationID, a.recoverDestination)))
}

// listDeliveries answers GET /events/destinations/{ref}/deliveries.
func (a *API) listDeliveries(r *http.Request) (wire.Reply, error) {
	q := wire.Events.ParseQuery(r, "status", "type", "feedId", "since", "until", "limit", "offset")
	filter := deliveryFilter(q)
	filter.Until = untilOf(q)
	filter.Limit, filter.Offset = q.Page(usualPage, mostPage)
	checkWindow(q, filter.Since, filter.Until)
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	destination, err := a.destinationID(r)
	if err != nil {
		return wire.Reply{}, err
	}
	deliveries, total, err := a.Queries.Deliveries(r.Context(), callerOf(r).Organization, destination, filter, a.Now())
	return wire.OK(wire.PageOf(deliveries, total, filter.Limit, filter.Offset)), err
}

// getDelivery answers GET /events/deliveries/{id}.
func (a *API) getDelivery(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	found, err := a.wholeDelivery(r, id)
	if err != nil {
		return wire.Reply{}, a.noDelivery(err)
	}
	shown, err := a.deliveryDetailOf(r.Context(), found)
	if err != nil {
		return wire.Reply{}, err
	}
	rendered, err := withData(shown, found.Data)
	return wire.OK(rendered), err
}

// rendered is an answer that is JSON already.
type rendered []byte

// AppendJSON implements wire.Appender.
func (r rendered) AppendJSON(to []byte) []byte { return append(to, r...) }

// DeliveryDetail is a row of the list with the whole event and every attempt.
type DeliveryDetail struct {
	query.Delivery `json:",inline"`
	Event          eventDetailJSON `json:"event"` // instead of the row's
	Subscriptions  []uuid.UUID     `json:"subscriptionIds"`
	Attempts       []AttemptDetail `json:"attempts"`
}

// withData renders an answer and puts the stored event's data into its member "data": it may be nested as deep as JSON
// can be read, and the whole is deeper.
func withData(answer any, data []byte) (rendered, error) {
	const place = `"data":null`
	whole, err := wire.Marshal(answer)
	if err != nil || len(data) == 0 {
		return whole, err
	}
	return bytes.Replace(whole, []byte(place), append([]byte(`"data":`), data...), 1), nil
}

// wholeDelivery reads a delivery with its event, which is in a separate read model that may be behind that of
// deliveries.
func (a *API) wholeDelivery(r *http.Request, id uuid.UUID) (query.DeliveryDetail, error) {
	found, err := a.Queries.Delivery(r.Context(), callerOf(r).Organization, id, a.Now())
	if err != nil || len(found.Data) > 0 {
		return found, err
	}
	at, err := a.Commands.Published(r.Context(), found.Event.ID)
	if err != nil || !a.See(r.Context(), at, publications.ReadModel.Name) {
		return found, err
	}
	return a.Queries.Delivery(r.Context(), callerOf(r).Organization, id, a.Now())
}

// noDelivery is the answer about a delivery that can't be read. A retired one, another organization's and an unknown
// one look alike.
func (a *API) noDelivery(err error) error {
	if keep := a.Commands.Retain; keep > 0 && errors.Is(err, query.ErrNotFound) {
		return &wire.Failure{
			Kind: wire.NotFound,
			Issue: fmt.Sprintf("delivery not found: deliveries are kept for %.0f days after the last one of their event "+
				"has ended, then they are retired", keep.Hours()/24),
			Cause: err,
		}
	}
	return wire.NotFoundError(err, "delivery")
}

// replayDelivery answers POST /events/deliveries/{id}/replay.
func (a *API) replayDelivery(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	found, err := a.Queries.Delivery(r.Context(), callerOf(r).Organization, id, a.Now())
	if err != nil {
		return wire.Reply{}, a.noDelivery(err)
	}
	run, err := a.Commands.ReplayDelivery(r.Context(), callerOf(r), command.ReplayDelivery{
		Delivery: id, Destination: found.Destination, FeedID: query.Of(found.Event.FeedID),
	})
	reply := wire.Accepted(replayJSON{DeliveryID: id, WorkflowID: run.ID})
	return a.Changed(r, run.Position, err, reply, deliveries.ReadModel.Name)
}

type eventDetailJSON struct {
	query.EventSummary `json:",inline"`
	Data               jsontext.Value `json:"data"`
}

// AttemptDetail is an attempt with the answer to it.
type AttemptDetail struct {
	query.Attempt   `json:",inline"`
	ResponseBody    *string `json:"responseBody"`
	ResponseHeaders string  `json:"responseHeaders,omitempty"`
}

type replayJSON struct {
	DeliveryID uuid.UUID `json:"deliveryId"`
	WorkflowID uuid.UUID `json:"workflowId"`
}

func (a *API) deliveryDetailOf(ctx context.Context, d query.DeliveryDetail) (DeliveryDetail, error) {
	j := DeliveryDetail{
		Delivery:      d.Delivery,
		Event:         eventDetailJSON{EventSummary: d.Event},
		Subscriptions: d.Subscriptions,
		Attempts:      make([]AttemptDetail, len(d.Attempts)),
	}
	for i, attempt := range d.Attempts {
		j.Attempts[i].Attempt = attempt
		if attempt.ResponseStatus == nil {
			continue // no answer, no body
		}
		received, err := a.received(ctx, d.Destination, sealing.ResponseBody, attempt.ResponseBody)
		if err != nil {
			return j, err
		}
		j.Attempts[i].ResponseBody = &received
		if j.Attempts[i].ResponseHeaders, err = a.received(ctx, d.Destination, sealing.ResponseHeaders,
			attempt.ResponseHeaders); err != nil {
			return j, err
		}
	}
	return j, nil
}

// received opens a part of a response. One without a value is empty.
func (a *API) received(ctx context.Context, destination uuid.UUID, field sealing.Field, sealed []byte) (string, error) {
	if sealed == nil {
		return "", nil
	}
	plain, err := a.open(ctx, destination, field, sealed)
	switch {
	case errors.Is(err, errUnavailable):
		return unavailable, nil
	case err != nil:
		return "", wire.NotFoundError(err, "delivery")
	}
	return string(plain), nil
}

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
