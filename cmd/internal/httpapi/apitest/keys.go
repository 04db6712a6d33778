package apitest

import (
	"context"
	"sync"

	"github.com/google/uuid"

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
	"carillon/command/sealing"
	"carillon/projections/deliveries/deliverystate"
	"carillon/query"
)

// Keys are data keys in memory.
type Keys struct {
	mu   sync.Mutex
	kept map[uuid.UUID][]byte
}

var _ sealing.KeyStore = (*Keys)(nil)

// Add implements sealing.KeyStore.
func (k *Keys) Add(_ context.Context, owner uuid.UUID, wrapped []byte) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil {
		k.kept = map[uuid.UUID][]byte{}
	}
	if k.kept[owner] == nil {
		k.kept[owner] = wrapped
	}
	return nil
}

// Find implements sealing.KeyStore.
func (k *Keys) Find(_ context.Context, owner uuid.UUID) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept[owner] == nil {
		return nil, sealing.ErrShredded
	}
	return k.kept[owner], nil
}

// Delete implements sealing.KeyStore.
func (k *Keys) Delete(_ context.Context, owner uuid.UUID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.kept, owner)
	return nil
}

// Len returns the number of keys.
func (k *Keys) Len() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.kept)
}

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
