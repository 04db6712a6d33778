package protocol

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
)

// consumers: what those who read for a group rely on, besides getting each event.
func consumers(t *testing.T, client *esdb.Client) {
	t.Run("parked says why", func(t *testing.T) { parkedSaysWhy(t, client) })
	t.Run("fresh events go before retried ones into the room that answers make", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, events(6)...)
		f.create(stream, nil)
		consumer := f.join(stream, 2)
		first, second := f.next(consumer), f.next(consumer)
		f.ack(consumer, first)
		f.nack(consumer, esdb.NackActionRetry, second)
		if e := f.next(consumer); number(e) != 2 {
			t.Errorf("event %d follows", number(e))
		}
		if e := f.next(consumer); number(e) != 1 || e.RetryCount != 1 {
			t.Errorf("event %d, retry %d follows", number(e), e.RetryCount)
		}
	})
	t.Run("settings", func(t *testing.T) { groupSettings(t, client) })
	t.Run("a stream that ends", func(t *testing.T) { endedStreams(t, client) })
	t.Run("replayed events come with their link", func(t *testing.T) { replayedLinks(t, client) })
}

func parkedSaysWhy(t *testing.T, client *esdb.Client) {
	f := begin(t, client)
	stream := f.stream("s")
	f.append(stream, esdb.NoStream{}, events(3)...)
	f.create(stream, func(s *esdb.PersistentSubscriptionSettings) { s.MaxRetryCount = 1 })
	consumer := f.join(stream, 10)
	f.ack(consumer, f.next(consumer))
	f.nack(consumer, esdb.NackActionPark, f.next(consumer))
	for range 2 {
		f.nack(consumer, esdb.NackActionRetry, f.next(consumer))
	}
	f.eventually("both are parked", func() bool { return f.parked(stream) == 2 })
	parked, err := f.read("$persistentsubscription-"+stream+"::"+group+"-parked", esdb.ReadStreamOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"Client explicitly NAK'ed message.\nnot now", "Reached retry count of 1"} {
		var said struct {
			Added  string  `json:"added"`
			Reason string  `json:"reason"`
			Number float64 `json:"subscriptionEventNumber"`
		}
		if err := json.Unmarshal(parked[i].Event.UserMetadata, &said); err != nil || said.Added == "" || said.Reason != want || said.Number != float64(i+1) {
			t.Errorf("parked with %s, %v", parked[i].Event.UserMetadata, err)
		}
	}
}

func groupSettings(t *testing.T, client *esdb.Client) {
	t.Run("an upper bound below the lower one", func(t *testing.T) {
		f := begin(t, client)
		f.create(f.stream("s"), func(s *esdb.PersistentSubscriptionSettings) {
			s.CheckpointLowerBound, s.CheckpointUpperBound = 10, 5
		})
	})
	t.Run("no group has a buffer below its batches", func(t *testing.T) {
		f := begin(t, client)
		settings := esdb.SubscriptionSettingsDefault()
		settings.ReadBatchSize = settings.HistoryBufferSize
		if err := client.CreatePersistentSubscription(f.ctx, f.stream("s"), group, esdb.PersistentStreamSubscriptionOptions{Settings: &settings}); err == nil {
			t.Error("it was made")
		}
	})
	t.Run("no checkpoint by time where that is 0", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, events(2)...)
		f.create(stream, func(s *esdb.PersistentSubscriptionSettings) {
			s.CheckpointAfter, s.CheckpointLowerBound, s.CheckpointUpperBound = 0, 1, 2
		})
		consumer := f.join(stream, 10)
		saved := func() bool {
			info, err := client.GetPersistentSubscriptionInfo(f.ctx, stream, group, esdb.GetPersistentSubscriptionOptions{})
			return err == nil && info.Stats.LastCheckpointedEventRevision != nil
		}
		f.ack(consumer, f.next(consumer))
		second := f.next(consumer)
		if saved() {
			t.Error("one event of two made a checkpoint")
		}
		f.ack(consumer, second)
		f.eventually("two made one", saved)
	})
	t.Run("the highest revision is the end", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, events(3)...)
		if err := client.CreatePersistentSubscription(f.ctx, stream, group, esdb.PersistentStreamSubscriptionOptions{
			StartFrom: esdb.Revision(math.MaxUint64),
		}); err != nil {
			t.Fatal(err)
		}
		consumer := f.join(stream, 10)
		f.append(stream, esdb.Revision(2), events(1)...)
		if e := f.next(consumer); number(e) != 3 {
			t.Errorf("it begins with event %d", number(e))
		}
	})
	t.Run("none begins beyond the end of $all", func(t *testing.T) {
		f := begin(t, client)
		name := f.stream("beyond")
		err := client.CreatePersistentSubscriptionToAll(f.ctx, name, esdb.PersistentAllSubscriptionOptions{
			StartFrom: esdb.Position{Commit: math.MaxInt64 / 2, Prepare: math.MaxInt64 / 2},
		})
		if err != nil {
			return // refused
		}
		t.Cleanup(func() {
			_ = client.DeletePersistentSubscriptionToAll(f.ctx, name, esdb.DeletePersistentSubscriptionOptions{})
		})
		consumer, err := client.SubscribeToPersistentSubscriptionToAll(f.ctx, name, esdb.SubscribeToPersistentSubscriptionOptions{})
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = consumer.Close() })
		if step := consumer.Recv(); step.SubscriptionDropped == nil { // or dropped at once
			t.Errorf("it brings %+v", step)
		}
	})
}

