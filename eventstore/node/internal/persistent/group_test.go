package persistent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/eventstore/node/internal/store"
)

// memory is a backing whose source, checkpoint and parked events are plain slices.
type memory struct {
	mu         sync.Mutex
	events     []Event
	parked     []Event
	reasons    []string
	dropped    uint64
	checkpoint uint64
	saves      int
	changed    chan struct{}
	parkFails  int
}

func newMemory(n int) *memory {
	m := &memory{}
	m.add(n)
	return m
}

func (m *memory) add(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for range n {
		next := uint64(len(m.events) + 1)
		m.events = append(m.events, Event{ID: id(next - 1), Next: next, Pin: fmt.Sprintf("stream-%d", (next-1)%10), Size: 100})
	}
	if m.changed != nil {
		close(m.changed)
	}
	m.changed = make(chan struct{})
}

func id(n uint64) store.EventID { return store.EventID{14: byte(n >> 8), 15: byte(n)} }

func number(e Event) int { return int(e.ID[14])<<8 | int(e.ID[15]) }

func page(list []Event, from, end uint64, limit int) ([]Event, uint64) {
	end = min(end, uint64(len(list)))
	if from >= end {
		return nil, from
	}
	end = min(end, from+uint64(limit))
	return slices.Clone(list[from:end]), end
}

func (m *memory) Read(_ context.Context, cursor uint64, limit int) ([]Event, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	events, next := page(m.events, cursor, uint64(len(m.events)), limit)
	return events, next, nil
}

func (m *memory) Changed() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

func (m *memory) End(context.Context) (uint64, error) { return uint64(len(m.events)), nil }

func (m *memory) SaveCheckpoint(_ context.Context, cursor uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.checkpoint = cursor
	m.saves++
	return nil
}

func (m *memory) Park(_ context.Context, rejected []Rejected) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parkFails > 0 {
		m.parkFails--
		return errors.New("no space")
	}
	for _, r := range rejected {
		r.Event.Next = uint64(len(m.parked) + 1)
		m.parked = append(m.parked, r.Event)
		m.reasons = append(m.reasons, r.Reason)
	}
	return nil
}

func (m *memory) Parked(context.Context) (first, end uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dropped, uint64(len(m.parked)), nil
}

func (m *memory) ReadParked(_ context.Context, from, end uint64, limit int) ([]Event, uint64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	events, next := page(m.parked, from, end, limit)
	return events, next, nil
}

func (m *memory) DropParked(_ context.Context, before uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dropped = before
	return nil
}

func (m *memory) Close() {}

func settings() Settings {
	return Settings{
		MaxRetries: 2, MinCheckpoint: 1, MaxCheckpoint: 1000, LiveBuffer: 500, ReadBatch: 20, HistoryBuffer: 500,
		MessageTimeout: 30 * time.Second, CheckpointAfter: 2 * time.Second, Strategy: RoundRobin,
	}
}

// inGroup runs a test against a group, with time that passes only when all wait.
func inGroup(t *testing.T, s Settings, backing *memory, test func(t *testing.T, g *Group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		backing.changed = make(chan struct{}) // of this bubble
		g := Run(s, backing, 0, slog.New(slog.DiscardHandler))
		defer g.Stop()
		test(t, g)
	})
}

func connect(t *testing.T, g *Group, capacity int) *Consumer {
	t.Helper()
	c, err := g.Connect(Peer{}, capacity)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// received returns what a consumer has got once nothing more happens.
func received(c *Consumer) (numbers []int) {
	for _, d := range deliveries(c) {
		numbers = append(numbers, number(d.Event))
	}
	return numbers
}

func deliveries(c *Consumer) (list []Delivery) {
	synctest.Wait()
	for {
		select {
		case d := <-c.Deliveries():
			list = append(list, d)
		default:
			return list
		}
	}
}

// pass lets time go by, and what is due in it happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func expect(t *testing.T, got []int, want ...int) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestConsumerGetsNoMoreThanItHasRoomFor(t *testing.T) {
	t.Parallel()
	inGroup(t, settings(), newMemory(5), func(t *testing.T, g *Group) {
		c := connect(t, g, 2)
		expect(t, received(c), 0, 1)
		c.Ack(id(0))
		expect(t, received(c), 2)
		c.Ack(id(1), id(2), id(99)) // an unknown id is ignored
		expect(t, received(c), 3, 4)
	})
}

