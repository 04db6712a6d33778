package node_test

import (
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
)

// TestGroupInfo: real servers count otherwise, so this is no part of the contract.
func TestGroupInfo(t *testing.T) {
	t.Parallel()
	client, ctx := start(t), t.Context()
	appendTo(t, client, "s", esdb.NoStream{}, events(5)...)
	settings := esdb.SubscriptionSettingsDefault()
	settings.ExtraStatistics = true
	err := client.CreatePersistentSubscription(ctx, "s", "g", esdb.PersistentStreamSubscriptionOptions{
		Settings: &settings, StartFrom: esdb.Start{},
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually := func(what string, check func(*esdb.PersistentSubscriptionInfo) bool) *esdb.PersistentSubscriptionInfo {
		t.Helper()
		for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
			info, err := client.GetPersistentSubscriptionInfo(ctx, "s", "g", esdb.GetPersistentSubscriptionOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if check(info) {
				return info
			}
		}
		t.Fatal("never: " + what)
		return nil
	}
	eventually("live without a consumer", func(info *esdb.PersistentSubscriptionInfo) bool { return info.Status == "Live" })
	consumer, err := client.SubscribeToPersistentSubscription(ctx, "s", "g", esdb.SubscribeToPersistentSubscriptionOptions{BufferSize: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = consumer.Close() }()
	for acknowledged := 0; acknowledged < 4; {
		appeared := consumer.Recv().EventAppeared
		if appeared == nil {
			continue
		}
		if acknowledged++; acknowledged == 4 {
			break // it is in flight
		}
		if err := consumer.Ack(appeared.Event); err != nil {
			t.Fatal(err)
		}
	}
	appendTo(t, client, "s", esdb.Revision(4), events(10)...)
	info := eventually("counted", func(info *esdb.PersistentSubscriptionInfo) bool {
		stats := info.Stats
		return stats.OutstandingMessagesCount == 3 && stats.TotalInFlightMessages == 3 && stats.LiveBufferCount > 0
	})
	connections := info.Connections
	if len(connections) != 1 || connections[0].Username == "" || connections[0].ConnectionName == "" ||
		connections[0].From == "" || connections[0].InFlightMessages != 3 {
		t.Fatalf("connections %+v", connections)
	}
	keys := map[string]bool{}
	for _, measured := range connections[0].ExtraStatistics {
		keys[measured.Key] = true
	}
	for _, key := range []string{"Mean", "Median", "Fastest", "99%", "Highest"} {
		if !keys[key] {
			t.Errorf("%s is not among the measurements %v", key, connections[0].ExtraStatistics)
		}
	}
}
