package node_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"carillon/eventstore/node"
)

func TestThousandSubscriptionsAtOnce(t *testing.T) {
	t.Parallel()
	client := start(t)
	const subscribers, written = 1000, 20
	appendTo(t, client, "s-0", esdb.NoStream{}, events(1)...)
	var following sync.WaitGroup
	live := make(chan struct{}, subscribers)
	for i := range subscribers {
		var subscription *esdb.Subscription
		if i%2 == 0 {
			subscription = subscribeAll(t, client, esdb.SubscribeToAllOptions{From: esdb.Start{}})
		} else {
			subscription = subscribeStream(t, client, "s-0", esdb.Start{})
		}
		following.Go(func() {
			for count := 0; count <= written; {
				switch message := subscription.Recv(); {
				case message.EventAppeared != nil:
					count++
				case message.CaughtUp != nil:
					live <- struct{}{}
				case message.SubscriptionDropped != nil:
					t.Errorf("dropped: %v", message.SubscriptionDropped.Error)
					return
				}
			}
		})
	}
	for range subscribers {
		<-live
	}
	for range written {
		appendTo(t, client, "s-0", esdb.Any{}, events(1)...)
	}
	following.Wait()
}

func TestSubscribersThatDoNotReadHoldNobodyUp(t *testing.T) { //nolint:paralleltest // it measures the heap
	s := serve(t, node.Config{})
	slow, client := s.client(t), s.client(t)
	const stalled, written, size = 20, 300, 200 << 10
	for range stalled {
		subscribeAll(t, slow, esdb.SubscribeToAllOptions{From: esdb.Start{}}) // and never calls Recv
	}
	before := heap()
	data := strings.Repeat("x", size)
	for i := range written {
		appendTo(t, client, fmt.Sprintf("s-%d", i), esdb.NoStream{}, event("big", data))
	}
	// 60 MB went by; twenty stalled connections may hold only windows and pages.
	if grown := heap() - before; grown > 120<<20 {
		t.Errorf("the heap grew by %d MB", grown>>20)
	}
	list := readAll(t, client, esdb.ReadAllOptions{From: esdb.End{}, Direction: esdb.Backwards}, 1)
	if len(list) != 1 || list[0].Event.StreamID != fmt.Sprintf("s-%d", written-1) {
		t.Errorf("last event %+v", list)
	}
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
