package schedule_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
	"carillon/eventstore/storetest/assert"
)

// neighbour publishes 50 events a second to a destination that answers at once, retries and replays beside, and
// times them.
func (s *simulation) neighbour(organization int, from, to time.Duration) {
	const destination = 1 << 20
	s.receive[id(organization, destination)] = answers(2 * time.Millisecond)
	s.every(20*time.Millisecond, from, to, func() { s.offer(s.delivery(organization, destination, "fresh")) })
	s.receive[id(organization, destination+1)] = answers(2 * time.Millisecond)
	s.every(50*time.Millisecond, from, to, func() { // retries and replays, which are claimed when they are due
		s.store(s.delivery(organization, destination+1, "claimed"))
		s.wakeUp()
	})
	s.every(3*time.Second, from, to, func() { // a backfill for a destination that is new
		backfilled := destination + 2 + int(s.now.Sub(epoch)/time.Second)
		s.receive[id(organization, backfilled)] = answers(2 * time.Millisecond)
		for range 120 {
			s.store(s.delivery(organization, backfilled, "backfill"))
		}
		s.wakeUp()
	})
}

// crowd publishes events a second to many destinations.
func (s *simulation) crowd(organization, destinations int, pace, from, to time.Duration,
	receive func(n int) receiver) {
	for n := range destinations {
		s.receive[id(organization, n)] = receive(n)
	}
	s.every(pace, from, to, func() {
		for n := range destinations {
			s.offer(s.delivery(organization, n, "crowd"))
		}
	})
}

// Destinations that hang leave the latency of others' deliveries of all kinds within twice of that alone.
func TestHangingLeaveOthers(t *testing.T) {
	t.Parallel()
	const from, to = 10 * time.Second, 40 * time.Second
	alone := newSimulation(t, settings)
	alone.neighbour(1, from, to)
	alone.run(to + time.Second)
	for _, tt := range []struct{ organization, destinations int }{{1, 40}, {2, 40}, {1, 600}, {2, 600}} {
		t.Run(fmt.Sprintf("%d of organization %d", tt.destinations, tt.organization), func(t *testing.T) {
			t.Parallel()
			s := newSimulation(t, settings)
			s.crowd(tt.organization, tt.destinations, 2*time.Second, 0, to, func(int) receiver { return hangs })
			s.neighbour(1, from, to)
			s.run(to + time.Second)
			for _, kind := range []string{"fresh", "claimed", "backfill"} {
				was, is := alone.percentile(kind, 99), s.percentile(kind, 99)
				assert.True(t, is <= 2*was, "p99 of %s: %s, alone %s", kind, is, was)
			}
		})
	}
}

// Before it is known that they hang, too, others go on.
func TestHangingForTheFirstTime(t *testing.T) {
	t.Parallel()
	const to = 10 * time.Second
	s := newSimulation(t, settings)
	s.neighbour(1, 0, to)
	s.crowd(1, 40, 100*time.Millisecond, time.Second, to, func(int) receiver { return hangs })
	s.crowd(2, 600, 500*time.Millisecond, time.Second, to, func(int) receiver { return hangs })
	s.run(to + time.Second)
	p99 := s.percentile("fresh", 99)
	assert.True(t, p99 <= 100*time.Millisecond, "p99 %s", p99)
}

// Ten overloaded destinations delay no retries of others.
func TestOverloadedLeaveRetries(t *testing.T) {
	t.Parallel()
	const to = 10 * time.Second
	s := newSimulation(t, settings)
	s.neighbour(1, 0, to)
	s.crowd(2, 10, 4*time.Millisecond, 0, to, func(int) receiver { return answers(400 * time.Millisecond) })
	s.run(to + time.Second)
	p99 := s.percentile("claimed", 99)
	assert.True(t, p99 <= time.Second, "p99 of retries %s", p99)
}

