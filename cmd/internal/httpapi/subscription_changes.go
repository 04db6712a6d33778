package httpapi

import (
	"net/http"

	"carillon/aggregates/subscription"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/query"
)

// subscription finds the one that the path's {subRef} names, of the destination that its {ref} names.
func (a *API) subscription(r *http.Request) (query.Subscription, error) {
	ref, err := reference(r, "subRef")
	if err != nil {
		return query.Subscription{}, err
	}
	destination, err := a.destination(r)
	if err != nil {
		return query.Subscription{}, err
	}
	found, err := a.Queries.Subscription(r.Context(), callerOf(r).Organization, destination.ID, ref)
	return found, named(err, "subscription")
}

func (a *API) getSubscription(r *http.Request) (wire.Reply, error) {
	if err := wire.Events.ParseQuery(r).Err(); err != nil {
		return wire.Reply{}, err
	}
	found, err := a.subscription(r)
	return wire.OK(subscriptionOf(found)), err
}

// putSubscription creates or replaces, as putDestination does.
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
	if command.UUIDShaped(ref) {
		found, err := a.subscription(r)
		if err != nil {
			return wire.Reply{}, err
		}
		at, err := a.Commands.ReplaceSubscription(r.Context(), callerOf(r), found.Destination, found.ID, body.settings(""))
		if err != nil {
			return wire.Reply{}, err
		}
		shown, err := a.changedSubscription(r, found.Destination, found.ID, at)
		return wire.OK(shown), err
	}
	destination, err := a.destination(r)
	if err != nil {
		return wire.Reply{}, err
	}
	id, created, at, err := a.Commands.UpsertSubscription(r.Context(), callerOf(r), destination.ID, body.settings(ref))
	if err != nil {
		return wire.Reply{}, err
	}
	shown, err := a.changedSubscription(r, destination.ID, id, at)
	if created {
		return wire.Created(shown), err
	}
	return wire.OK(shown), err
}

// patchSubscriptionBody changes what it names. Pins are replaced as a whole.
type patchSubscriptionBody struct {
	subscriptionBody `json:",inline"`
	ExternalID       wire.Optional[string] `json:"externalId"`
	Active           wire.Optional[bool]   `json:"active"`
}

// Check implements wire.Body.
func (b *patchSubscriptionBody) Check(c *wire.Checks) {
	b.checkGiven(c)
	if b.ExternalID.Set {
		c.Text("externalId", b.ExternalID.Value, 1, 0)
	}
}

func (b *patchSubscriptionBody) patch() command.SubscriptionPatch {
	patch := command.SubscriptionPatch{
		ExternalID: b.ExternalID.Pointer(), ScopeKind: b.ScopeKind.Pointer(), FeedType: b.FeedType.Pointer(), Active: b.Active.Pointer(),
	}
	if b.EventTypes.Set {
		patch.EventTypes = append([]string{}, b.EventTypes.Value...) // never nil: an empty list is refused
	}
	if b.Feeds.Set {
		pins := append([]subscription.Pin{}, b.pins...)
		patch.Feeds = &pins
	}
	return patch
}

func (a *API) patchSubscription(r *http.Request) (wire.Reply, error) {
	body, err := wire.Decode[patchSubscriptionBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	found, err := a.subscription(r)
	if err != nil {
		return wire.Reply{}, err
	}
	at, err := a.Commands.ReviseSubscription(r.Context(), callerOf(r), found.Destination, found.ID, body.patch())
	if err != nil {
		return wire.Reply{}, err
	}
	shown, err := a.changedSubscription(r, found.Destination, found.ID, at)
	return wire.OK(shown), err
}

func (a *API) deleteSubscription(r *http.Request) (wire.Reply, error) {
	found, err := a.subscription(r)
	if err != nil {
		return wire.Reply{}, err
	}
	at, err := a.Commands.DeleteSubscription(r.Context(), callerOf(r), found.Destination, found.ID)
	if err != nil {
		return wire.Reply{}, err
	}
	a.awaitRouting(r.Context(), at, "subscriptions")
	return wire.Done(), nil
}
