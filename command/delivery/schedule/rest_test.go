package schedule_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
	"carillon/eventstore/storetest/assert"
)

// limiter decides whether a receiver takes a request now; if not, for how long it asks to be left alone.
type limiter func(now time.Time) (wait time.Duration)

// fixedWindow takes n requests in each second of the clock.
func fixedWindow(n int) limiter {
	var window time.Time
	used := 0
	return func(now time.Time) time.Duration {
		if second := now.Truncate(time.Second); !second.Equal(window) {
			window, used = second, 0
		}
		if used++; used > n {
			return time.Second
		}
		return 0
	}
}

// slidingWindow takes n requests in any second; refused requests count if strict.
func slidingWindow(n int, strict bool) limiter {
	var taken []time.Time
	return func(now time.Time) time.Duration {
		for len(taken) > 0 && now.Sub(taken[0]) >= time.Second {
			taken = taken[1:]
		}
		if len(taken) < n {
			taken = append(taken, now)
			return 0
		}
		if strict {
			taken = append(taken, now)
		}
		return time.Second
	}
}

// bucket holds n tokens, and n more come in a second.
func bucket(n int) limiter {
	tokens, last := float64(n), time.Time{}
	return func(now time.Time) time.Duration {
		if !last.IsZero() {
			tokens = min(float64(n), tokens+now.Sub(last).Seconds()*float64(n))
		}
		last = now
		if tokens < 1 {
			return time.Second
		}
		tokens--
		return 0
	}
}

// limited is a receiver with a limit, the read model of its deliveries, and the processes that send them.
type limited struct {
	mu        sync.Mutex
	limit     limiter
	to        uuid.UUID
	since     time.Time // of the rest, as the read model knows it
	until     time.Time
	waiting   map[uuid.UUID]*waitingDelivery
	processes []*schedule.Scheduler
	wakes     map[*schedule.Scheduler]*time.Timer

	refused, early int
	ended          time.Time
}

type waitingDelivery struct {
	due      time.Time
	attempts int
	held     bool
}

const answerTakes = 5 * time.Millisecond

// retries are the waits after a failed attempt.
var retries = []time.Duration{5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour}

// work claims and sends for one process until all is delivered.
func (l *limited) work(s *schedule.Scheduler) {
	for l.claim(s) {
		l.pump(s)
		time.Sleep(100 * time.Millisecond) //nolint:forbidigo // the clock of the test
	}
}

// claim takes what is due, as the queue does: nothing while the destination rests. It reports whether anything is
// left.
func (l *limited) claim(s *schedule.Scheduler) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	room, _ := s.Room(now)
	l.inform(s)
	most := min(room.Limit, room.PerDestination)
	if len(room.Slow) > 0 {
		most = min(most, room.PerSlow)
	}
	if now.Before(l.until) || len(room.Full) > 0 {
		most = 0
	}
	var claimed []*schedule.Delivery
	for id, d := range l.waiting {
		if len(claimed) == most {
			break
		}
		if !d.held && !now.Before(d.due) {
			claimed = append(claimed, &schedule.Delivery{ID: id, Destination: l.to, Claimed: true})
		}
	}
	s.Claimed(room, claimed, time.Second, now)
	for _, d := range claimed {
		l.waiting[d.ID].held = s.Offer(d, now)
	}
	return len(l.waiting) > 0
}

// inform notifies a process of the rest.
func (l *limited) inform(s *schedule.Scheduler) {
	known := map[uuid.UUID]time.Duration{}
	if left := time.Until(l.until); left > 0 {
		known[l.to] = left
	}
	s.Resting(known, time.Now())
}

func (l *limited) pump(s *schedule.Scheduler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d := s.Next(time.Now()); d != nil; d = s.Next(time.Now()) {
		if now := time.Now(); l.since.Before(now) && now.Before(l.until) {
			l.early++
		}
		time.AfterFunc(answerTakes, func() { l.answer(s, d) })
	}
	returned, next := s.Tick(time.Now())
	for _, d := range returned {
		l.waiting[d.ID].held = false
	}
	if wake := l.wakes[s]; wake != nil {
		wake.Stop()
	}
	if !next.IsZero() {
		l.wakes[s] = time.AfterFunc(time.Until(next), func() { l.pump(s) })
	}
}

func (l *limited) answer(s *schedule.Scheduler, d *schedule.Delivery) {
	l.mu.Lock()
	now := time.Now()
	wait := l.limit(now)
	if wait == 0 {
		delete(l.waiting, d.ID)
		l.ended = now
	} else {
		l.refused++
		waits := l.waiting[d.ID]
		waits.held = false
		waits.due = now.Add(max(wait, retries[min(waits.attempts, len(retries)-1)]))
		waits.attempts++
		if s.Rest(l.to, now.Add(wait), now) {
			l.since, l.until = now, now.Add(wait)
			for _, other := range l.processes {
				l.inform(other)
			}
		}
	}
	s.Done(d.ID, schedule.Outcome{
		Took:    answerTakes,
		Failed:  wait > 0,
		Refused: wait > 0,
		Kept:    true,
	}, now)
	l.mu.Unlock()
	l.pump(s)
}

