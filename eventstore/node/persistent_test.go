package node_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"

	"carillon/eventstore/node"
)

func quickSettings() *esdb.PersistentSubscriptionSettings {
	settings := esdb.SubscriptionSettingsDefault()
	settings.CheckpointLowerBound, settings.CheckpointUpperBound = 1, 1
	return &settings
}

func createGroup(tb testing.TB, client *esdb.Client, stream, group string, settings *esdb.PersistentSubscriptionSettings) {
	tb.Helper()
	err := client.CreatePersistentSubscription(context.Background(), stream, group,
		esdb.PersistentStreamSubscriptionOptions{StartFrom: esdb.Start{}, Settings: settings})
	if err != nil {
		tb.Fatal(err)
	}
}

func join(tb testing.TB, client *esdb.Client, stream, group string, buffer uint32) *esdb.PersistentSubscription {
	tb.Helper()
	subscription, err := client.SubscribeToPersistentSubscription(context.Background(), stream, group,
		esdb.SubscribeToPersistentSubscriptionOptions{BufferSize: buffer})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = subscription.Close() })
	return subscription
}

// delivered waits for the next event of a group; nil where the connection ended.
func delivered(tb testing.TB, subscription *esdb.PersistentSubscription) *esdb.EventAppeared {
	tb.Helper()
	got := make(chan *esdb.PersistentSubscriptionEvent, 1)
	go func() { got <- subscription.Recv() }()
	select {
	case message := <-got:
		return message.EventAppeared
	case <-time.After(patience):
		tb.Fatal("the group brings nothing")
		return nil
	}
}

func eventually(tb testing.TB, what string, check func() bool) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for !check() {
		if time.Now().After(deadline) {
			tb.Fatal("never: " + what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

func TestGroupGoesOnAfterRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, node.Config{Dir: dir})
	client := s.client(t)
	appendTo(t, client, "s", esdb.NoStream{}, events(10)...)
	createGroup(t, client, "s", "g", quickSettings())
	subscription := join(t, client, "s", "g", 10)
	for range 4 {
		if err := subscription.Ack(delivered(t, subscription).Event); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the checkpoint is at 3", func() bool {
		info, err := client.GetPersistentSubscriptionInfo(context.Background(), "s", "g", esdb.GetPersistentSubscriptionOptions{})
		at := info.Stats.LastCheckpointedEventRevision
		return err == nil && at != nil && *at == 3
	})
	s.stop(t)
	client = serve(t, node.Config{Dir: dir}).client(t)
	if next := delivered(t, join(t, client, "s", "g", 10)); next.Event.Event.EventNumber != 4 {
		t.Errorf("went on with %d", next.Event.Event.EventNumber)
	}
}

