package cascade

import (
	"context"
	"slices"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/feed"
	"carillon/aggregates/organization"
	"carillon/aggregates/subscription"
	"carillon/command/delivery/deliverytest"
	"carillon/eventstore"
	"carillon/eventstore/processtest"
	"carillon/eventstore/storetest/assert"
)

var (
	alice = deliverytest.Alice
	bob   = deliverytest.Bob
	news  = deliverytest.News
	hook  = deliverytest.Hook
	sub   = deliverytest.Sub
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

// rule is that of a cascade.
type rule struct{ deliverytest.Town }

func cascading(t *testing.T, held *holding) rule {
	t.Helper()
	return rule{deliverytest.WithNews(t, func(store eventstore.Store) eventstore.ProcessManager {
		return New(store, held)
	})}
}

func (r rule) pins(id uuid.UUID) {
	processtest.Given(r.Rule, subscription.Aggregate, sub)(subscription.Revised{Settings: subscription.Settings{
		EventTypes: []string{"*"}, ScopeKind: "feeds", Feeds: []subscription.Pin{{FeedType: "news", FeedID: id}},
	}})
}

var switchedOff = subscription.Aggregate.Stream(sub) + " subscription.deactivated.v1"

func TestDeletionCascade_lostFeedDeactivates(t *testing.T) {
	t.Parallel()
	for reason, lost := range map[string]feed.Event{
		reasonFeedDeleted: feed.Deleted{},
		reasonAccessLost:  feed.Unshared{With: alice},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			r, theirs := cascading(t, &holding{}), uuid.New()
			processtest.Given(r.Rule, feed.Aggregate, theirs)(feed.Registered{Organization: bob, FeedType: "news"},
				feed.Shared{With: alice})
			r.pins(theirs)
			r.Then()
			processtest.Given(r.Rule, feed.Aggregate, theirs)(lost)
			r.Then(switchedOff)
			r.Because(reason)
		})
	}
}

// Organizations that still see the feed keep their subscriptions; inactive ones stay unchanged.
func TestLostFeedLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	r, theirs, mine, off := cascading(t, &holding{}), uuid.New(), uuid.New(), uuid.New()
	processtest.Given(r.Rule, feed.Aggregate, theirs)(feed.Registered{Organization: bob, FeedType: "news"},
		feed.Shared{With: alice})
	pinned := subscription.Settings{EventTypes: []string{"*"}, ScopeKind: "feeds",
		Feeds: []subscription.Pin{{FeedType: "news", FeedID: theirs}}}
	processtest.Given(r.Rule, subscription.Aggregate, mine)(
		subscription.Created{Organization: bob, Destination: hook, Settings: pinned})
	processtest.Given(r.Rule, subscription.Aggregate, off)(
		subscription.Created{Organization: alice, Destination: hook, Settings: pinned}, subscription.Deactivated{})
	processtest.Given(r.Rule, feed.Aggregate, theirs)(feed.Disabled{}, feed.Unshared{With: alice})
	r.Then()
}

func TestDeletionCascade_destinationDeleted(t *testing.T) {
	t.Parallel()
	held := &holding{}
	r := cascading(t, held)
	r.Then()
	processtest.Given(r.Rule, destination.Aggregate, hook)(destination.Deleted{})
	r.Then(subscription.Aggregate.Stream(sub) + " subscription.deleted.v1")
	r.Because(reasonDestination)
	assert.True(t, slices.Contains(held.shredded, hook), "its data key is still there")
}

func TestDeletionCascade_subscriptionDeleted(t *testing.T) {
	t.Parallel()
	held := &holding{orphans: []uuid.UUID{uuid.New(), uuid.New()}}
	r := cascading(t, held)
	processtest.Given(r.Rule, subscription.Aggregate, sub)(subscription.Deleted{})
	r.Then(delivery.Aggregate.Stream(held.orphans[0])+" delivery.discarded.v1",
		delivery.Aggregate.Stream(held.orphans[1])+" delivery.discarded.v1")
	r.Because(delivery.ReasonUnsubscribed)
}