func TestNewEventsFollow(t *testing.T) {
	t.Parallel()
	backing := newMemory(1)
	inGroup(t, settings(), backing, func(t *testing.T, g *Group) {
		c := connect(t, g, 100)
		expect(t, received(c), 0)
		backing.add(2)
		expect(t, received(c), 1, 2)
	})
}

func TestNackActions(t *testing.T) {
	t.Parallel()
	backing := newMemory(4)
	inGroup(t, settings(), backing, func(t *testing.T, g *Group) {
		c := connect(t, g, 10)
		received(c)
		c.Nack(ActionRetry, "again", id(1))
		c.Nack(ActionUnknown, "?", id(0))
		got := deliveries(c)
		if len(got) != 2 || got[0].Retries != 1 {
			t.Fatalf("after retry: %+v", got)
		}
		c.Nack(ActionSkip, "skip", id(0))
		c.Nack(ActionPark, "park", id(1))
		expect(t, received(c))
		if len(backing.parked) != 1 || number(backing.parked[0]) != 1 || backing.reasons[0] != "Client explicitly NAK'ed message.\npark" {
			t.Errorf("parked %v because %v", backing.parked, backing.reasons)
		}
		c.Nack(ActionStop, "stop", id(2))
		<-c.Ended()
		if !errors.Is(c.Err(), ErrStopped) {
			t.Errorf("ended with %v", c.Err())
		}
		expect(t, received(connect(t, g, 10)), 2, 3)
	})
}

func TestUnansweredEventsAreSentAgainThenParked(t *testing.T) {
	t.Parallel()
	backing := newMemory(1)
	inGroup(t, settings(), backing, func(t *testing.T, g *Group) {
		c := connect(t, g, 10)
		for attempt := range 3 {
			got := deliveries(c)
			if len(got) != 1 || got[0].Retries != int32(attempt) {
				t.Fatalf("attempt %d: %+v", attempt, got)
			}
			pass(31 * time.Second)
		}
		expect(t, received(c))
		if len(backing.parked) != 1 || backing.reasons[0] != "Reached retry count of 2" {
			t.Errorf("parked %v because %q", backing.parked, backing.reasons)
		}
	})
}

func TestEventThatCannotBeParkedComesAgain(t *testing.T) {
	t.Parallel()
	backing := newMemory(1)
	backing.parkFails = 1
	inGroup(t, settings(), backing, func(t *testing.T, g *Group) {
		c := connect(t, g, 10)
		for range 2 {
			expect(t, received(c), 0)
			c.Nack(ActionPark, "", id(0))
		}
		expect(t, received(c))
		if len(backing.parked) != 1 {
			t.Errorf("parked %v", backing.parked)
		}
	})
}

func TestEventsOfALostConsumerGoToOthersInOrder(t *testing.T) {
	t.Parallel()
	inGroup(t, settings(), newMemory(6), func(t *testing.T, g *Group) {
		first, second := connect(t, g, 6), connect(t, g, 0)
		expect(t, received(first), 0, 1, 2, 3, 4, 5)
		first.Ack(id(1))
		first.Close()
		second.Close()
		expect(t, received(connect(t, g, 10)), 0, 2, 3, 4, 5)
	})
}

func TestStrategies(t *testing.T) {
	t.Parallel()
	for strategy, check := range map[Strategy]func(t *testing.T, first, second []int){
		RoundRobin: func(t *testing.T, first, second []int) {
			expect(t, first, 0, 2, 4, 6, 8)
			expect(t, second, 1, 3, 5, 7, 9)
		},
		DispatchToSingle: func(t *testing.T, first, second []int) {
			expect(t, first, 0, 1, 2, 3, 4, 5)
			expect(t, second, 6, 7, 8, 9)
		},
	} {
		t.Run(string(strategy), func(t *testing.T) {
			t.Parallel()
			s := settings()
			s.Strategy = strategy
			backing := newMemory(0)
			inGroup(t, s, backing, func(t *testing.T, g *Group) {
				first, second := connect(t, g, 6), connect(t, g, 6)
				synctest.Wait()
				backing.add(10)
				check(t, received(first), received(second))
			})
		})
	}
}

