package delivery

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
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

// slidingWindow takes n requests in any second; one that is refused counts if strict.
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

// limited is a receiver with a limit, the queue of its deliveries, and the processes that send them.
type limited struct {
	mu        sync.Mutex
	limit     limiter
	target    Job
	since     time.Time // of the rest, as the queue knows it
	until     time.Time
	waiting   map[uuid.UUID]*waitingDelivery
	processes []*lanes

	refused, early int
	ended          time.Time
}

type waitingDelivery struct {
	due      time.Time
	attempts int
	held     bool
}

const answerTakes = 5 * time.Millisecond

// work claims and sends for one process until all is delivered.
func (s *limited) work(ls *lanes) {
	for {
		ask := ls.ask()
		s.mu.Lock()
		if len(s.waiting) == 0 {
			s.mu.Unlock()
			return
		}
		for _, back := range ls.takeBack() {
			s.waiting[back.ID].held = false
		}
		claimed := s.claim(ask)
		s.tell(ls)
		s.mu.Unlock()
		ls.answer(ask, claimed)
		for _, job := range claimed {
			if !ls.add(job, false) {
				s.mu.Lock()
				s.waiting[job.ID].held = false
				s.mu.Unlock()
			}
		}
		s.pump(ls)
		pause := idlePoll
		if len(claimed) > 0 {
			pause = busyPoll
		}
		time.Sleep(pause) //nolint:forbidigo // the clock of the test
	}
}

// claim takes what is due, as the queue does: nothing while the destination rests.
func (s *limited) claim(ask Ask) (claimed []Job) {
	now, most := time.Now(), min(ask.Limit, ask.PerDestination)
	if now.Before(s.until) || len(ask.Full) > 0 {
		return nil
	}
	if len(ask.Slow) > 0 {
		most = min(most, ask.PerSlow)
	}
	for id, d := range s.waiting {
		if len(claimed) == most {
			break
		}
		if !d.held && !now.Before(d.due) {
			d.held = true
			job := s.target
			job.ID, job.Attempts = id, d.attempts
			claimed = append(claimed, job)
		}
	}
	return claimed
}

// tell lets a process know of the rest.
func (s *limited) tell(ls *lanes) {
	known := map[uuid.UUID]time.Duration{}
	if left := time.Until(s.until); left > 0 {
		known[s.target.Target.ID] = left
	}
	ls.restsKnown(known)
}

func (s *limited) pump(ls *lanes) {
	for job, ok := ls.next(nothing, calm); ok; job, ok = ls.next(nothing, calm) {
		s.mu.Lock()
		if now := time.Now(); s.since.Before(now) && now.Before(s.until) {
			s.early++
		}
		s.mu.Unlock()
		go s.send(ls, job)
	}
	if at := ls.soon(); !at.IsZero() {
		time.AfterFunc(time.Until(at), func() { s.pump(ls) })
	}
}

func (s *limited) send(ls *lanes, job Job) {
	time.Sleep(answerTakes) //nolint:forbidigo // the clock of the test
	s.mu.Lock()
	now := time.Now()
	wait := s.limit(now)
	ls.sent(job, true, wait > 0)
	if wait == 0 {
		delete(s.waiting, job.ID)
		s.ended = now
	} else {
		s.refused++
		d := s.waiting[job.ID]
		d.held = false
		d.attempts++
		d.due, _ = delivery.Retry{
			Schedule: DefaultPolicy.RetrySchedule, Spread: DefaultPolicy.RetrySpread, Jitter: 2*rand.Float64() - 1, Floor: wait, //nolint:gosec // no secret
		}.Next(d.attempts, now)
		if ls.rest(job.Target.ID, now.Add(wait)) {
			s.since, s.until = now, now.Add(wait)
			for _, other := range s.processes {
				s.tell(other)
			}
		}
	}
	s.mu.Unlock()
	ls.done(job, answerTakes)
	s.pump(ls)
}

// A receiver that takes 5 requests a second is sent 100 deliveries with few refusals, by one process and by two, and none
// while it asks to be left alone.
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
					const deliveries, most = 100, 30
					s := &limited{limit: limit(), target: job(1, 1), waiting: map[uuid.UUID]*waitingDelivery{}}
					began := time.Now()
					for range deliveries {
						s.waiting[uuid.New()] = &waitingDelivery{due: began}
					}
					var working sync.WaitGroup
					for range processes {
						s.processes = append(s.processes, newLanes(DefaultLimits))
					}
					for _, ls := range s.processes {
						working.Go(func() { s.work(ls) })
					}
					working.Wait()
					synctest.Wait()
					t.Logf("%d processes: %d refused, %d too early, took %s", processes, s.refused, s.early, s.ended.Sub(began))
					if s.refused > most || s.early > 0 {
						t.Errorf("%d processes: %d refused, want %d at most; %d too early", processes, s.refused, most, s.early)
					}
				})
			})
		}
	}
}

