package httpapi

import (
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/subscription"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/command/delivery/facts"
	"carillon/projections/subscriptions"
	"carillon/query"
)

func (a *API) subscriptionRoutes(r routes) {
	r.write.Post("/events/destinations/{ref}/subscriptions",
		wire.Events.Handle(wire.With2(wire.Decode[createSubscriptionBody], a.destinationID, a.createSubscription)))
	r.read.Get("/events/destinations/{ref}/subscriptions", wire.Events.Handle(a.listSubscriptions))
	r.read.Get("/events/destinations/{ref}/subscriptions/{subRef}",
		wire.Events.Handle(wire.NoQuery(wire.With(a.subscription, a.getSubscription))))
	r.write.Put("/events/destinations/{ref}/subscriptions/{subRef}", wire.Events.Handle(a.putSubscription))
	r.write.Patch("/events/destinations/{ref}/subscriptions/{subRef}",
		wire.Events.Handle(wire.With2(wire.Decode[patchSubscriptionBody], a.subscription, a.patchSubscription)))
	r.write.Delete("/events/destinations/{ref}/subscriptions/{subRef}",
		wire.Events.Handle(wire.With(a.subscription, a.deleteSubscription)))
}

// createSubscription answers POST /events/destinations/{ref}/subscriptions.
func (a *API) createSubscription(
	r *http.Request, body createSubscriptionBody, destination uuid.UUID,
) (wire.Reply, error) {
	in := command.CreateSubscription{Destination: destination}
	in.Settings, _ = body.settings()
	in.Settings.ExternalID = body.ExternalID.Value
	made, err := a.Commands.CreateSubscription(r.Context(), callerOf(r), in)
	shown, err := a.changedSubscription(r, made, err)
	return wire.Created(shown), err
}

// changedSubscription shows a subscription after a write, or returns its refusal. If the read model has seen the write
// and does not have the subscription, it was deleted in the meantime.
func (a *API) changedSubscription(
	r *http.Request, w command.Result[subscription.State], refused error,
) (subscriptionJSON, error) {
	if refused != nil {
		return subscriptionJSON{}, refused
	}
	there := a.awaitRouting(r.Context(), w.Position, subscriptions.ReadModel.Name)
	_, err := a.Queries.Subscription(r.Context(), callerOf(r).Organization, w.Value.Destination, w.ID.String())
	if there && errors.Is(err, query.ErrNotFound) {
		return subscriptionJSON{}, wire.NotFoundError(err, "subscription")
	}
	return subscriptionOf(writtenSubscription(w)), nil
}

// listSubscriptions answers GET /events/destinations/{ref}/subscriptions.
func (a *API) listSubscriptions(r *http.Request) (wire.Reply, error) {
	q := wire.Events.ParseQuery(r, "limit", "offset")
	limit, offset := q.Page(usualPage, mostPage)
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	destination, err := a.destinationID(r)
	if err != nil {
		return wire.Reply{}, err
	}
	subscriptions, total, err := a.Queries.Subscriptions(r.Context(), callerOf(r).Organization, destination, limit, offset)
	return wire.OK(wire.PageOf(wire.ListOf(subscriptions, subscriptionOf), total, limit, offset)), err
}

// getSubscription answers GET /events/destinations/{ref}/subscriptions/{subRef}.
func (a *API) getSubscription(_ *http.Request, found query.Subscription) (wire.Reply, error) {
	return wire.OK(subscriptionOf(found)), nil
}

// subscription finds the one that the path's {subRef} names, of the destination that its {ref} names.
func (a *API) subscription(r *http.Request) (query.Subscription, error) {
	ref, err := reference(r, "subRef")
	if err != nil {
		return query.Subscription{}, err
	}
	destination, err := a.destinationID(r)
	if err != nil {
		return query.Subscription{}, err
	}
	found, err := a.Queries.Subscription(r.Context(), callerOf(r).Organization, destination, ref)
	return found, wire.NotFoundError(err, "subscription")
}

