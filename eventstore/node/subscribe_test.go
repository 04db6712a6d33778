package node_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"carillon/eventstore/node"
)

// next waits for the next message of a subscription.
func next(tb testing.TB, subscription *esdb.Subscription) *esdb.SubscriptionEvent {
	tb.Helper()
	got := make(chan *esdb.SubscriptionEvent, 1)
	go func() { got <- subscription.Recv() }()
	select {
	case message := <-got:
		if message.SubscriptionDropped != nil {
			tb.Fatalf("subscription dropped: %v", message.SubscriptionDropped.Error)
		}
		return message
	case <-time.After(patience):
		tb.Fatal("the subscription brings nothing")
		return nil
	}
}

// untilCaughtUp returns the events and checkpoints up to the moment a subscription goes live.
func untilCaughtUp(
	tb testing.TB, subscription *esdb.Subscription,
) (list []*esdb.ResolvedEvent, checkpoints []esdb.Position) {
	tb.Helper()
	for {
		switch message := next(tb, subscription); {
		case message.CaughtUp != nil:
			return list, checkpoints
		case message.EventAppeared != nil:
			list = append(list, message.EventAppeared)
		case message.CheckPointReached != nil:
			checkpoints = append(checkpoints, *message.CheckPointReached)
		}
	}
}

func subscribeAll(tb testing.TB, client *esdb.Client, options esdb.SubscribeToAllOptions) *esdb.Subscription {
	tb.Helper()
	subscription, err := client.SubscribeToAll(context.Background(), options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = subscription.Close() })
	return subscription
}

func subscribeStream(tb testing.TB, client *esdb.Client, stream string, from esdb.StreamPosition) *esdb.Subscription {
	tb.Helper()
	subscription, err := client.SubscribeToStream(context.Background(), stream, esdb.SubscribeToStreamOptions{From: from})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = subscription.Close() })
	return subscription
}

func TestSubscriptionsStartWhereAsked(t *testing.T) {
	t.Parallel()
	client := start(t)
	appendTo(t, client, "a", esdb.NoStream{}, events(5)...)
	appendTo(t, client, "b", esdb.NoStream{}, events(5)...)
	all := readAll(t, client, esdb.ReadAllOptions{From: esdb.Start{}}, 100)
	for name, c := range map[string]struct {
		subscription *esdb.Subscription
		want         int
	}{
		"all from start":     {subscribeAll(t, client, esdb.SubscribeToAllOptions{From: esdb.Start{}}), 10},
		"all after third":    {subscribeAll(t, client, esdb.SubscribeToAllOptions{From: all[2].Event.Position}), 7},
		"all from end":       {subscribeAll(t, client, esdb.SubscribeToAllOptions{From: esdb.End{}}), 0},
		"stream from start":  {subscribeStream(t, client, "b", esdb.Start{}), 5},
		"stream after third": {subscribeStream(t, client, "b", esdb.Revision(2)), 2},
		"stream from end":    {subscribeStream(t, client, "b", esdb.End{}), 0},
	} {
		list, _ := untilCaughtUp(t, c.subscription)
		if len(list) != c.want {
			t.Errorf("%s: %d events", name, len(list))
		}
	}
}

