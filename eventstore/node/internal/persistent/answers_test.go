package persistent

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// What was never sent goes into the room that was made before, also where both answers come at once.
func TestFreshEventsGoBeforeRetriedOnes(t *testing.T) {
	t.Parallel()
	inGroup(t, settings(), newMemory(6), func(t *testing.T, g *Group) {
		c := connect(t, g, 2)
		expect(t, received(c), 0, 1)
		both := make(chan struct{})
		g.do(func() { <-both })
		c.Ack(id(0))
		c.Nack(ActionRetry, "", id(1))
		close(both)
		expect(t, received(c), 2, 1)
	})
}

func TestAGroupWithoutConsumersReadsOnceWhatThereIs(t *testing.T) {
	t.Parallel()
	backing := newMemory(6)
	inGroup(t, settings(), backing, func(t *testing.T, g *Group) {
		status := func() Info {
			t.Helper()
			synctest.Wait()
			info, err := g.Info()
			if err != nil {
				t.Fatal(err)
			}
			return info
		}
		if info := status(); info.Status != "Live" || info.Fresh != 6 {
			t.Errorf("%+v", info)
		}
		backing.add(2)
		if info := status(); info.Fresh+info.Live != 6 {
			t.Errorf("with nobody to read for it went on: %+v", info)
		}
		c := connect(t, g, 7)
		expect(t, received(c), 0, 1, 2, 3, 4, 5, 6)
		if info := status(); info.Live != 1 || info.InFlight != 7 {
			t.Errorf("%+v", info)
		}
	})
}

func TestAnswersAreMeasured(t *testing.T) {
	t.Parallel()
	s := settings()
	s.ExtraStatistics = true
	inGroup(t, s, newMemory(10), func(t *testing.T, g *Group) {
		c := connect(t, g, 1)
		for i := range 10 {
			expect(t, received(c), i)
			pass(time.Duration(i+1) * 10 * time.Millisecond)
			c.Ack(id(uint64(i)))
		}
		info, err := g.Info()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]int64{"Mean": 55, "Median": 50, "Fastest": 10, "Quintile 1": 20, "90%": 90, "95%": 100, "Highest": 100}
		for _, m := range info.Consumers[0].Measured {
			if expected, ok := want[m.Key]; ok && m.Value != expected {
				t.Errorf("%s is %d, want %d", m.Key, m.Value, expected)
			}
			delete(want, m.Key)
		}
		if len(want) > 0 {
			t.Errorf("missing %v", want)
		}
	})
}

func TestNoCheckpointByTimeWhereThatIsNever(t *testing.T) {
	t.Parallel()
	s := settings()
	s.MessageTimeout = 0
	s.CheckpointAfter, s.MinCheckpoint, s.MaxCheckpoint = 0, 5, 3 // the upper bound counts, also below the lower one
	backing := newMemory(10)
	inGroup(t, s, backing, func(t *testing.T, g *Group) {
		c := connect(t, g, 10)
		received(c)
		c.Ack(id(0), id(1))
		pass(time.Hour)
		if backing.saves != 0 {
			t.Errorf("checkpoint at %d", backing.checkpoint)
		}
		c.Ack(id(2))
		pass(time.Second)
		if backing.saves != 1 || backing.checkpoint != 3 {
			t.Errorf("%d checkpoints, the last at %d", backing.saves, backing.checkpoint)
		}
	})
}

func TestCheckpointIsBeforeTheFirstEventNotDone(t *testing.T) {
	t.Parallel()
	s := settings()
	s.MinCheckpoint, s.MaxCheckpoint = 2, 4
	backing := newMemory(20)
	inGroup(t, s, backing, func(t *testing.T, g *Group) {
		c := connect(t, g, 20)
		received(c)
		c.Ack(id(1), id(2), id(3), id(4))
		synctest.Wait()
		if backing.saves != 0 {
			t.Errorf("checkpoint at %d while the first event is not done", backing.checkpoint)
		}
		c.Ack(id(0))
		synctest.Wait()
		if backing.checkpoint != 5 {
			t.Errorf("checkpoint at %d after five", backing.checkpoint)
		}
		c.Ack(id(5))
		pass(5 * time.Second)
		if backing.checkpoint != 5 {
			t.Errorf("checkpoint at %d although below the minimum", backing.checkpoint)
		}
		c.Ack(id(6))
		pass(5 * time.Second)
		if backing.checkpoint != 7 {
			t.Errorf("checkpoint at %d after the time for it", backing.checkpoint)
		}
		c.Ack(id(7))
		g.Stop()
		if backing.checkpoint != 8 {
			t.Errorf("checkpoint at %d after the end", backing.checkpoint)
		}
		<-c.Ended()
		if !errors.Is(c.Err(), ErrDropped) {
			t.Errorf("ended with %v", c.Err())
		}
		if _, err := g.Connect(Peer{}, 1); !errors.Is(err, ErrDropped) {
			t.Errorf("connected to a stopped group: %v", err)
		}
	})
}
