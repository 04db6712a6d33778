package delivery

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/feed"
	"carillon/aggregates/organization"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/processtest"
)

// holding returns a fixed answer of the read model.
type holding struct {
	orphans  []uuid.UUID
	shredded []uuid.UUID
}

func (h *holding) Dispatched(context.Context, eventstore.Position) error { return nil }

func (h *holding) Shred(_ context.Context, id uuid.UUID) error {
	h.shredded = append(h.shredded, id)
	return nil
}

func (h *holding) Orphaned(context.Context, uuid.UUID, uuid.UUID) ([]uuid.UUID, error) {
	return h.orphans, nil
}

func cascading(t *testing.T, held *holding) rule {
	t.Helper()
	return inTown(t, func(store eventstore.Store) eventstore.ProcessManager {
		return NewDeletionCascade(store,
			held)
	})
}

func (r rule) pins(id uuid.UUID) {
	processtest.Given(r.Rule, subscription.Aggregate, sub,
		subscription.Event(subscription.Revised{Settings: subscription.Settings{
			EventTypes: []string{"*"}, ScopeKind: "feeds", Feeds: []subscription.Pin{{FeedType: "news", FeedID: id}},
		}}))
}

var switchedOff = subscription.Aggregate.Stream(sub) + " subscription.deactivated.v1"

func TestDeletionCascade_lostFeedDeactivates(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]func(rule, uuid.UUID){
		"deleted": func(r rule, id uuid.UUID) {
			processtest.Given(r.Rule, feed.Aggregate, id, feed.Event(feed.Deleted{}))
		},
		"no longer shared": func(r rule, id uuid.UUID) {
			processtest.Given(r.Rule, feed.Aggregate, id, feed.Event(feed.Unshared{With: alice}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, theirs := cascading(t, &holding{}), uuid.New()
			processtest.Given(r.Rule, feed.Aggregate, theirs,
				feed.Event(feed.Registered{Organization: bob, FeedType: "news"}),
				feed.Event(feed.Shared{With: alice}))
			r.pins(theirs)
			r.Then()
			lost(r, theirs)
			r.Then(switchedOff)
		})
	}
}

// Organizations that still see the feed keep their subscriptions; inactive ones stay unchanged.
func TestLostFeedLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	r, theirs, mine, off := cascading(t, &holding{}), uuid.New(), uuid.New(), uuid.New()
	processtest.Given(r.Rule, feed.Aggregate, theirs,
		feed.Event(feed.Registered{Organization: bob, FeedType: "news"}), feed.Event(feed.Shared{With: alice}))
	pinned := subscription.Settings{EventTypes: []string{"*"}, ScopeKind: "feeds",
		Feeds: []subscription.Pin{{FeedType: "news", FeedID: theirs}}}
	processtest.Given(r.Rule, subscription.Aggregate, mine,
		subscription.Event(subscription.Created{Organization: bob, Destination: hook, Settings: pinned}))
	processtest.Given(r.Rule, subscription.Aggregate, off,
		subscription.Event(subscription.Created{Organization: alice, Destination: hook, Settings: pinned}),
		subscription.Event(subscription.Deactivated{}))
	processtest.Given(r.Rule, feed.Aggregate, theirs, feed.Event(feed.Disabled{}),
		feed.Event(feed.Unshared{With: alice}))
	r.Then()
}

func TestDeletionCascade_destinationDeleted(t *testing.T) {
	t.Parallel()
	held := &holding{}
	r := cascading(t, held)
	r.Then()
	processtest.Given(r.Rule, destination.Aggregate, hook, destination.Event(destination.Deleted{}))
	r.Then(subscription.Aggregate.Stream(sub) + " subscription.deleted.v1")
	if !slices.Contains(held.shredded, hook) {
		t.Error("its data key is still there")
	}
}

func TestDeletionCascade_subscriptionDeleted(t *testing.T) {
	t.Parallel()
	held := &holding{orphans: []uuid.UUID{uuid.New(), uuid.New()}}
	r := cascading(t, held)
	processtest.Given(r.Rule, subscription.Aggregate, sub, subscription.Event(subscription.Deleted{}))
	r.Then(delivery.Aggregate.Stream(held.orphans[0])+" delivery.discarded.v1",
		delivery.Aggregate.Stream(held.orphans[1])+" delivery.discarded.v1")
}

// ends deletes a stream as another client of the event store can.
func (r rule) ends(t *testing.T, stream string) {
	t.Helper()
	store, is := r.Store.(*esdb.Store)
	if !is {
		t.Fatal("the store deletes no streams")
	}
	if err := store.Tombstone(t.Context(), stream); err != nil {
		t.Fatal(err)
	}
}

// Streams that another client of the event store has deleted don't hold up the deletion of the rest.
func TestDeletionCascade_deletedStreams(t *testing.T) {
	t.Parallel()
	destinationStream, feedStream := destination.Aggregate.Stream(hook), feed.Aggregate.Stream(news)
	subscriptionStream := subscription.Aggregate.Stream(sub)
	for _, c := range []struct{ ended, want []string }{
		{[]string{destinationStream}, []string{feedStream + " feed.deleted.v1"}},
		{[]string{subscriptionStream, feedStream}, []string{destinationStream + " destination.deleted.v1"}},
	} {
		held := &holding{}
		r := cascading(t, held)
		r.Then()
		for _, stream := range c.ended {
			r.ends(t, stream)
		}
		processtest.Given(r.Rule, organization.Aggregate, alice, organization.Event(organization.Deleted{}))
		r.Then(c.want...)
		if !slices.Contains(held.shredded, hook) {
			t.Errorf("without %s the data key of the destination is still there", c.ended)
		}
	}
}

func TestDeletionCascade_deletedDelivery(t *testing.T) {
	t.Parallel()
	held := &holding{orphans: []uuid.UUID{uuid.New(), uuid.New()}}
	r := cascading(t, held)
	r.ends(t, delivery.Aggregate.Stream(held.orphans[0]))
	processtest.Given(r.Rule, subscription.Aggregate, sub, subscription.Event(subscription.Deleted{}))
	r.Then(delivery.Aggregate.Stream(held.orphans[1]) + " delivery.discarded.v1")
}