// Many destinations that misbehave, each in its way, leave the processors to others.
func TestMisbehavingLeaveProcessors(t *testing.T) {
	t.Parallel()
	const to = 16 * time.Second
	s := newSimulation(t, settings)
	s.neighbour(1, 0, to)
	s.crowd(2, 1000, 2*time.Second, time.Second, to, func(n int) receiver {
		return []receiver{
			hangs,
			// It hangs up.
			func(time.Time) answer { return answer{fails: true, closes: true} },
			// It closes after the answer.
			func(time.Time) answer { return answer{takes: time.Millisecond, closes: true} },
			// It drips.
			func(time.Time) answer { return answer{takes: 10 * time.Second, closes: true} },
			// It fails now and then.
			func(now time.Time) answer {
				return answer{takes: 5 * time.Millisecond, fails: now.Second()%2 == 0}
			},
			// It is slow now and then.
			func(now time.Time) answer {
				return answer{takes: time.Duration(now.Second()%7) * 1100 * time.Millisecond}
			},
		}[n%6]
	})
	s.run(to + time.Second)
	p99 := s.percentile("fresh", 99)
	assert.True(t, p99 <= 100*time.Millisecond, "p99 %s", p99)
	sent := len(s.took["crowd"])
	assert.True(t, sent >= 4000, "%d were sent to those that misbehave", sent)
}

// One event to many destinations that were never sent to does not hold up others, and all get it soon.
func TestWideFanOutLeavesProcessors(t *testing.T) {
	t.Parallel()
	const to = 15 * time.Second
	s := newSimulation(t, settings)
	s.neighbour(1, 0, to)
	s.crowd(2, 5000, time.Minute, time.Second, 2*time.Second,
		func(int) receiver { return answers(3 * time.Millisecond) })
	s.run(to + time.Second)
	p99 := s.percentile("fresh", 99)
	assert.True(t, p99 <= 100*time.Millisecond, "p99 %s", p99)
	n, last := len(s.took["crowd"]), s.percentile("crowd", 99)
	assert.True(t, n == 5000 && last <= 10*time.Second, "%d of 5000 were sent, the last ones after %s", n, last)
}

// However many organizations hang, a newcomer has its turn, as soon as it is known of most that they do.
func TestHangingOrganizationsLeaveRoom(t *testing.T) {
	t.Parallel()
	for organizations, known := range map[int]time.Duration{140: 20 * time.Second, 400: 90 * time.Second} {
		t.Run(fmt.Sprint(organizations), func(t *testing.T) {
			t.Parallel()
			to := known + 10*time.Second
			small := settings
			small.InFlight = 256
			s := newSimulation(t, small)
			for o := range organizations {
				s.crowd(10+o, 1, 10*time.Second, 0, to, func(int) receiver { return hangs })
			}
			s.neighbour(1, known, to)
			s.run(to + time.Second)
			p99 := s.percentile("fresh", 99)
			assert.True(t, p99 <= 100*time.Millisecond, "p99 of a newcomer %s", p99)
		})
	}
}

// Greedy organizations have equal parts, and a single one two thirds.
func TestOrganizationsShare(t *testing.T) {
	t.Parallel()
	const organizations, destinations = 10, 8
	small := settings
	small.InFlight, small.Queued = 256, 1<<20
	s := newSimulation(t, small)
	busy := func(o int, until time.Duration) {
		for n := range destinations {
			s.receive[id(o, n)] = answers(time.Second)
		}
		s.every(time.Second, 0, until, func() {
			for n := range destinations {
				for range 40 {
					s.offer(s.delivery(o, n, fmt.Sprint(o)))
				}
			}
		})
	}
	for o := range organizations - 1 {
		busy(o, 20*time.Second)
	}
	busy(organizations-1, 5*time.Minute)
	s.run(20 * time.Second)
	by := map[uuid.UUID]int{}
	for _, o := range s.running {
		by[o]++
	}
	const fair = 256 * 2 / 21
	for o, n := range by {
		assert.True(t, n >= fair-4 && n <= fair+4, "organization %s has %d at one time, want %d", o, n, fair)
	}
	for o := range organizations - 1 {
		for n := range destinations {
			s.Drop(id(o, n), s.now)
		}
	}
	s.due, s.order = map[uuid.UUID][]*schedule.Delivery{}, nil
	s.run(40 * time.Second)
	if n := len(s.running); n < small.InFlight*6/10 {
		t.Errorf("alone it has %d at one time, want two thirds of %d", n, small.InFlight)
	}
}
