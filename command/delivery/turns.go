package delivery

import (
	"time"

	"github.com/google/uuid"
)

// turn is the round of one organization's lanes.
type turn struct {
	organization uuid.UUID
	lanes        []*lane
	stuck        bool // all of them are slow
}

// wait puts a lane that may start something into its organization's turn.
func (ls *lanes) wait(l *lane) {
	if l.waiting || !l.mayStart(ls.limits) {
		ls.await(l)
		return
	}
	l.waiting = true
	t := ls.byOrg[l.organization]
	if t == nil {
		t = &turn{organization: l.organization}
		ls.byOrg[l.organization] = t
		ls.turns = append(ls.turns, t)
	}
	t.lanes, t.stuck = append(t.lanes, l), false
}

// next takes the delivery whose turn it is, and registers how to cancel it. Where it is crowded here, requests that open
// a connection are few at one time, and divided between organizations as all requests are.
func (ls *lanes) next(cancel func(), p press) (Job, bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	now := time.Now()
	ls.look(now)
	ls.goOn(now)
	for range len(ls.turns) {
		t := ls.turns[0]
		ls.turns = ls.turns[1:]
		part := 0
		if p == crowded {
			part = ls.besides(t.organization, now)
		}
		onlyWarm := p == crowded && ls.cold.left(t.organization) <= 0 ||
			p != calm && ls.cold.by[t.organization] >= ls.limits.OpeningBeside && ls.others(t.organization, now)
		started := ls.nextOf(t, cancel, now, onlyWarm, part)
		if len(t.lanes) > 0 {
			ls.turns = append(ls.turns, t)
		} else {
			delete(ls.byOrg, t.organization)
		}
		if started != nil {
			return started.Job, true
		}
	}
	return Job{}, false
}

// nextOf takes the next delivery of an organization, if its share allows one more. What may not start now is looked at
// again when a request ends, of its own lane or of any. Its destinations divide part, unless that is 0.
func (ls *lanes) nextOf(t *turn, cancel func(), now time.Time, onlyWarm bool, part int) *held {
	if t.stuck && ls.slow.free() == 0 {
		return nil // of organizations with nothing else there may be thousands
	}
	left := ls.running.left(t.organization)
	if left <= 0 {
		return nil
	}
	leftForSlow := min(ls.running.leftForSlow(t.organization), ls.slow.left(t.organization))
	scarce := ls.running.free() <= ls.limits.InFlight/sparedToProven
	looks, slow := len(t.lanes), 0
	if onlyWarm || part > 0 {
		looks = min(looks, ls.limits.Opening) // thousands may be cold; the next call goes on where this one ends, and there is one soon
	}
	for range looks {
		l, most := t.lanes[0], max(1, part/len(t.lanes))
		t.lanes = t.lanes[1:]
		if !l.mayStart(ls.limits) {
			l.waiting = false
			ls.await(l)
			continue
		}
		late, cold := l.slow(), !l.connected
		if late {
			slow++
		}
		if len(l.running) >= left || late && leftForSlow <= 0 || cold && onlyWarm || scarce && (cold || late) || part > 0 && len(l.running) >= most {
			t.lanes = append(t.lanes, l)
			continue
		}
		next := l.start(cancel, now)
		if next.slow = late; late {
			ls.slow.take(l.organization)
		}
		if next.cold = cold; cold {
			ls.cold.take(l.organization)
			ls.opening = append(ls.opening, next)
		}
		ls.queued--
		ls.running.take(l.organization)
		ls.latest.begins(l.organization, now)
		ls.begun = append(ls.begun, next)
		if next.from == ls.fresh {
			next.from.giveBack(l.organization)
			next.from = nil
		}
		if l.waiting = l.mayStart(ls.limits); l.waiting {
			t.lanes = append(t.lanes, l)
		} else {
			ls.await(l)
		}
		return next
	}
	t.stuck = slow > 0 && slow == len(t.lanes)
	return nil
}

func (ls *lanes) unwait(l *lane) {
	l.waiting = false
	for i, t := range ls.turns {
		for j, other := range t.lanes {
			if other != l {
				continue
			}
			t.lanes = append(t.lanes[:j:j], t.lanes[j+1:]...)
			if len(t.lanes) == 0 {
				ls.turns = append(ls.turns[:i:i], ls.turns[i+1:]...)
				delete(ls.byOrg, t.organization)
			}
			return
		}
	}
}