// putSubscription answers PUT /events/destinations/{ref}/subscriptions/{subRef}: it creates or replaces, as
// putDestination does.
func (a *API) putSubscription(r *http.Request) (wire.Reply, error) {
	if _, err := givenReference(r, "ref"); err != nil {
		return wire.Reply{}, err
	}
	ref, err := givenReference(r, "subRef")
	if err != nil {
		return wire.Reply{}, err
	}
	body, err := wire.Decode[subscriptionBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	settings, _ := body.settings()
	if command.UUIDShaped(ref) {
		found, err := a.subscription(r)
		if err != nil {
			return wire.Reply{}, err
		}
		changed, err := a.Commands.ReviseSubscription(r.Context(), callerOf(r), command.ReviseSubscription{
			Destination: found.Destination,
			ID:          found.ID,
			Sets:        subscription.FieldsAll &^ subscription.FieldExternalID,
			Settings:    settings,
		})
		shown, err := a.changedSubscription(r, changed, err)
		return wire.OK(shown), err
	}
	destination, err := a.destinationID(r)
	if err != nil {
		return wire.Reply{}, err
	}
	settings.ExternalID = ref
	made, err := a.Commands.UpsertSubscription(r.Context(), callerOf(r), command.UpsertSubscription{
		Destination: destination, Settings: settings,
	})
	shown, err := a.changedSubscription(r, made, err)
	if made.Created {
		return wire.Created(shown), err
	}
	return wire.OK(shown), err
}

// patchSubscription answers PATCH /events/destinations/{ref}/subscriptions/{subRef}.
func (a *API) patchSubscription(
	r *http.Request, body patchSubscriptionBody, found query.Subscription,
) (wire.Reply, error) {
	changed, err := a.Commands.ReviseSubscription(r.Context(), callerOf(r), body.revise(found.Destination, found.ID))
	shown, err := a.changedSubscription(r, changed, err)
	return wire.OK(shown), err
}

// deleteSubscription answers DELETE /events/destinations/{ref}/subscriptions/{subRef}.
func (a *API) deleteSubscription(r *http.Request, found query.Subscription) (wire.Reply, error) {
	deleted, err := a.Commands.DeleteSubscription(r.Context(), callerOf(r), command.DeleteSubscription{
		Destination: found.Destination, ID: found.ID,
	})
	return a.Ended(r, deleted.Position, err, subscriptions.ReadModel.Name, dispatching.Name, facts.Name)
}

// pinBody is one feed of a subscription as sent.
type pinBody struct {
	FeedType wire.Optional[string] `json:"feedType"`
	FeedID   wire.Optional[string] `json:"feedId"`
}

// subscriptionBody is a whole subscription as sent, without the externalId, which is in the path of PUT.
type subscriptionBody struct {
	EventTypes wire.Optional[[]string]  `json:"eventTypes"`
	ScopeKind  wire.Optional[string]    `json:"scopeKind"`
	FeedType   wire.Optional[string]    `json:"feedType"`
	Feeds      wire.Optional[[]pinBody] `json:"feeds"`
	pins       wire.Optional[[]subscription.Pin]
}

// Check implements wire.Body. The aggregate checks which members go together.
func (b *subscriptionBody) Check(c *wire.Checks) {
	c.Require("eventTypes", b.EventTypes.Set)
	c.Require("scopeKind", b.ScopeKind.Set)
	b.checkGiven(c)
}

func (b *subscriptionBody) checkGiven(c *wire.Checks) {
	if b.FeedType.Set {
		c.OneOf("feedType", b.FeedType.Value, subscription.FeedTypes...)
	}
	b.pins.Value, b.pins.Set = checkPins(c, b.Feeds.Value), b.Feeds.Set
}

func checkPins(c *wire.Checks, feeds []pinBody) []subscription.Pin {
	pins := make([]subscription.Pin, 0, len(feeds))
	for i, feed := range feeds {
		pin := subscription.Pin{FeedType: feed.FeedType.Value}
		if field := wire.At("feeds", i, "feedType"); c.Require(field, feed.FeedType.Set) {
			c.OneOf(field, feed.FeedType.Value, subscription.FeedTypes...)
		}
		if field := wire.At("feeds", i, "feedId"); c.Require(field, feed.FeedID.Set) {
			pin.FeedID = c.UUID(field, feed.FeedID.Value)
		}
		pins = append(pins, pin)
	}
	return pins
}

// settings returns the values of the members that are set, and which these are.
func (b *subscriptionBody) settings() (in subscription.Settings, sets subscription.Field) {
	take(&in.EventTypes, b.EventTypes, subscription.FieldEventTypes, &sets)
	take(&in.ScopeKind, b.ScopeKind, subscription.FieldScopeKind, &sets)
	take(&in.FeedType, b.FeedType, subscription.FieldFeedType, &sets)
	take(&in.Feeds, b.pins, subscription.FieldFeeds, &sets)
	return in, sets
}

// createSubscriptionBody is a new subscription as sent.
type createSubscriptionBody struct {
	subscriptionBody `json:",inline"`
	ExternalID       wire.Optional[string] `json:"externalId"`
}

// Check implements wire.Body.
func (b *createSubscriptionBody) Check(c *wire.Checks) {
	b.subscriptionBody.Check(c)
	c.Filled("externalId", b.ExternalID)
}

// patchSubscriptionBody changes the members that it has. Pins are replaced as a whole.
type patchSubscriptionBody struct {
	subscriptionBody `json:",inline"`
	ExternalID       wire.Optional[string] `json:"externalId"`
	Active           wire.Optional[bool]   `json:"active"`
}

// Check implements wire.Body.
func (b *patchSubscriptionBody) Check(c *wire.Checks) {
	b.checkGiven(c)
	c.Filled("externalId", b.ExternalID)
}

func (b *patchSubscriptionBody) revise(destination, id uuid.UUID) command.ReviseSubscription {
	in := command.ReviseSubscription{
		Destination: destination,
		ID:          id,
		Active:      b.Active.Pointer(),
	}
	in.Settings, in.Sets = b.settings()
	take(&in.Settings.ExternalID, b.ExternalID, subscription.FieldExternalID, &in.Sets)
	return in
}

type subscriptionJSON struct {
	ID            uuid.UUID `json:"id"`
	DestinationID uuid.UUID `json:"destinationId"`
	subscription.Answered
	Active    bool      `json:"active"`
	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

func subscriptionOf(s query.Subscription) subscriptionJSON {
	return subscriptionJSON{
		ID:            s.ID,
		DestinationID: s.Destination,
		Answered:      s.Answered(),
		Active:        s.Active,
		CreatedAt:     s.CreatedAt.UTC(),
		UpdatedAt:     s.UpdatedAt.UTC(),
	}
}
