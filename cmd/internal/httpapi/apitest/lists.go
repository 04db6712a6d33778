package apitest

import (
	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/organization"
	"carillon/aggregates/source"
	"carillon/aggregates/subscription"
	"carillon/cmd/internal/openapi/contract"
	"carillon/cmd/internal/recipients"
	"carillon/cmd/internal/wire"
	"carillon/projections/deliveries/deliverystate"
	"carillon/query"
)

// Lists returns the lists of values that the API's document may have, each as the program declares it.
func Lists() []string {
	statuses := []destination.Status{
		destination.StatusEnabled, destination.StatusDisabled, destination.StatusAutoDisabled, destination.StatusDeleted,
	}
	return []string{
		contract.List(delivery.FailureNames()...), contract.List(deliverystate.Statuses()...),
		contract.List(deliverystate.States()...),
		contract.List(deliverystate.Names()...), contract.List(deliverystate.Reasons()...),
		contract.List(delivery.Automatic, delivery.ManualReplay),
		contract.List(statuses...), contract.List(statuses[:2]...), contract.List(statuses[:3]...),
		contract.List(source.Types()...), contract.List(organization.AllScopes()...),
		contract.List(subscription.ScopeAll, subscription.ScopeFeedType, subscription.ScopeFeeds),
		contract.List(feed.TypeNews, feed.TypeEvent), contract.List(feed.BySystem, feed.ByAdmin, feed.ByAPI),
		contract.List(item.Positive, item.Neutral, item.Negative),
		contract.List(query.OrderByOccurrence, query.OrderByCreated),
		contract.List(happening.Singular, happening.Recurring, happening.Ongoing),
		contract.List(happening.AtLocation, happening.RelevanceRegion),
		contract.List(happening.Scheduled, happening.Cancelled, happening.Postponed, happening.Rescheduled,
			happening.Completed),
		contract.List(wire.Codes(wire.Events)...), contract.List(wire.Codes(wire.Feeds)...),
		contract.List(recipients.CreatedLater, recipients.Disabled, recipients.Deleted, recipients.FeedSharedLater,
			recipients.NoSubscription, recipients.NoMatch, recipients.Inactive, recipients.SubscriptionChanged,
			recipients.OnItsWay, recipients.Unknown),
		contract.List("true", "false"), contract.List(query.IntervalNames()...),
		// Of what others publish, which is passed on unread.
		contract.List("queued", "running", "completed", "failed"),
	}
}
