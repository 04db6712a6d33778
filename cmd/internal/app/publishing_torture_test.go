//go:build nightly

package app_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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

func newPublishing(c *cluster, retries bool) *publishing {
	p := &publishing{cluster: c, box: newInbox(c.installation), open: map[string]time.Time{}, lost: map[string]bool{}}
	p.box.onArrival = p.arrives
	if !retries {
		return p
	}
	fails := serveTLS(c.T, c.data, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusInternalServerError)
	})
	p.subscribed("fails", fails, "research.*")
	for range waiting {
		id := uuid.NewString()
		p.eventually("an event is published", func() bool { return p.published(0, id, "research.status.changed") })
	}
	p.eventually("the retries are planned", func() bool { return len(p.schedules()) == waiting })
	return p
}

// published reports whether a server acknowledges an event.
func (p *publishing) published(server int, id, kind string) bool {
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
				for try := n; !p.published(try%len(p.admins), id, "news.item.added"); try++ {
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

// suffer lets a fault happen, and waits until all is well again.
func (p *publishing) suffer(f fault, judged bool) (again int, outage time.Duration) {
	_, before := p.box.arrived()
	began := time.Now()
	f.strike(p.cluster)
	ended := time.Now()
	p.eventually(f.name+": all is well again", func() bool { return p.well(ended) })
	outage = f.outage(p, began, ended)
	_, after := p.box.arrived()
	again = after - before
	if judged && outage > maxOutage { // else other tests run beside it
		p.Errorf("%s: an outage of %s", f.name, outage.Round(time.Millisecond))
	}
	if again > inFlight && !f.repeats {
		p.Errorf("%s: %d requests came again, more than were in flight", f.name, again)
	}
	p.Logf("%-40s again %3d  outage %6s", f.name, again, outage.Round(time.Millisecond))
	return again, outage
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

// report waits until all that was acknowledged has arrived, and logs the damage.
func (p *publishing) report(results map[string]*damage) {
	p.Helper()
	lost := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.lost)
	}
	for deadline := time.Now().Add(patience); lost() > 0 && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	var table strings.Builder
	all := damage{}
	fmt.Fprintf(&table, "%-40s %6s %6s %10s\n", "FAULT", "TIMES", "AGAIN", "OUTAGE")
	for _, name := range slices.Sorted(maps.Keys(results)) {
		r := results[name]
		fmt.Fprintf(&table, "%-40s %6d %6d %10s\n", name, r.times, r.again, r.outage.Round(10*time.Millisecond))
		all.times += r.times
		all.outage = max(all.outage, r.outage)
	}
	_, all.again = p.box.arrived()
	p.Logf("%d faults; %d events acknowledged; lost %d, again %d, longest outage %s\n%s", all.times, p.acknowledged,
		lost(), all.again, all.outage.Round(10*time.Millisecond), table.String())
	if n := lost(); n > 0 {
		p.Errorf("%d acknowledged events were not delivered", n)
	}
	p.box.eachOnce()
}
