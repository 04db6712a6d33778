//go:build nightly

package app_test

import (
	"cmp"
	"context"
	"maps"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/cmd/internal/adminclient"
)

// publishing publishes events, and counts what arrives of them.
type publishing struct {
	*cluster
	box *inbox

	mu           sync.Mutex
	open         map[string]time.Time // events that have not arrived: when they were tried first
	lost         map[string]bool      // those of them that were acknowledged
	acknowledged int
	newest       time.Time   // when the newest that has arrived was tried
	arrivals     []time.Time // in order
}

const (
	maxOutage  = 10 * time.Second
	waiting    = 200                   // deliveries that wait for their retry meanwhile
	publishers = 4                     // …
	pace       = 20 * time.Millisecond // of each
	inFlight   = 32                    // at most, of so few publishers
)

var deliverersApart = layout{roles: []string{"api,project,dispatch", "deliver", "deliver"}, severable: true}

// published is the load of events that are published and delivered. Whatever was acknowledged arrives, signed; what was
// in flight may come again, under the same webhook-id; deliveries resume soon, and retries stay planned as they were.
// One server is hit again before all is well.
func published(on layout, faults []fault, least int) load {
	restless := on.servers == 1
	if !restless {
		on.env = []string{"CHILD_RETRY=1h"}
	}
	return load{on: on, faults: faults, least: least, begin: func(c *cluster) run {
		p := &publishing{cluster: c, box: newInbox(c.installation), open: map[string]time.Time{}, lost: map[string]bool{}}
		p.box.onArrival = p.arrives
		if !restless {
			p.plansRetries()
		}
		planned, stop, before := p.schedules(), p.publish(), 0
		return run{
			moment: func(int) {
				if restless {
					p.eventually("something is acknowledged", p.acknowledges())
					time.Sleep(time.Duration(rand.IntN(600)) * time.Millisecond) //nolint:gosec // at any moment
					return
				}
				p.eventually("all is well before", func() bool { return p.well(time.Now().Add(-quiet)) })
				_, before = p.box.arrived()
			},
			holds: func(s struck) {
				if !restless {
					p.recovers(s, before)
				}
			},
			ends: func() {
				stop()
				p.allArrive()
				p.eventually("retries can be read", func() bool { return p.schedules() != nil })
				if !maps.Equal(planned, p.schedules()) {
					p.Errorf("of %d planned retries some were moved", len(planned))
				}
				verifyReadModels(p.T, adminclient.New(p.admins[0], p.token))
			},
		}
	}}
}

// plansRetries has deliveries wait for their retry.
func (p *publishing) plansRetries() {
	fails := serveTLS(p.T, p.data, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	p.subscribed("fails", fails, "research.*")
	for range waiting {
		id := uuid.NewString()
		p.eventually("an event is published", func() bool { return p.takes(0, id, "research.status.changed") })
	}
	p.eventually("the retries are planned", func() bool { return len(p.schedules()) == waiting })
}

// takes reports whether a server acknowledges an event.
func (p *publishing) takes(server int, id, kind string) bool {
	return p.did(http.MethodPost, p.admins[server]+"/admin/events", map[string]any{
		"id": id, "type": kind, "source": "/torture", "organizationId": organization.String(),
		"data": map[string]any{"id": id, "title": "Storm", "status": "completed"},
	}, nil)
}

// schedules lists the deliveries that wait for their second attempt or a later one, each with its number and time; nil
// if they can't be read.
func (p *publishing) schedules() map[string]string {
	rows, err := p.pool.Query(p.Context(), `SELECT d.id::text, d.attempts || ' attempts, next ' || u.due_at
		FROM deliveries.due u JOIN deliveries.deliveries d ON d.id = u.id WHERE d.attempts > 0 AND d.type LIKE 'research.%'`)
	planned := map[string]string{}
	var id, schedule string
	if err == nil {
		_, err = pgx.ForEachRow(rows, []any{&id, &schedule}, func() error { planned[id] = schedule; return nil })
	}
	if err != nil {
		return nil
	}
	return planned
}

func (p *publishing) arrives(event string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if tried, of := p.open[event]; of {
		p.arrivals = append(p.arrivals, time.Now())
		if tried.After(p.newest) {
			p.newest = tried
		}
	}
	delete(p.open, event)
	delete(p.lost, event)
}

// publish publishes until stopped. Each event is tried until a server acknowledges it.
func (p *publishing) publish() (stop func()) {
	ctx, cancel := context.WithCancel(p.Context())
	var group sync.WaitGroup
	for n := range publishers {
		group.Go(func() {
			for ctx.Err() == nil {
				id := uuid.NewString()
				p.mu.Lock()
				p.open[id] = time.Now()
				p.mu.Unlock()
				for try := n; !p.takes(try%len(p.admins), id, "news.item.added"); try++ {
					time.Sleep(pace) // before the other server is asked
				}
				p.mu.Lock()
				p.acknowledged++
				if _, open := p.open[id]; open {
					p.lost[id] = true
				}
				p.mu.Unlock()
				time.Sleep(pace) // limits the rate
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
	}
}

// acknowledges reports whether something was acknowledged since it was called.
func (p *publishing) acknowledges() func() bool {
	now := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.acknowledged
	}
	before := now()
	return func() bool { return now() > before }
}

// recovers waits after a fault until all is well again, and measures how long that took, and what came again since.
func (p *publishing) recovers(s struck, before int) {
	p.eventually(s.name+": all is well again", func() bool { return p.well(s.ended) })
	outage := s.outage(p, s.began, s.ended).Round(time.Millisecond)
	_, again := p.box.arrived()
	again -= before
	if tortureKills(0) > 0 && outage > maxOutage { // else other tests run beside it
		p.Errorf("%s: an outage of %s", s.name, outage)
	}
	if again > inFlight && !s.repeats {
		p.Errorf("%s: %d requests came again, more than were in flight", s.name, again)
	}
	p.Logf("%-40s again %3d  outage %6s", s.name, again, outage)
}

// well reports whether an event that is newer than a moment has come, and all that were tried before.
func (p *publishing) well(since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, tried := range p.open {
		if !tried.After(since) {
			return false
		}
	}
	return p.newest.After(since)
}

// untilWell is the time from the end of a fault until now, when all is well again.
func untilWell(_ *publishing, _, ended time.Time) time.Duration { return time.Since(ended) }

func gapAfter(p *publishing, _, ended time.Time) time.Duration  { return p.gap(ended) }
func gapDuring(p *publishing, began, _ time.Time) time.Duration { return p.gap(began) }

// gap is the longest time without an arrival since a moment.
func (p *publishing) gap(since time.Time) (longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := since
	for _, at := range p.arrivals {
		if at.After(since) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	return cmp.Or(longest, time.Since(since))
}

// allArrive waits until all that was acknowledged has arrived, and expects that it came under one webhook-id each.
func (p *publishing) allArrive() {
	p.eventually("all that was acknowledged is delivered", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.lost) == 0
	})
	_, again := p.box.arrived()
	p.Logf("%d events acknowledged, none lost, %d came again", p.acknowledged, again)
	p.box.eachOnce()
}
