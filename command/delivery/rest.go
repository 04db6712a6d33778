package delivery

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/command/webhook"
)

const (
	// maxFirstPace is the pace after the first refusal, at most: how much a receiver takes is not known yet.
	maxFirstPace = time.Second
	// maxPace is the slowest pace, which is found again by some hundred answers at most.
	maxPace = 10 * time.Second
	// minPace is a pace that is none any more.
	minPace = time.Millisecond
	// paceAnswers is how many answers it takes, about, until a receiver is asked for nearly three times as much.
	paceAnswers = 32
	// restInMemory is how long a rest is at most during which what waits for a destination stays in memory.
	restInMemory = 15 * time.Second
	// restSlack is by how much two reports of one rest differ: of requests that were refused together, and of clocks.
	restSlack = 100 * time.Millisecond
	// restHeard is how long a rest counts that the queue does not know: it is on its way there.
	restHeard = 2 * time.Second
	// restForgotten is how long after its end nothing is remembered of a rest.
	restForgotten = 10 * time.Minute
)

// rest is the time in which nothing is sent to a destination, because its receiver asked for that, and the pace at which
// what waited is sent afterwards: as much as it took before, then more with each answer, until it refuses again.
type rest struct {
	until   time.Time
	noted   time.Time     // when it was heard of last
	pace    time.Duration // between two requests; 0 means none is kept
	next    time.Time     // when the next request may begin
	answers int           // since the rest ended
}

// begin starts a rest, or extends the one that there is, and reports whether that is news to other processes.
func (r *rest) begin(now, until time.Time, window int) (news bool) {
	r.noted = now
	if now.Before(r.until) { // refused for what was sent before
		news = until.Sub(r.until) > restSlack
		r.until = later(r.until, until)
		r.next = later(r.next, r.until)
		return news
	}
	switch {
	case r.answers > 0:
		r.pace = min(until.Sub(r.until)/time.Duration(r.answers), maxPace)
	case r.pace > 0:
		r.pace = min(2*r.pace, maxPace)
	default:
		r.pace = min(until.Sub(now)/time.Duration(max(window, 1)), maxFirstPace)
	}
	r.until, r.next, r.answers = until, until, 0
	return true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// answered takes in an answer that is no refusal.
func (r *rest) answered() {
	r.answers++
	if r.pace -= r.pace / paceAnswers; r.pace < minPace {
		r.pace = 0
	}
}

// room is how many deliveries may wait in memory.
func (r *rest) room(limits Limits, now time.Time) int {
	switch {
	case r.until.Sub(now) > restInMemory:
		return 0
	case r.pace > 0:
		return max(limits.PerSlow, int(limits.QueuedFor/r.pace))
	}
	return limits.Queued
}

// slow reports whether a claim takes few deliveries.
func (r *rest) slow() bool { return r.pace >= busyPoll/2 }

// rests are those of destinations, whether anything waits for them here or not.
type rests struct {
	of map[uuid.UUID]*rest
	// known reports whether those of all processes are: until then nothing is taken from the dispatcher.
	known bool
	soon  time.Time // when one of those that are waited for ends, or a pace allows the next request; zero means never
}

// rest lets nothing begin for a destination until a time, halves how much may be sent to it at one time, and reports whether
// that is news to other processes.
func (ls *lanes) rest(destination uuid.UUID, until time.Time) (news bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.begin(destination, until, time.Now())
}

func (ls *lanes) begin(destination uuid.UUID, until, now time.Time) (news bool) {
	l, r := ls.lanes[destination], ls.rests.of[destination]
	if r == nil {
		r = &rest{}
		ls.rests.of[destination] = r
	}
	first, window := !now.Before(r.until), ls.limits.PerNew
	if l != nil {
		window = l.window
	}
	news = r.begin(now, until, window)
	if l == nil {
		return news
	}
	l.rest = r
	if first {
		l.window = max(1, l.window/2)
	}
	ls.shorten(l, min(l.queue.len(), r.room(ls.limits, now)))
	if l.waiting {
		ls.unwait(l)
	}
	ls.await(l)
	return news
}

// unrest ends a destination's rest: it is another receiver now, or its owner has done something about it.
func (ls *lanes) unrest(destination uuid.UUID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.endRest(destination)
}

func (ls *lanes) endRest(destination uuid.UUID) {
	if ls.rests.of[destination] == nil {
		return
	}
	delete(ls.rests.of, destination)
	if l := ls.lanes[destination]; l != nil {
		l.rest = nil
		ls.wait(l)
	}
}

// await notes when a lane that rests or keeps a pace goes on.
func (ls *lanes) await(l *lane) {
	if l.rest == nil || l.queue.len() == 0 || l.waiting {
		return
	}
	at := later(l.rest.until, l.rest.next)
	if at.After(time.Now()) && (ls.rests.soon.IsZero() || at.Before(ls.rests.soon)) {
		ls.rests.soon = at
	}
}

// goOn lets the lanes begin whose rests have ended, or whose pace allows it.
func (ls *lanes) goOn(now time.Time) {
	if ls.rests.soon.IsZero() || now.Before(ls.rests.soon) {
		return
	}
	ls.rests.soon = time.Time{}
	for id := range ls.rests.of {
		if l := ls.lanes[id]; l != nil {
			ls.wait(l)
			ls.await(l)
		}
	}
}

// soon is when something that rests may go on; zero means nothing does.
func (ls *lanes) soon() time.Time {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.rests.soon
}

// restsKnown takes in how long destinations are to rest as all processes know it. A rest that they don't know has ended
// early, unless it is on its way to them.
func (ls *lanes) restsKnown(known map[uuid.UUID]time.Duration) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.rests.known = true
	now := time.Now()
	for id, left := range known {
		until := now.Add(left)
		if r := ls.rests.of[id]; r != nil && until.Sub(r.until) < restSlack {
			r.noted = now
			continue
		}
		ls.begin(id, until, now)
	}
	for id, r := range ls.rests.of {
		_, is := known[id]
		switch {
		case !is && now.Before(r.until) && now.Sub(r.noted) > restHeard,
			now.Sub(r.until) > restForgotten:
			ls.endRest(id)
		}
	}
}

// restsHeard reports whether the rests are known.
func (ls *lanes) restsHeard() bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.rests.known
}

// refused reports how long a receiver asks to be left alone.
func refused(result webhook.Result) (wait time.Duration, is bool) {
	if result.StatusCode != http.StatusTooManyRequests && result.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	return result.RetryAfter, result.RetryAfter > 0
}

// restAfter lets a destination rest whose receiver asked for that, in this process at once, and in all others.
func (d *Deliverer) restAfter(ctx context.Context, job Job, result webhook.Result) {
	wait, is := refused(result)
	if !is || !d.lanes.rest(job.Target.ID, time.Now().Add(wait)) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordPause)
	defer cancel()
	if err := d.Queue.Rest(ctx, job.Target.ID, wait); err != nil {
		d.Log.Warn("other processes do not know that a destination rests", "destination", job.Target.ID, "error", err)
	}
}

// goOnAt starts what rests when its time comes.
func (d *Deliverer) goOnAt(at time.Time) {
	if at.IsZero() || !d.goesOn.IsZero() && !at.Before(d.goesOn) {
		return
	}
	d.goesOn = at
	time.AfterFunc(time.Until(at), func() {
		d.mu.Lock()
		if d.goesOn.Equal(at) {
			d.goesOn = time.Time{}
		}
		d.mu.Unlock()
		d.pump()
	})
}