// endedStreams: who reads along hears of the end.
func endedStreams(t *testing.T, client *esdb.Client) {
	t.Run("tombstoned, to a group", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, events(4)...)
		f.create(stream, nil)
		consumer := f.join(stream, 1)
		first := f.next(consumer)
		if err := tombstone(f, stream); err != nil {
			t.Fatal(err)
		}
		f.ack(consumer, first)
		last := first
		for i := 1; last.Event.Event.EventType != "$streamDeleted"; i++ {
			if last = f.next(consumer); last.Event.Event.EventType != "$streamDeleted" && number(last) != i {
				t.Fatalf("event %d came, want %d or the end", number(last), i)
			}
			f.ack(consumer, last)
		}
		if last.Event.Event.StreamID != stream || last.Event.Event.EventNumber != math.MaxInt64 {
			t.Errorf("the end is %+v", last.Event.Event)
		}
	})
	t.Run("deleted, to a group", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, events(4)...)
		f.create(stream, nil)
		consumer := f.join(stream, 1)
		for i := range 4 { // they had been read before
			e := f.next(consumer)
			if number(e) != i {
				t.Fatalf("event %d came, want %d", number(e), i)
			}
			if i == 0 {
				if err := softDelete(f, stream); err != nil {
					t.Fatal(err)
				}
			}
			f.ack(consumer, e)
		}
	})
	t.Run("tombstoned, to a subscription", func(t *testing.T) { endedSubscription(t, client) })
}

func endedSubscription(t *testing.T, client *esdb.Client) {
	f := begin(t, client)
	stream := f.stream("s")
	f.append(stream, esdb.NoStream{}, events(1)...)
	subscription, err := client.SubscribeToStream(f.ctx, stream, esdb.SubscribeToStreamOptions{From: esdb.Start{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = subscription.Close() }()
	var seen []string
	for {
		switch step := subscription.Recv(); {
		case step.EventAppeared != nil:
			seen = append(seen, step.EventAppeared.Event.EventType)
		case step.CaughtUp != nil:
			if err := tombstone(f, stream); err != nil {
				t.Fatal(err)
			}
		case step.SubscriptionDropped != nil:
			if err := step.SubscriptionDropped.Error; err == nil || !strings.Contains(err.Error(), "deleted") {
				t.Errorf("it ended with %v", err)
			}
			if got := strings.Join(seen, " "); got != "tested $streamDeleted" {
				t.Errorf("it brought %s", got)
			}
			return
		}
	}
}

func replayedLinks(t *testing.T, client *esdb.Client) {
	f := begin(t, client)
	stream := f.stream("s")
	f.append(stream, esdb.NoStream{}, events(2)...)
	f.create(stream, nil)
	consumer := f.join(stream, 10)
	f.ack(consumer, f.next(consumer))
	f.nack(consumer, esdb.NackActionPark, f.next(consumer))
	for round := range uint64(2) {
		f.eventually("it is parked", func() bool {
			return slices.Equal(f.numbers("$persistentsubscription-"+stream+"::"+group+"-parked"), []int{int(round)}) //nolint:gosec // a few
		})
		if err := client.ReplayParkedMessages(f.ctx, stream, group, esdb.ReplayParkedMessagesOptions{}); err != nil {
			t.Fatal(err)
		}
		e := f.next(consumer)
		if e.Event.Event == nil || e.Event.Event.EventNumber != 1 || e.Event.Event.StreamID != stream {
			t.Fatalf("replayed: %+v", e.Event.Event)
		}
		if link := e.Event.Link; link == nil || link.EventNumber != round || !strings.HasSuffix(link.StreamID, "-parked") {
			t.Fatalf("its link: %+v", link)
		}
		if round == 1 {
			f.ack(consumer, e) // by the id of the link
			continue
		}
		f.nack(consumer, esdb.NackActionPark, e)
	}
	f.eventually("nothing is parked", func() bool {
		info, err := client.GetPersistentSubscriptionInfo(f.ctx, stream, group, esdb.GetPersistentSubscriptionOptions{})
		return err == nil && info.Stats.ParkedMessagesCount == 0
	})
}
