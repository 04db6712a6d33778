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

// Package protocol holds the filters; a checkpoint comes after each second window here.
func TestFilteredSubscription(t *testing.T) {
	t.Parallel()
	client := start(t)
	for i := range 100 {
		appendTo(t, client, fmt.Sprintf("s%d-x", i%10), esdb.Any{}, events(1)...)
	}
	for prefix, want := range map[string]int{"s1-": 10, "none": 0} {
		list, checkpoints := untilCaughtUp(t, subscribeAll(t, client, esdb.SubscribeToAllOptions{
			From:               esdb.Start{},
			Filter:             &esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Prefixes: []string{prefix}},
			MaxSearchWindow:    10,
			CheckpointInterval: 2,
		}))
		if len(list) != want || len(checkpoints) != 5 {
			t.Errorf("%s: %d events, %d checkpoints", prefix, len(list), len(checkpoints))
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
