package delivery

import (
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
)

// change gives what waits for a destination another target, and drops what then may not be sent any more. Where after is
// nil the destination was deleted: all is dropped, and what is under way is cancelled. It returns what was dropped.
func (ls *lanes) change(id uuid.UUID, after change) (dropped []Job) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.heard.note(id, after, time.Now())
	l := ls.lanes[id]
	if l == nil {
		return nil
	}
	targets := map[*destination.Target]*destination.Target{} // few: those of deliveries that were made at the same time are one
	l.queue.keep(func(waits *held) bool {
		if _, made := targets[waits.Target]; !made && after != nil {
			targets[waits.Target] = after(waits.Target)
		}
		if next := targets[waits.Target]; waits.goesTo(next) {
			waits.Target = next
			return true
		}
		dropped = append(dropped, waits.Job)
		ls.forget(waits)
		return false
	})
	ls.queued -= len(dropped)
	if l.waiting && l.queue.len() == 0 {
		ls.unwait(l)
	}
	if after == nil {
		l.late, l.spilled = false, time.Time{} // nothing is to be remembered of it
		ls.endRest(id)
		for _, cancel := range l.running {
			cancel()
		}
		ls.dropIdle(l)
	}
	return dropped
}

// suspend drops what waits for the destinations of an organization, and returns it. What is under way goes on.
func (ls *lanes) suspend(organization uuid.UUID) (dropped []Job) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.lanes {
		if l.organization != organization {
			continue
		}
		dropped = append(dropped, ls.empty(l)...)
		if l.waiting {
			ls.unwait(l)
		}
	}
	return dropped
}

// drain empties all queues, for good, and returns what was in them.
func (ls *lanes) drain() (dropped []Job) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.lanes {
		dropped = append(dropped, ls.empty(l)...)
		l.waiting = false
	}
	ls.turns = nil
	clear(ls.byOrg)
	dropped = append(dropped, ls.back...)
	ls.back = nil
	return dropped
}

// empty takes out of a lane all that waits.
func (ls *lanes) empty(l *lane) (dropped []Job) {
	for waits := range l.queue.all() {
		dropped = append(dropped, waits.Job)
		ls.forget(waits)
	}
	ls.queued -= l.queue.len()
	l.queue = queue{}
	return dropped
}
