package protocol

import (
	"slices"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
)

const group = "workers"

// create makes a group on a stream, which retries quickly and saves its progress at each step.
func (f *fixture) create(stream string, change func(*esdb.PersistentSubscriptionSettings)) {
	f.Helper()
	settings := esdb.SubscriptionSettingsDefault()
	settings.CheckpointLowerBound, settings.CheckpointUpperBound = 1, 1
	if change != nil {
		change(&settings)
	}
	err := f.client.CreatePersistentSubscription(f.ctx, stream, group, esdb.PersistentStreamSubscriptionOptions{StartFrom: esdb.Start{}, Settings: &settings})
	if err != nil {
		f.Fatalf("create: %v", err)
	}
}

func (f *fixture) join(stream string, buffer uint32) *esdb.PersistentSubscription {
	f.Helper()
	subscription, err := f.client.SubscribeToPersistentSubscription(f.ctx, stream, group, esdb.SubscribeToPersistentSubscriptionOptions{BufferSize: buffer})
	if err != nil {
		f.Fatalf("join: %v", err)
	}
	f.Cleanup(func() { _ = subscription.Close() })
	return subscription
}

// next waits for an event.
func (f *fixture) next(subscription *esdb.PersistentSubscription) *esdb.EventAppeared {
	f.Helper()
	got := make(chan *esdb.PersistentSubscriptionEvent, 1)
	go func() { got <- subscription.Recv() }()
	select {
	case step := <-got:
		if step.EventAppeared == nil {
			f.Fatalf("dropped: %+v", step.SubscriptionDropped)
		}
		return step.EventAppeared
	case <-time.After(patience):
		f.Fatal("the group brings nothing")
		return nil
	}
}

func number(e *esdb.EventAppeared) int { return int(e.Event.OriginalEvent().EventNumber) } //nolint:gosec // a few

func (f *fixture) ack(subscription *esdb.PersistentSubscription, e *esdb.EventAppeared) {
	f.Helper()
	if err := subscription.Ack(e.Event); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) nack(subscription *esdb.PersistentSubscription, action esdb.NackAction, e *esdb.EventAppeared) {
	f.Helper()
	if err := subscription.Nack("not now", action, e.Event); err != nil {
		f.Fatal(err)
	}
}

// parked is how many events are in the group's parked stream, past and present.
func (f *fixture) parked(stream string) int {
	list, err := f.read("$persistentsubscription-"+stream+"::"+group+"-parked", esdb.ReadStreamOptions{})
	if code(err) == esdb.ErrorCodeResourceNotFound {
		return 0
	}
	if err != nil {
		f.Fatal(err)
	}
	return len(list)
}

func groups(t *testing.T, client *esdb.Client) {
	t.Run("in order to one consumer", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, events(30)...)
		f.create(stream, nil)
		consumer := f.join(stream, 5)
		for i := range 40 {
			if i == 20 {
				f.append(stream, esdb.Revision(29), events(10)...)
			}
			e := f.next(consumer)
			if number(e) != i || e.RetryCount != 0 {
				t.Fatalf("event %d, retry %d, want event %d", number(e), e.RetryCount, i)
			}
			f.ack(consumer, e)
		}
	})
	t.Run("a retry comes again, a skipped one does not", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, events(3)...)
		f.create(stream, nil)
		consumer := f.join(stream, 1)
		first := f.next(consumer)
		f.nack(consumer, esdb.NackActionRetry, first)
		again := f.next(consumer)
		if number(first) != 0 || number(again) != 0 || again.RetryCount != 1 {
			t.Errorf("event %d came, then %d with retry %d", number(first), number(again), again.RetryCount)
		}
		f.nack(consumer, esdb.NackActionSkip, again)
		if e := f.next(consumer); number(e) != 1 {
			t.Errorf("event %d follows the skipped", number(e))
		}
	})
	t.Run("what is not answered in time comes again", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, events(1)...)
		f.create(stream, func(s *esdb.PersistentSubscriptionSettings) { s.MessageTimeout = 500 })
		consumer := f.join(stream, 10)
		f.next(consumer)
		again := f.next(consumer)
		if number(again) != 0 || again.RetryCount != 1 {
			t.Errorf("event %d came with retry %d", number(again), again.RetryCount)
		}
		f.ack(consumer, again)
	})
	t.Run("consumers share, and a dead one's events go to the others", func(t *testing.T) { competing(t, client) })
	parking(t, client)
	lasting(t, client)
	consumers(t, client)
}