func TestPinnedEventsOfAStreamStayTogether(t *testing.T) {
	t.Parallel()
	s := settings()
	s.Strategy = Pinned
	backing := newMemory(0)
	inGroup(t, s, backing, func(t *testing.T, g *Group) {
		consumers := []*Consumer{connect(t, g, 200), connect(t, g, 200), connect(t, g, 200)}
		synctest.Wait()
		backing.add(100)
		owners := map[int]*Consumer{}
		total := 0
		for _, c := range consumers {
			for _, n := range received(c) {
				total++
				if owner := owners[n%10]; owner != nil && owner != c {
					t.Errorf("events of stream %d are on two consumers", n%10)
				}
				owners[n%10] = c
			}
		}
		if total != 100 {
			t.Errorf("%d events", total)
		}
	})
}

func TestPinnedEventsWaitForTheirConsumer(t *testing.T) {
	t.Parallel()
	s := settings()
	s.Strategy = Pinned
	inGroup(t, s, newMemory(50), func(t *testing.T, g *Group) {
		c := connect(t, g, 3)
		var all []int
		for len(all) < 50 {
			got := received(c)
			if len(got) == 0 {
				t.Fatalf("stuck after %v", all)
			}
			for _, n := range got {
				c.Ack(id(uint64(n)))
			}
			all = append(all, got...)
		}
		if !slices.IsSorted(all) {
			t.Errorf("out of order: %v", all)
		}
	})
}

func TestReplayedEventsStayParkedUntilDone(t *testing.T) {
	t.Parallel()
	backing := newMemory(5)
	inGroup(t, settings(), backing, func(t *testing.T, g *Group) {
		c := connect(t, g, 10)
		received(c)
		c.Nack(ActionPark, "", id(0), id(1), id(2))
		expect(t, received(c))
		if err := g.Replay(2); err != nil {
			t.Fatal(err)
		}
		got := received(c)
		if len(got) != 2 || backing.dropped != 0 {
			t.Fatalf("replayed %v, dropped before %d", got, backing.dropped)
		}
		c.Ack(id(uint64(got[0])))
		synctest.Wait()
		if backing.dropped != 1 {
			t.Errorf("dropped before %d after one is done", backing.dropped)
		}
		c.Nack(ActionPark, "again", id(uint64(got[1])))
		synctest.Wait()
		info, err := g.Info()
		if err != nil || backing.dropped != 2 || info.Parked != 2 {
			t.Errorf("dropped before %d, info %+v, %v", backing.dropped, info, err)
		}
		if err := g.Replay(0); err != nil {
			t.Fatal(err)
		}
		if got := received(c); len(got) != 2 {
			t.Errorf("replayed %v", got)
		}
	})
}

func TestSubscriberLimit(t *testing.T) {
	t.Parallel()
	s := settings()
	s.MaxSubscribers = 1
	inGroup(t, s, newMemory(0), func(t *testing.T, g *Group) {
		first := connect(t, g, 1)
		if _, err := g.Connect(Peer{}, 1); !errors.Is(err, ErrTooMany) {
			t.Errorf("second consumer: %v", err)
		}
		first.Close()
		connect(t, g, 1)
	})
}

func TestSameIDSeveralTimes(t *testing.T) {
	t.Parallel()
	backing := newMemory(3)
	for i := range backing.events {
		backing.events[i].ID = id(7)
	}
	inGroup(t, settings(), backing, func(t *testing.T, g *Group) {
		c := connect(t, g, 10)
		expect(t, received(c), 7, 7, 7)
		c.Ack(id(7), id(7))
		pass(3 * time.Second)
		if backing.checkpoint != 2 {
			t.Errorf("checkpoint at %d", backing.checkpoint)
		}
	})
}

func TestSettingsThatContradictThemselves(t *testing.T) {
	t.Parallel()
	if err := settings().Validate(); err != nil {
		t.Errorf("good settings: %v", err)
	}
	for name, change := range map[string]func(*Settings){
		"negative":        func(s *Settings) { s.MaxRetries = -1 },
		"no batch":        func(s *Settings) { s.ReadBatch = 0 },
		"batch as buffer": func(s *Settings) { s.ReadBatch = s.HistoryBuffer },
		"strategy":        func(s *Settings) { s.Strategy = "Random" },
	} {
		s := settings()
		change(&s)
		if err := s.Validate(); !errors.Is(err, ErrSettings) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