func TestParkingAndReplaying(t *testing.T) {
	t.Parallel()
	client := start(t)
	ctx := context.Background()
	appendTo(t, client, "s", esdb.NoStream{}, events(3)...)
	createGroup(t, client, "s", "g", quickSettings())
	subscription := join(t, client, "s", "g", 10)
	for range 3 {
		if err := subscription.Nack("not today", esdb.NackActionPark, delivered(t, subscription).Event); err != nil {
			t.Fatal(err)
		}
	}
	parked := "$persistentsubscription-s::g-parked"
	eventually(t, "all are parked", func() bool {
		list, err := readStream(client, parked, esdb.ReadStreamOptions{From: esdb.Start{}}, 10)
		return err == nil && len(list) == 3
	})
	list, err := readStream(client, parked, esdb.ReadStreamOptions{From: esdb.Start{}, ResolveLinkTos: true}, 10)
	if err != nil || list[1].Link.EventType != "$>" || string(list[1].Link.Data) != "1@s" || list[1].Event.EventNumber != 1 {
		t.Errorf("parked: %+v, %v", list[1], err)
	}
	if err := client.ReplayParkedMessages(ctx, "s", "g", esdb.ReplayParkedMessagesOptions{}); err != nil {
		t.Fatal(err)
	}
	var again []uint64
	for range 3 {
		appeared := delivered(t, subscription)
		again = append(again, appeared.Event.Event.EventNumber)
		if err := subscription.Ack(appeared.Event); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(again, []uint64{0, 1, 2}) {
		t.Errorf("replayed %v", again)
	}
	eventually(t, "nothing is parked", func() bool {
		info, err := client.GetPersistentSubscriptionInfo(ctx, "s", "g", esdb.GetPersistentSubscriptionOptions{})
		return err == nil && info.Stats.ParkedMessagesCount == 0
	})
}

func TestGroupOnAllWithFilter(t *testing.T) {
	t.Parallel()
	client := start(t)
	ctx := context.Background()
	for i := range 40 {
		appendTo(t, client, fmt.Sprintf("s%d-x", i%4), esdb.Any{}, events(1)...)
	}
	err := client.CreatePersistentSubscriptionToAll(ctx, "g", esdb.PersistentAllSubscriptionOptions{
		StartFrom: esdb.Start{}, Settings: quickSettings(),
		Filter: &esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Prefixes: []string{"s1-", "s2-"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	subscription, err := client.SubscribeToPersistentSubscriptionToAll(ctx, "g", esdb.SubscribeToPersistentSubscriptionOptions{BufferSize: 5})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = subscription.Close() }()
	var last uint64
	for i := range 20 {
		appeared := delivered(t, subscription)
		got := appeared.Event.Event
		if got.Position.Commit <= last || got.StreamID != "s1-x" && got.StreamID != "s2-x" {
			t.Fatalf("event %d is %s at %d after %d", i, got.StreamID, got.Position.Commit, last)
		}
		last = got.Position.Commit
		if err := subscription.Ack(appeared.Event); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the checkpoint is at the end", func() bool {
		info, err := client.GetPersistentSubscriptionInfoToAll(ctx, "g", esdb.GetPersistentSubscriptionOptions{})
		at := info.Stats.LastCheckpointedPosition
		return err == nil && at != nil && at.Commit >= last
	})
}

func TestConsumersCompete(t *testing.T) {
	t.Parallel()
	client := start(t)
	const total = 200
	appendTo(t, client, "s", esdb.NoStream{}, events(total)...)
	createGroup(t, client, "s", "g", nil)
	type got struct {
		revision uint64
		consumer int
	}
	results := make(chan got, 2*total)
	// The client must not be closing a connection while another goroutine answers on it, so they end by context.
	ctx, cancel := context.WithCancel(context.Background())
	var consuming sync.WaitGroup
	defer consuming.Wait()
	defer cancel()
	var joined [3]*esdb.PersistentSubscription
	for consumer := range joined { // all have some before any has answered
		var err error
		joined[consumer], err = client.SubscribeToPersistentSubscription(ctx, "s", "g",
			esdb.SubscribeToPersistentSubscriptionOptions{BufferSize: 7})
		if err != nil {
			t.Fatal(err)
		}
	}
	for consumer, subscription := range joined {
		consuming.Go(func() {
			for count := 0; ; count++ {
				message := subscription.Recv()
				if message.EventAppeared == nil {
					return
				}
				if consumer == 0 && count == 5 {
					_ = subscription.Close() // dies with events in flight
					return
				}
				results <- got{message.EventAppeared.Event.Event.EventNumber, consumer}
				_ = subscription.Ack(message.EventAppeared.Event)
			}
		})
	}
	seen, consumers := map[uint64]bool{}, map[int]int{}
	for len(seen) < total {
		select {
		case r := <-results:
			seen[r.revision] = true
			consumers[r.consumer]++
		case <-time.After(patience):
			t.Fatalf("%d of %d events", len(seen), total)
		}
	}
	if consumers[1] == 0 || consumers[2] == 0 {
		t.Errorf("spread %v", consumers)
	}
}

func TestGroupManagement(t *testing.T) {
	t.Parallel()
	client := start(t)
	ctx := context.Background()
	createGroup(t, client, "s", "g", nil)
	options := esdb.PersistentStreamSubscriptionOptions{StartFrom: esdb.Start{}}
	bad := esdb.SubscriptionSettingsDefault()
	bad.ReadBatchSize = bad.HistoryBufferSize
	for name, c := range map[string]struct {
		err  error
		want esdb.ErrorCode
	}{
		"create twice":   {client.CreatePersistentSubscription(ctx, "s", "g", options), esdb.ErrorCodeResourceAlreadyExists},
		"update missing": {client.UpdatePersistentSubscription(ctx, "s", "none", options), esdb.ErrorCodeResourceNotFound},
		"delete missing": {client.DeletePersistentSubscription(ctx, "none", "g", esdb.DeletePersistentSubscriptionOptions{}), esdb.ErrorCodeResourceNotFound},
		"replay missing": {client.ReplayParkedMessages(ctx, "s", "none", esdb.ReplayParkedMessagesOptions{}), esdb.ErrorCodeResourceNotFound},
		"bad settings": {client.CreatePersistentSubscription(ctx, "s", "bad",
			esdb.PersistentStreamSubscriptionOptions{Settings: &bad}), esdb.ErrorCodeUnknown},
		"bad filter": {client.CreatePersistentSubscriptionToAll(ctx, "bad", esdb.PersistentAllSubscriptionOptions{
			Filter: &esdb.SubscriptionFilter{Type: esdb.StreamFilterType, Regex: "(?<!x)"}}), esdb.ErrorCodeUnknown},
	} {
		if code(c.err) != c.want {
			t.Errorf("%s: %v", name, c.err)
		}
	}
	if _, err := client.SubscribeToPersistentSubscription(ctx, "s", "none",
		esdb.SubscribeToPersistentSubscriptionOptions{}); code(err) != esdb.ErrorCodeResourceNotFound {
		t.Errorf("join missing: %v", err)
	}
	if list, err := client.ListAllPersistentSubscriptions(ctx, esdb.ListPersistentSubscriptionsOptions{}); err != nil || len(list) != 1 {
		t.Errorf("list: %v, %v", list, err)
	}

	subscription := join(t, client, "s", "g", 5)
	settings := esdb.SubscriptionSettingsDefault()
	settings.ConsumerStrategyName = esdb.ConsumerStrategyPinned
	if err := client.UpdatePersistentSubscription(ctx, "s", "g",
		esdb.PersistentStreamSubscriptionOptions{StartFrom: esdb.Start{}, Settings: &settings}); err != nil {
		t.Fatal(err)
	}
	if delivered(t, subscription) != nil {
		t.Error("a consumer survived the update")
	}
	info, err := client.GetPersistentSubscriptionInfo(ctx, "s", "g", esdb.GetPersistentSubscriptionOptions{})
	if err != nil || info.Settings.ConsumerStrategyName != esdb.ConsumerStrategyPinned {
		t.Errorf("after update: %+v, %v", info, err)
	}
	subscription = join(t, client, "s", "g", 5)
	if err := client.RestartPersistentSubscriptionSubsystem(ctx, esdb.RestartPersistentSubscriptionSubsystemOptions{}); err != nil {
		t.Fatal(err)
	}
	if delivered(t, subscription) != nil {
		t.Error("a consumer survived the restart")
	}
	if err := client.DeletePersistentSubscription(ctx, "s", "g", esdb.DeletePersistentSubscriptionOptions{}); err != nil {
		t.Fatal(err)
	}
	if list, err := client.ListAllPersistentSubscriptions(ctx, esdb.ListPersistentSubscriptionsOptions{}); err != nil || len(list) != 0 {
		t.Errorf("list after delete: %v, %v", list, err)
	}
}

func TestLinksAreResolved(t *testing.T) {
	t.Parallel()
	client := start(t)
	ctx := context.Background()
	original := events(3)
	appendTo(t, client, "target", esdb.NoStream{}, original...)
	link := func(to string) esdb.EventData {
		return esdb.EventData{EventID: uuid.New(), EventType: "$>", ContentType: esdb.ContentTypeBinary, Data: []byte(to)}
	}
	appendTo(t, client, "links", esdb.NoStream{}, link("1@target"), link("9@target"), link("0@none"), link("nonsense"))
	list, err := readStream(client, "links", esdb.ReadStreamOptions{From: esdb.Start{}, ResolveLinkTos: true}, 10)
	if err != nil || len(list) != 4 {
		t.Fatalf("%d events, %v", len(list), err)
	}
	if list[0].Event == nil || list[0].Event.EventID != original[1].EventID || list[0].Link == nil || list[0].Link.EventNumber != 0 {
		t.Errorf("resolved %+v", list[0])
	}
	for _, broken := range list[1:3] {
		if broken.Event != nil || broken.Link == nil {
			t.Errorf("broken link %+v", broken)
		}
	}
	if list[3].Event == nil || list[3].Link != nil || string(list[3].Event.Data) != "nonsense" {
		t.Errorf("what was never a link %+v", list[3])
	}
	if list, err = readStream(client, "links", esdb.ReadStreamOptions{From: esdb.Start{}}, 1); err != nil || list[0].Link != nil {
		t.Errorf("unresolved %+v, %v", list[0], err)
	}
	settings := quickSettings()
	settings.ResolveLinkTos = true
	createGroup(t, client, "links", "g", settings)
	subscription := join(t, client, "links", "g", 10)
	if got := delivered(t, subscription).Event; got.Event.EventID != original[1].EventID || got.Link == nil {
		t.Errorf("resolved for a group %+v", got)
	}
	if _, err := client.TombstoneStream(ctx, "target", esdb.TombstoneStreamOptions{ExpectedRevision: esdb.Any{}}); err != nil {
		t.Fatal(err)
	}
	if list, err = readStream(client, "links", esdb.ReadStreamOptions{From: esdb.Start{}, ResolveLinkTos: true}, 1); err != nil || list[0].Event != nil {
		t.Errorf("link to a tombstoned stream %+v, %v", list[0], err)
	}
}

func TestNodeClosesWithConsumersConnected(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Config{})
	client := s.client(t)
	createGroup(t, client, "s", "g", nil)
	consumer := join(t, client, "s", "g", 5)
	live := subscribeAll(t, client, esdb.SubscribeToAllOptions{From: esdb.Start{}})
	untilCaughtUp(t, live)
	s.stop(t)
	if delivered(t, consumer) != nil {
		t.Error("the consumer got an event from a closed node")
	}
	if err := s.Close(); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("closed twice: %v", err)
	}
}
