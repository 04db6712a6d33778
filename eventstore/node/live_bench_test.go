package node_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	_ "carillon/eventstore/esdb" // the official client encodes as it does in Carillon
	"carillon/eventstore/node"
)

// BenchmarkLive is the way of new events from their writers to those who follow the log, each of whom wants one of
// three categories. Without followers it is the cost of the append alone, so that the difference is that of the hops:
// a third of the followers gets each event, the others are to sleep through it.
func BenchmarkLive(b *testing.B) {
	const categories, writers = 3, 32
	for _, followers := range []int{0, categories, 4 * categories} {
		b.Run(fmt.Sprintf("followers=%d", followers), func(b *testing.B) {
			client := serve(b, node.Config{}).client(b)
			wanted := int64(b.N * followers / categories)
			seen, done := atomic.Int64{}, make(chan struct{})
			for i := range followers {
				subscription := followLive(b, client, fmt.Sprintf("live%d-", i%categories))
				go func() {
					for subscription.Recv().SubscriptionDropped == nil {
						if seen.Add(1) == wanted {
							close(done)
						}
					}
				}()
			}
			b.ResetTimer()
			used := cpuTime(b)
			concurrently(b, writers, b.N, func(_, call int) error {
				_, err := client.AppendToStream(context.Background(), fmt.Sprintf("live%d-%d", call%categories, call),
					esdb.AppendToStreamOptions{ExpectedRevision: esdb.NoStream{}}, benchEvents(1)...)
				return err
			})
			if wanted > 0 {
				<-done
			}
			b.StopTimer()
			b.ReportMetric(float64((cpuTime(b)-used).Microseconds())/float64(b.N), "cpu-µs/event")
		})
	}
}

// followLive subscribes to the streams with a prefix, and returns at the head of the log. Checkpoints are as rare as
// Carillon wants them.
func followLive(b *testing.B, client *esdb.Client, prefix string) *esdb.Subscription {
	b.Helper()
	subscription, err := client.SubscribeToAll(context.Background(), esdb.SubscribeToAllOptions{
		From:               esdb.End{},
		MaxSearchWindow:    512,
		CheckpointInterval: 1 << 10,
		Filter:             &esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Prefixes: []string{prefix}},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = subscription.Close() })
	for {
		switch step := subscription.Recv(); {
		case step.SubscriptionDropped != nil:
			b.Fatal(step.SubscriptionDropped.Error)
		case step.CaughtUp != nil:
			return subscription
		}
	}
}