// restingLane is a lane whose destination rests, with deliveries that wait for it.
func restingLane(deliveries int, wait time.Duration) (ls *lanes, to Job) {
	ls, to = newLanes(DefaultLimits), job(1, 1)
	for range deliveries {
		next := to
		next.ID = uuid.New()
		ls.add(next, false)
	}
	ls.rest(to.Target.ID, time.Now().Add(wait))
	return ls, to
}

// A short rest leaves what waits in memory, a long one gives it back to the queue, whence others get it.
func TestLongRestEmptiesItsLane(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const waiting = 8
		short, to := restingLane(waiting, restInMemory)
		if back := short.takeBack(); len(back) > 0 || len(take(short)) > 0 {
			t.Errorf("%d went back, or something began", len(back))
		}
		if other := job(1, 2); !short.add(other, false) || len(take(short)) != 1 {
			t.Error("another destination of the organization rests, too")
		}
		time.Sleep(restInMemory) //nolint:forbidigo // the clock of the test
		if began := take(short); len(began) != 1 || began[0].Target.ID != to.Target.ID {
			t.Errorf("%d began at the end of the rest, want 1", len(began))
		}
		long, _ := restingLane(waiting, restInMemory+time.Second)
		if back := long.takeBack(); len(back) != waiting || !long.soon().IsZero() {
			t.Errorf("%d went back, want %d", len(back), waiting)
		}
	})
}

// The refusals of requests that were sent together halve once what may be in flight; answers let it grow, and the pace end.
func TestRestHalvesAndGrows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls, to := newLanes(DefaultLimits), job(1, 1)
		send := func() (began []Job) {
			next := to
			next.ID = uuid.New()
			ls.add(next, false)
			return take(ls)
		}
		var together []Job
		for range DefaultLimits.PerNew {
			together = append(together, send()...)
		}
		until := time.Now().Add(time.Second)
		for i, refused := range together {
			ls.sent(refused, true, true)
			if news := ls.rest(to.Target.ID, until); news != (i == 0) {
				t.Errorf("refusal %d: news %t", i, news)
			}
		}
		answers(ls, together, time.Millisecond)
		if r := ls.rests.of[to.Target.ID]; r.pace != time.Second/time.Duration(DefaultLimits.PerNew) {
			t.Errorf("pace %s", r.pace)
		}
		time.Sleep(time.Second) //nolint:forbidigo // the clock of the test
		next := send()
		if window := ls.lanes[to.Target.ID].window; len(next) != 1 || window > DefaultLimits.PerNew {
			t.Errorf("%d began with a window of %d", len(next), window)
		}
		for range 10 * paceAnswers {
			answers(ls, next, time.Millisecond)
			time.Sleep(maxFirstPace) //nolint:forbidigo // the clock of the test
			next = send()
		}
		if r := ls.rests.of[to.Target.ID]; r.pace != 0 || len(next) != 1 {
			t.Errorf("after many answers the pace is %s", r.pace)
		}
	})
}

// Other processes tell of a rest, and that it is over before its time.
func TestRestIsKnownToOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls, to := newLanes(DefaultLimits), job(1, 1)
		id := to.Target.ID
		ls.restsKnown(map[uuid.UUID]time.Duration{id: time.Minute})
		ls.add(to, false)
		if len(take(ls)) > 0 {
			t.Error("something began in a rest that another process told of")
		}
		ls.restsKnown(nil)
		if len(take(ls)) > 0 {
			t.Error("a rest ended that was just begun: it may be on its way to the queue")
		}
		time.Sleep(2 * restHeard) //nolint:forbidigo // the clock of the test
		ls.restsKnown(nil)
		if len(take(ls)) != 1 || len(ls.rests.of) > 0 {
			t.Error("a rest goes on that nobody knows of any more")
		}
		ls.rest(id, time.Now().Add(time.Hour))
		ls.unrest(id)
		next := to
		next.ID = uuid.New()
		if ls.add(next, false); len(take(ls)) != 1 {
			t.Error("a rest goes on although its destination has changed")
		}
	})
}