func parking(t *testing.T, client *esdb.Client) {
	t.Helper()
	t.Run("parked after the last retry, and replayed", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, events(3)...)
		f.create(stream, func(s *esdb.PersistentSubscriptionSettings) { s.MaxRetryCount = 2 })
		consumer := f.join(stream, 10)
		came := 0
		for acked := 0; acked < 2; {
			switch e := f.next(consumer); number(e) {
			case 1:
				came++
				f.nack(consumer, esdb.NackActionRetry, e)
			default:
				acked++
				f.ack(consumer, e)
			}
		}
		for came < 3 { // once, and two retries
			f.nack(consumer, esdb.NackActionRetry, f.next(consumer))
			came++
		}
		f.eventually("one event is parked", func() bool { return f.parked(stream) == 1 })
		if err := client.ReplayParkedMessages(f.ctx, stream, group, esdb.ReplayParkedMessagesOptions{}); err != nil {
			t.Fatal(err)
		}
		replayed := f.next(consumer)
		if n := replayed.Event.Event.EventNumber; n != 1 {
			t.Errorf("event %d was replayed", n)
		}
		f.ack(consumer, replayed)
	})
	t.Run("parked on demand", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, events(2)...)
		f.create(stream, nil)
		consumer := f.join(stream, 10)
		for range 2 {
			f.nack(consumer, esdb.NackActionPark, f.next(consumer))
		}
		f.eventually("both are parked", func() bool { return f.parked(stream) == 2 })
	})
}

func lasting(t *testing.T, client *esdb.Client) {
	t.Helper()
	t.Run("the progress outlives the consumers", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.append(stream, esdb.NoStream{}, events(10)...)
		f.create(stream, nil)
		consumer := f.join(stream, 1)
		for range 4 {
			f.ack(consumer, f.next(consumer))
		}
		f.eventually("the progress is saved", func() bool {
			info, err := client.GetPersistentSubscriptionInfo(f.ctx, stream, group, esdb.GetPersistentSubscriptionOptions{})
			return err == nil && info.Stats.LastCheckpointedEventRevision != nil && *info.Stats.LastCheckpointedEventRevision >= 3
		})
		if err := consumer.Close(); err != nil {
			t.Fatal(err)
		}
		next := f.join(stream, 1)
		for e := f.next(next); number(e) != 4; e = f.next(next) { // 4 was on its way to the one that left, and may come late
			if number(e) < 4 {
				t.Fatalf("event %d came again", number(e))
			}
			f.ack(next, e)
		}
	})
	t.Run("exists once, and can be deleted", func(t *testing.T) {
		f := begin(t, client)
		stream := f.stream("s")
		f.create(stream, nil)
		err := client.CreatePersistentSubscription(f.ctx, stream, group, esdb.PersistentStreamSubscriptionOptions{})
		if code(err) != esdb.ErrorCodeResourceAlreadyExists {
			t.Errorf("created twice: %v", err)
		}
		if err := client.DeletePersistentSubscription(f.ctx, stream, group, esdb.DeletePersistentSubscriptionOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := client.DeletePersistentSubscription(f.ctx, stream, group, esdb.DeletePersistentSubscriptionOptions{}); code(err) != esdb.ErrorCodeResourceNotFound {
			t.Errorf("deleted twice: %v", err)
		}
	})
}

func competing(t *testing.T, client *esdb.Client) {
	f := begin(t, client)
	const total = 120
	stream := f.stream("s")
	f.append(stream, esdb.NoStream{}, events(total)...)
	f.create(stream, nil)
	type got struct {
		consumer     int
		subscription *esdb.PersistentSubscription
		event        *esdb.EventAppeared
	}
	results := make(chan got, 10*total)
	mortal := f.join(stream, 5)
	for range 5 { // it takes some and dies without an answer
		f.next(mortal)
	}
	for consumer := range 2 {
		subscription := f.join(stream, 5)
		go func() {
			for {
				step := subscription.Recv()
				if step.EventAppeared == nil {
					return
				}
				results <- got{consumer, subscription, step.EventAppeared}
			}
		}()
	}
	if err := mortal.Close(); err != nil {
		t.Fatal(err)
	}
	var seen []int
	by := map[int]int{}
	for deadline := time.After(patience); len(by) < 2 || len(seen) < total; {
		select {
		case r := <-results:
			f.ack(r.subscription, r.event) // here, as the client can't take an ack while it is closed
			by[r.consumer]++
			if n := number(r.event); !slices.Contains(seen, n) {
				seen = append(seen, n)
			}
		case <-deadline:
			t.Fatalf("%d of %d events came, to %v", len(seen), total, by)
		}
	}
}
