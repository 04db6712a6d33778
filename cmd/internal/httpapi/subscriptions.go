package httpapi

import (
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/aggregates/subscription"
	"carillon/cmd/internal/wire"
	"carillon/eventstore"
	"carillon/query"
)

func (a *API) subscriptionRoutes(r chi.Router) {
	r.Post("/events/destinations/{ref}/subscriptions", wire.Events.Handle(a.createSubscription))
	r.Get("/events/destinations/{ref}/subscriptions", wire.Events.Handle(a.listSubscriptions))
	r.Get("/events/destinations/{ref}/subscriptions/{subRef}", wire.Events.Handle(a.getSubscription))
	r.Put("/events/destinations/{ref}/subscriptions/{subRef}", wire.Events.Handle(a.putSubscription))
	r.Patch("/events/destinations/{ref}/subscriptions/{subRef}", wire.Events.Handle(a.patchSubscription))
	r.Delete("/events/destinations/{ref}/subscriptions/{subRef}", wire.Events.Handle(a.deleteSubscription))
}

// pinBody is a feed pin as sent.
type pinBody struct {
	FeedType wire.Optional[string] `json:"feedType"`
	FeedID   wire.Optional[string] `json:"feedId"`
}

// subscriptionBody is all that a subscription declares: the body of PUT, whose path has the externalId.
type subscriptionBody struct {
	EventTypes wire.Optional[[]string]  `json:"eventTypes"`
	ScopeKind  wire.Optional[string]    `json:"scopeKind"`
	FeedType   wire.Optional[string]    `json:"feedType"`
	Feeds      wire.Optional[[]pinBody] `json:"feeds"`
	pins       []subscription.Pin
}

// Check implements wire.Body. What a settings may say as a whole is the aggregate's.
func (b *subscriptionBody) Check(c *wire.Checks) {
	c.Require("eventTypes", b.EventTypes.Set)
	c.Require("scopeKind", b.ScopeKind.Set)
	b.checkGiven(c)
}

func (b *subscriptionBody) checkGiven(c *wire.Checks) {
	if b.FeedType.Set {
		c.OneOf("feedType", b.FeedType.Value, subscription.FeedTypes...)
	}
	b.pins = checkPins(c, b.Feeds.Value)
}

func (b *subscriptionBody) settings(externalID string) subscription.Settings {
	return subscription.Settings{
		ExternalID: externalID, EventTypes: b.EventTypes.Value, ScopeKind: b.ScopeKind.Value,
		FeedType: b.FeedType.Value, Feeds: b.pins,
	}
}

// createSubscriptionBody is a new subscription as sent.
type createSubscriptionBody struct {
	subscriptionBody `json:",inline"`
	ExternalID       wire.Optional[string] `json:"externalId"`
}

// Check implements wire.Body.
func (b *createSubscriptionBody) Check(c *wire.Checks) {
	b.subscriptionBody.Check(c)
	if b.ExternalID.Set {
		c.Text("externalId", b.ExternalID.Value, 1, 0)
	}
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

func (a *API) createSubscription(r *http.Request) (wire.Reply, error) {
	body, err := wire.Decode[createSubscriptionBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	destination, err := a.destination(r)
	if err != nil {
		return wire.Reply{}, err
	}
	id, at, err := a.Commands.CreateSubscription(r.Context(), callerOf(r), destination.ID, body.settings(body.ExternalID.Value))
	if err != nil {
		return wire.Reply{}, err
	}
	shown, err := a.changedSubscription(r, destination.ID, id, at)
	return wire.Created(shown), err
}

// changedSubscription shows a subscription as a write has left it.
func (a *API) changedSubscription(r *http.Request, destination, id uuid.UUID, at eventstore.Position) (subscriptionJSON, error) {
	there := a.awaitRouting(r.Context(), at, "subscriptions")
	found, err := a.Queries.Subscription(r.Context(), callerOf(r).Organization, destination, id.String())
	return subscriptionOf(found), unshown(err, there, "subscription")
}

func (a *API) listSubscriptions(r *http.Request) (wire.Reply, error) {
	q := wire.Events.ParseQuery(r, "limit", "offset")
	limit, offset := q.Page(usualPage, mostPage)
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	destination, err := a.destination(r)
	if err != nil {
		return wire.Reply{}, err
	}
	subscriptions, total, err := a.Queries.Subscriptions(r.Context(), callerOf(r).Organization, destination.ID, limit, offset)
	if err != nil {
		return wire.Reply{}, err
	}
	list := make([]subscriptionJSON, len(subscriptions))
	for i, s := range subscriptions {
		list[i] = subscriptionOf(s)
	}
	return wire.OK(wire.PageOf(list, total, limit, offset)), nil
}

type subscriptionJSON struct {
	ID            uuid.UUID   `json:"id"`
	DestinationID uuid.UUID   `json:"destinationId"`
	ExternalID    *string     `json:"externalId"`
	EventTypes    []string    `json:"eventTypes"`
	ScopeKind     string      `json:"scopeKind"`
	FeedType      *string     `json:"feedType"`
	Feeds         []query.Pin `json:"feeds"`
	Active        bool        `json:"active"`
	CreatedAt     time.Time   `json:"createdAt"`
	UpdatedAt     time.Time   `json:"updatedAt"`
}

func subscriptionOf(s query.Subscription) subscriptionJSON {
	return subscriptionJSON{
		ID: s.ID, DestinationID: s.Destination, ExternalID: text(s.ExternalID), EventTypes: s.EventTypes, ScopeKind: s.ScopeKind,
		FeedType: text(s.FeedType), Feeds: s.Feeds, Active: s.Active, CreatedAt: s.CreatedAt.UTC(), UpdatedAt: s.UpdatedAt.UTC(),
	}
}