// All of a deleted organization ends, also what a request in flight makes afterwards.
func TestDeletionCascade_organizationDeleted(t *testing.T) {
	t.Parallel()
	r, shared, lateFeed, lateHook, lateSub := cascading(t, &holding{}), uuid.New(), uuid.New(), uuid.New(), uuid.New()
	processtest.Given(r.Rule, feed.Aggregate, shared)(feed.Registered{Organization: bob, FeedType: "news"},
		feed.Shared{With: alice})
	processtest.Given(r.Rule, subscription.Aggregate, sub)(subscription.Deleted{})
	r.Then()
	processtest.Given(r.Rule, organization.Aggregate, alice)(organization.Deleted{})
	r.Then(destination.Aggregate.Stream(hook)+" destination.deleted.v1", feed.Aggregate.Stream(news)+" feed.deleted.v1",
		feed.Aggregate.Stream(shared)+" feed.unshared.v1")
	r.Because(reasonOrganization)
	processtest.Given(r.Rule, feed.Aggregate, lateFeed)(feed.Registered{Organization: alice, FeedType: "news"})
	processtest.Given(r.Rule, destination.Aggregate, lateHook)(destination.Created{Organization: alice})
	processtest.Given(r.Rule, subscription.Aggregate, lateSub)(
		subscription.Created{Organization: alice, Destination: lateHook, Settings: deliverytest.All})
	r.Then(feed.Aggregate.Stream(lateFeed)+" feed.deleted.v1",
		destination.Aggregate.Stream(lateHook)+" destination.deleted.v1",
		subscription.Aggregate.Stream(lateSub)+" subscription.deleted.v1")
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
			r.Tombstone(stream)
		}
		processtest.Given(r.Rule, organization.Aggregate, alice)(organization.Deleted{})
		r.Then(c.want...)
		assert.True(t, slices.Contains(held.shredded, hook),
			"without %s the data key of the destination is still there", c.ended)
	}
}

func TestDeletionCascade_deletedDelivery(t *testing.T) {
	t.Parallel()
	held := &holding{orphans: []uuid.UUID{uuid.New(), uuid.New()}}
	r := cascading(t, held)
	r.Tombstone(delivery.Aggregate.Stream(held.orphans[0]))
	processtest.Given(r.Rule, subscription.Aggregate, sub)(subscription.Deleted{})
	r.Then(delivery.Aggregate.Stream(held.orphans[1]) + " delivery.discarded.v1")
}

// The key of an ended certificate is shredded again, in case the request that ended it died before.
func TestCertificateCascade_shredsEndedKey(t *testing.T) {
	t.Parallel()
	held := &holding{}
	r := cascading(t, held)
	first, second := clientcertificate.Certificate{ID: uuid.New()}, clientcertificate.Certificate{ID: uuid.New()}
	processtest.Given(r.Rule, clientcertificate.Aggregate, alice)(clientcertificate.Set{Certificate: first},
		clientcertificate.Replaced{Certificate: second, Of: first.ID})
	r.Then()
	assert.True(t, slices.Contains(held.shredded, first.ID) && !slices.Contains(held.shredded, second.ID),
		"shredded: %v", held.shredded)
	processtest.Given(r.Rule, clientcertificate.Aggregate, alice)(clientcertificate.Removed{ID: second.ID})
	r.Then()
	assert.True(t, slices.Contains(held.shredded, second.ID), "after the removal, shredded: %v", held.shredded)
}

// A deleted organization's certificate ends with it, also if a request in flight sets one afterwards; that of
// another stays.
func TestCertificateCascade_organizationDeleted(t *testing.T) {
	t.Parallel()
	held := &holding{}
	r := cascading(t, held)
	ours, late, theirs, gone, other := clientcertificate.Certificate{ID: uuid.New()},
		clientcertificate.Certificate{ID: uuid.New()},
		clientcertificate.Certificate{ID: uuid.New()}, uuid.New(), uuid.New()
	processtest.Given(r.Rule, clientcertificate.Aggregate, gone)(clientcertificate.Set{Certificate: ours})
	processtest.Given(r.Rule, clientcertificate.Aggregate, other)(clientcertificate.Set{Certificate: theirs})
	r.Then()
	removed := clientcertificate.Aggregate.Stream(gone) + " client_certificate.removed.v1"
	processtest.Given(r.Rule, organization.Aggregate, gone)(organization.Deleted{})
	r.Then(removed)
	processtest.Given(r.Rule, clientcertificate.Aggregate, gone)(clientcertificate.Set{Certificate: late})
	r.Then(removed)
	assert.True(t, slices.Contains(held.shredded, ours.ID) && slices.Contains(held.shredded, late.ID) &&
		!slices.Contains(held.shredded, theirs.ID), "shredded: %v", held.shredded)
}
