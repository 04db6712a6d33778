// Package recipients reports which destinations of an organization got a published event, and why the others did not.
package recipients

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/projections/deliveries/deliverystate"
	"carillon/query"
)

// Recipient is a destination that got an event, or could have got it.
type Recipient struct {
	query.Recipient

	Delivery *query.Delivery // nil if it has none
	Why      Reason          // why it has none; "" if it has one
	At       time.Time       // of what Why speaks of. Optional.
}

// Reason says why a destination did not get an event.
type Reason string

// The reasons.
const (
	CreatedLater        Reason = "destination_created_later"
	Disabled            Reason = "destination_disabled" // when the event was published
	Deleted             Reason = "destination_deleted"  // its deliveries went with it
	FeedSharedLater     Reason = "feed_shared_later"
	NoSubscription      Reason = "no_subscription"
	NoMatch             Reason = "no_matching_subscription"
	Inactive            Reason = "subscription_inactive"      // the one that matches
	SubscriptionChanged Reason = "subscription_changed_later" // the one that matches was made or changed later
	OnItsWay            Reason = "on_its_way"                 // the event was published just now
	Unknown             Reason = "unknown"                    // nothing that is known kept it back
)

// None stands, in place of the state of a delivery, for a destination without one.
const None deliverystate.State = "none"

// Received lists the states of destinations with a delivery.
var Received = deliverystate.States()

// Filter selects a page.
type Filter struct {
	In            []deliverystate.State // nil means all
	Limit, Offset int
}

// Page is a page of the destinations that an event could have gone to, the oldest first.
type Page struct {
	Recipients []Recipient
	By         map[deliverystate.State]int // destinations in all
	Total      int                         // that the filter matches
}

// All returns the number of destinations that the event could have gone to.
func (p Page) All() (n int) {
	for _, some := range p.By {
		n += some
	}
	return n
}

// Finder reads the recipients of the events that an organization sees.
type Finder struct {
	Queries      *query.Queries
	Organization uuid.UUID
	Now          time.Time
}

// Of returns a page of the recipients of an event. Of those that are not on the page it reads no more than whether they
// have a delivery, as an organization may have very many destinations.
func (f Finder) Of(ctx context.Context, event query.PublishedEvent, filter Filter) (Page, error) {
	all, err := f.Queries.RecipientIDs(ctx, f.Organization, event.RecordedAt)
	if err != nil {
		return Page{}, err
	}
	// The ids are of deliveries to the organization's own destinations.
	made, err := f.Queries.DeliveriesMade(ctx, DeliveryIDs(event.ID, all), f.Now)
	if err != nil {
		return Page{}, err
	}
	chosen := make([]uuid.UUID, 0, len(all))
	by := map[deliverystate.State]int{}
	for _, id := range all {
		state := cmp.Or(made[dispatch.DeliveryID(event.ID, id)], None)
		by[state]++
		if filter.In == nil || slices.Contains(filter.In, state) {
			chosen = append(chosen, id)
		}
	}
	page := Page{By: by, Total: len(chosen)}
	first, end := min(filter.Offset, page.Total), min(filter.Offset+filter.Limit, page.Total)
	page.Recipients, err = f.find(ctx, event, chosen[first:end])
	return page, err
}

// DeliveryIDs returns the ids that the deliveries of an event to some destinations have, if there are any.
func DeliveryIDs(event uuid.UUID, destinations []uuid.UUID) []uuid.UUID {
	ids := make([]uuid.UUID, len(destinations))
	for i, id := range destinations {
		ids[i] = dispatch.DeliveryID(event, id)
	}
	return ids
}

// find reads some destinations of the organization with their deliveries of an event.
func (f Finder) find(ctx context.Context, event query.PublishedEvent, ids []uuid.UUID) ([]Recipient, error) {
	there, err := f.Queries.Recipients(ctx, f.Organization, ids, event.RecordedAt)
	if err != nil {
		return nil, err
	}
	found, err := f.Queries.DeliveriesByID(ctx, DeliveryIDs(event.ID, ids), f.Now)
	if err != nil {
		return nil, err
	}
	made := make(map[uuid.UUID]*query.Delivery, len(found))
	for i := range found {
		made[found[i].Destination] = &found[i]
	}
	subscriptions, err := f.Queries.SubscriptionsOf(ctx, f.Organization, ids)
	if err != nil {
		return nil, err
	}
	all := make([]Recipient, len(there))
	for i, r := range there {
		all[i] = Recipient{Recipient: r, Delivery: made[r.ID]}
		if all[i].Delivery == nil {
			all[i].Why, all[i].At = f.whyNot(event, r, subscriptions[r.ID])
		}
	}
	return all, nil
}

// settled is how long after its publication an event counts as on its way.
const settled = time.Minute

// whyNot returns why a destination has no delivery of an event, as far as it is known: of subscriptions, only their
// present settings and their last change.
func (f Finder) whyNot(
	event query.PublishedEvent, to query.Recipient, subscriptions []query.Subscription,
) (why Reason, at time.Time) {
	switch {
	case to.Then == "":
		return CreatedLater, to.CreatedAt
	case to.Then != "enabled":
		return Disabled, time.Time{}
	case to.EndedAt != nil:
		return Deleted, *to.EndedAt
	case event.SeenSince != nil && event.SeenSince.After(event.RecordedAt):
		return FeedSharedLater, *event.SeenSince
	case len(subscriptions) == 0:
		return NoSubscription, time.Time{}
	}
	why = NoMatch
	for _, s := range subscriptions {
		switch {
		case !s.Matches(event.Type, query.Of(event.FeedType), query.Of(event.FeedID)):
		case !s.Active:
			if why == NoMatch {
				why, at = Inactive, s.UpdatedAt
			}
		case s.UpdatedAt.After(event.RecordedAt):
			why, at = SubscriptionChanged, s.UpdatedAt
		case f.Now.Sub(event.RecordedAt) < settled:
			return OnItsWay, time.Time{}
		default:
			return Unknown, time.Time{}
		}
	}
	return why, at
}