// A receiver that takes 5 requests a second is sent 500 deliveries with few refusals, by one process and by two,
// and none while it asks to be left alone.
func TestRetryAfterBindsTheDestination(t *testing.T) {
	t.Parallel()
	for name, limit := range map[string]func() limiter{
		"fixed window":          func() limiter { return fixedWindow(5) },
		"sliding window":        func() limiter { return slidingWindow(5, false) },
		"strict sliding window": func() limiter { return slidingWindow(5, true) },
		"bucket":                func() limiter { return bucket(5) },
	} {
		for processes := 1; processes <= 2; processes++ {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					const deliveries, most = 500, 24
					l := &limited{
						limit:   limit(),
						to:      id(1, 1),
						waiting: map[uuid.UUID]*waitingDelivery{},
						wakes:   map[*schedule.Scheduler]*time.Timer{},
					}
					began := time.Now()
					for range deliveries {
						l.waiting[uuid.New()] = &waitingDelivery{due: began}
					}
					for range processes {
						l.processes = append(l.processes, schedule.New(settings))
					}
					var working sync.WaitGroup
					for _, s := range l.processes {
						working.Go(func() { l.work(s) })
					}
					working.Wait()
					synctest.Wait()
					t.Logf("%d processes: %d refused, %d too early, took %s", processes, l.refused, l.early, l.ended.Sub(began))
					assert.True(t, l.refused <= most && l.early <= 0,
						"%d processes: %d refused, want %d at most; %d too early", processes, l.refused, most, l.early)
				})
			})
		}
	}
}

// resting is a scheduler whose destination rests, with deliveries that wait for it.
func resting(deliveries int, wait time.Duration) (*schedule.Scheduler, []*schedule.Delivery) {
	s := schedule.New(settings)
	for n := range deliveries {
		s.Offer(&schedule.Delivery{ID: id(0, n), Destination: id(1, 1), Claimed: true}, epoch)
	}
	s.Rest(id(1, 1), epoch.Add(wait), epoch)
	returned, _ := s.Tick(epoch)
	return s, returned
}

// A short rest keeps waiting deliveries in memory, a long one returns them.
func TestRest_longReturnsWhatWaits(t *testing.T) {
	t.Parallel()
	const waiting, inMemory = 8, 15 * time.Second
	s, returned := resting(waiting, inMemory-time.Second)
	s.Rest(id(1, 1), epoch.Add(inMemory), epoch) // another request was refused, for longer
	assert.True(t, s.Next(epoch) == nil && len(returned) == 0, "%d returned, or one began", len(returned))
	assert.True(t, s.Offer(&schedule.Delivery{ID: id(0, 99), Destination: id(1, 2), Claimed: true}, epoch),
		"another destination of the organization rests, too")
	if d := s.Next(epoch); d == nil || d.Destination != id(1, 2) {
		t.Error("another destination of the organization does not begin")
	}
	assert.True(t, s.Next(epoch.Add(inMemory-time.Second)) == nil, "one began before the end of the longer rest")
	if d := s.Next(epoch.Add(inMemory)); d == nil || d.Destination != id(1, 1) {
		t.Error("none began at the end of the rest")
	}
	assert.True(t, s.Next(epoch.Add(inMemory)) == nil, "a second one began at once, although the pace is unknown")
	if _, returned := resting(waiting, inMemory+time.Second); len(returned) != waiting {
		t.Errorf("%d returned, want %d", len(returned), waiting)
	}
}

// Other processes know of a rest, and that it is over before its time.
func TestRest_ofOtherProcesses(t *testing.T) {
	t.Parallel()
	s, now, to := schedule.New(settings), epoch, id(1, 1)
	s.Resting(map[uuid.UUID]time.Duration{to: time.Minute}, now)
	s.Offer(&schedule.Delivery{ID: id(0, 1), Destination: to}, now)
	begins := func() bool { return s.Next(now) != nil }
	assert.True(t, !begins(), "a request began in a rest of another process")
	if s.Resting(nil, now); begins() {
		t.Error("a rest ended that was begun just now: it may be on its way to the queue")
	}
	now = now.Add(4 * time.Second)
	s.Resting(nil, now)
	if s.Offer(&schedule.Delivery{ID: id(0, 1), Destination: to}, now); !begins() {
		t.Error("a rest goes on that no process knows of any more")
	}
	s.Rest(to, now.Add(time.Hour), now)
	s.Changed(to, 0, now)
	if s.Offer(&schedule.Delivery{ID: id(0, 2), Destination: to}, now); !begins() {
		t.Error("a rest goes on although its destination has changed")
	}
}