func TestSubscriptionGoesLiveWithoutGapOrRepeat(t *testing.T) {
	t.Parallel()
	client := start(t)
	const writers, each = 8, 150
	var writing sync.WaitGroup
	for writer := range writers {
		writing.Go(func() {
			stream := fmt.Sprintf("writer-%d", writer)
			for i := range each {
				if _, err := client.AppendToStream(context.Background(), stream,
					esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}}, event("live", fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	follow := func(subscription *esdb.Subscription, streams int) {
		counts := map[string]uint64{}
		var last uint64
		for seen := 0; seen < streams*each; {
			appeared := next(t, subscription).EventAppeared
			if appeared == nil {
				continue
			}
			seen++
			got := appeared.Event
			if got.EventNumber != counts[got.StreamID] || got.Position.Commit <= last {
				t.Fatalf("%s@%d at %d after %d, want revision %d",
					got.StreamID, got.EventNumber, got.Position.Commit, last, counts[got.StreamID])
			}
			counts[got.StreamID]++
			last = got.Position.Commit
		}
	}
	follow(subscribeAll(t, client, esdb.SubscribeToAllOptions{From: esdb.Start{}}), writers)
	follow(subscribeStream(t, client, "writer-3", esdb.Start{}), 1)
	writing.Wait()
}

func TestFilteredSubscription(t *testing.T) {
	t.Parallel()
	client := start(t)
	for i := range 100 {
		appendTo(t, client, fmt.Sprintf("s%d-x", i%10), esdb.Any{}, event(fmt.Sprintf("type%d", i%4), "{}"))
	}
	for name, c := range map[string]struct {
		filter esdb.SubscriptionFilter
		want   int
	}{
		"stream prefix":   {esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Prefixes: []string{"s1-", "s2-"}}, 20},
		"stream pattern":  {esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Regex: "^s[0-4]"}, 50},
		"type prefix":     {esdb.SubscriptionFilter{Type: esdb.EventFilterType, Prefixes: []string{"type3"}}, 25},
		"type pattern":    {esdb.SubscriptionFilter{Type: esdb.EventFilterType, Regex: "[12]$"}, 50},
		"nothing matches": {esdb.SubscriptionFilter{Type: esdb.EventFilterType, Prefixes: []string{"none"}}, 0},
	} {
		subscription := subscribeAll(t, client, esdb.SubscribeToAllOptions{
			From:               esdb.Start{},
			Filter:             &c.filter,
			MaxSearchWindow:    10,
			CheckpointInterval: 2,
		})
		list, checkpoints := untilCaughtUp(t, subscription)
		if len(list) != c.want || len(checkpoints) != 5 {
			t.Errorf("%s: %d events, %d checkpoints", name, len(list), len(checkpoints))
		}
	}
	for name, pattern := range map[string]string{"look-ahead": "^(?!x)", "broken": "("} {
		if _, err := client.SubscribeToAll(context.Background(), esdb.SubscribeToAllOptions{
			From: esdb.Start{}, Filter: &esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Regex: pattern},
		}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestReadingAllBothWays(t *testing.T) {
	t.Parallel()
	client := start(t)
	const total = 700 // more than a page
	for i := range total / 10 {
		appendTo(t, client, fmt.Sprintf("s-%d", i), esdb.NoStream{}, events(10)...)
	}
	forwards := readAll(t, client, esdb.ReadAllOptions{From: esdb.Start{}}, 2*total)
	backwards := readAll(t, client, esdb.ReadAllOptions{From: esdb.End{}, Direction: esdb.Backwards}, 2*total)
	if len(forwards) != total || len(backwards) != total {
		t.Fatalf("%d forwards, %d backwards", len(forwards), len(backwards))
	}
	for i, one := range forwards {
		if other := backwards[total-1-i]; one.Event.EventID != other.Event.EventID {
			t.Fatalf("event %d differs", i)
		}
	}
	// Forwards a position is included, backwards it is not; so pages neither repeat nor skip.
	middle := forwards[300].Event.Position
	if list := readAll(t, client, esdb.ReadAllOptions{From: middle}, 5); len(list) != 5 ||
		list[0].Event.Position != middle {
		t.Errorf("forwards from the middle: %d events", len(list))
	}
	if list := readAll(t, client, esdb.ReadAllOptions{From: middle, Direction: esdb.Backwards}, 5); len(list) != 5 ||
		list[0].Event.EventID != forwards[299].Event.EventID {
		t.Errorf("backwards from the middle: %d events", len(list))
	}
}

func TestNodeClosesUnderSubscriptions(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Config{})
	live := subscribeAll(t, s.client(t), esdb.SubscribeToAllOptions{From: esdb.Start{}})
	untilCaughtUp(t, live)
	s.stop(t)
	if got := live.Recv(); got.SubscriptionDropped == nil {
		t.Errorf("a closed node sent %+v", got)
	}
	if err := s.Close(); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}
