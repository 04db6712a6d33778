package deliveries_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/projections/deliveries"
	"carillon/projections/projecttest"
	"carillon/query"
)

// TestDeliveriesAreSentOnceAtATime goes through failures, retries, replays, recoveries, debounce windows, destinations
// that are disabled, workers that are killed and read models that are behind, in any order. No delivery is requested
// while a request of it is in flight, nor twice for one reason; each ends by its outcome, and none is lost.
func TestDeliveriesAreSentOnceAtATime(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	rapid.Check(t, func(r *rapid.T) {
		h.Clear()
		d := &driven{
			T:        r,
			history:  h,
			now:      noon,
			off:      map[uuid.UUID]bool{},
			windows:  map[uuid.UUID]*sent{},
			inFlight: map[uuid.UUID]flight{},
			workers:  []int32{1, 2},
		}
		for _, id := range []uuid.UUID{alpha, beta} {
			h.destination(id)
		}
		h.Project()
		steps := []func(){
			d.publish, d.publish, d.claim, d.claim, d.answer, d.answer, d.kill, d.retry, d.replay, d.recover, d.toggle, d.wait,
			h.Project,
		}
		for range rapid.IntRange(5, 50).Draw(r, "steps") {
			rapid.SampledFrom(steps).Draw(r, "step")()
		}
		d.end()
	})
}

// driven is a history with its deliveries as they are recorded, and the workers that send them.
type driven struct {
	*rapid.T
	history

	now      time.Time
	made     []*sent
	off      map[uuid.UUID]bool   // destinations that are disabled
	windows  map[uuid.UUID]*sent  // the newest of each open debounce window, by destination
	inFlight map[uuid.UUID]flight // by delivery
	workers  []int32              // those that live
	killed   []int32
}

// sent is a delivery.
type sent struct {
	n         int
	id, to    uuid.UUID
	closes    time.Time // of its window; zero: it is not debounced
	state     delivery.State
	requested int // requests of which the outcome is recorded
	arrived   bool
	promised  int // attempts that have to be made, as a retry was accepted
}

// flight is a request of a worker.
type flight struct {
	*sent
	deliveries.Claimed

	worker int32
}

// decide records what a command comes to, and reports whether something was.
func (d *driven) decide(of *sent, command delivery.Command) bool {
	events, err := delivery.Aggregate.Decide(of.state, command)
	if err != nil {
		return false
	}
	for _, event := range events {
		of.state = delivery.Aggregate.Evolve(of.state, event)
	}
	d.happens(of.n, of.to, events...)
	return len(events) > 0
}

// publish makes a delivery, which may be in a debounce window, as the dispatcher does.
func (d *driven) publish() {
	n := len(d.made) + 1
	of := &sent{n: n, to: rapid.SampledFrom([]uuid.UUID{alpha, beta}).Draw(d.T, "to")}
	if d.off[of.to] {
		return
	}
	of.id = dispatch.DeliveryID(event(n), of.to)
	scheduled := to(of.to)
	older := d.windows[of.to]
	if rapid.Bool().Draw(d.T, "debounced") {
		of.closes = d.now.Add(time.Minute)
		if older != nil && d.now.Before(older.closes) {
			of.closes, scheduled.Supersedes = older.closes, older.id
		}
		d.windows[of.to], scheduled.NotBefore = of, of.closes
	}
	d.history.publish(n)
	d.schedule(n, d.now, scheduled)
	d.made = append(d.made, of)
	if scheduled.Supersedes != uuid.Nil {
		d.decide(older, delivery.Supersede{By: of.id, At: d.now})
	}
}

// claim hands what is due to a worker. There was no request for the same reason.
func (d *driven) claim() {
	worker := rapid.SampledFrom(d.workers).Draw(d.T, "worker")
	claimed, err := claimOnce(d.Context(), d.Database, worker, deliveries.Ask{
		PerDestination: 3, Limit: 5,
	}, d.now)
	if err != nil {
		d.Fatal(err)
	}
	for _, c := range claimed {
		if other, flies := d.inFlight[c.ID]; flies {
			d.Fatalf("%d claims delivery %d, which %d is sending", worker, other.n, other.worker)
		}
		of := d.made[slices.IndexFunc(d.made, func(s *sent) bool { return s.id == c.ID })]
		if c.Attempts != of.state.Attempts {
			d.Fatalf("delivery %d is claimed for attempt %d, of %d", of.n, c.Attempts+1, of.state.Attempts)
		}
		if d.off[of.to] && c.Replay == uuid.Nil {
			d.inFlight[c.ID] = flight{of, c, worker} // the worker sees it when it begins, and gives it back
			d.giveBack(d.inFlight[c.ID])
			continue
		}
		d.inFlight[c.ID] = flight{of, c, worker}
	}
}

func (d *driven) giveBack(f flight) {
	if err := deliveries.Release(d.Context(), d.Database, f.worker, []uuid.UUID{f.ID}); err != nil {
		d.Fatal(err)
	}
	delete(d.inFlight, f.ID)
}

// flying lists requests in flight, in the order of their events.
func (d *driven) flying() (all []flight) {
	for _, of := range d.made {
		if f, flies := d.inFlight[of.id]; flies {
			all = append(all, f)
		}
	}
	return all
}

// answer ends a request that is in flight.
func (d *driven) answer() {
	if all := d.flying(); len(all) > 0 {
		d.answered(rapid.SampledFrom(all).Draw(d.T, "request"), rapid.Bool().Draw(d.T, "arrives"))
	}
}

func (d *driven) answered(f flight, arrives bool) {
	attempt := delivery.RecordAttempt{
		Organization: org,
		Destination:  f.to,
		Number:       f.Attempts + 1,
		Trigger:      delivery.Automatic,
		Outcome:      delivery.Outcome{ResponseStatus: 204},
		At:           d.now,
		Retry:        delivery.Retry{Schedule: []time.Duration{5 * time.Second, 5 * time.Minute}},
	}
	if f.Replay != uuid.Nil {
		attempt.Trigger = delivery.ManualReplay
	}
	if !arrives {
		attempt.Outcome = delivery.Outcome{ResponseStatus: 500, FailureReason: "http_status"}
	}
	d.decide(f.sent, attempt)
	f.requested++
	f.arrived = f.arrived || arrives
	if f.state.Attempts != f.requested {
		d.Fatalf("delivery %d has %d attempts of %d requests", f.n, f.state.Attempts, f.requested)
	}
	delete(d.inFlight, f.ID)
}

// kill ends a worker with its requests. Another one takes its place, and what it held, once the read model knows all.
func (d *driven) kill() {
	i := rapid.IntRange(0, len(d.workers)-1).Draw(d.T, "killed")
	for _, f := range d.flying() {
		if f.worker == d.workers[i] {
			delete(d.inFlight, f.ID)
		}
	}
	d.killed = append(d.killed, d.workers[i])
	d.workers[i] += 2
	if rapid.Bool().Draw(d.T, "is noticed") {
		d.takeOver()
	}
}

func (d *driven) takeOver() {
	d.Project()
	d.takeBack(d.now, d.killed...)
}

// retry asks for one delivery that waits, as the read model shows it.
func (d *driven) retry() {
	if len(d.made) == 0 {
		return
	}
	of := rapid.SampledFrom(d.made).Draw(d.T, "retried")
	request := delivery.RequestRetry{
		Organization: org,
		Destination:  of.to,
		Off:          d.off[of.to],
		At:           d.now,
	}
	if row := d.row(of.n, of.to); row == nil {
		return // it is not shown yet
	} else if row.Worker != nil && row.AvailableAt.After(d.now) {
		request.Sending = true
	}
	if d.decide(of, request) {
		of.promised = of.requested + 1
	}
}

// replay asks for one more attempt of a delivery that has ended.
func (d *driven) replay() {
	if len(d.made) == 0 {
		return
	}
	of := rapid.SampledFrom(d.made).Draw(d.T, "replayed")
	d.decide(of, replayOf(of.to, d.now))
}

func replayOf(to uuid.UUID, at time.Time) delivery.RequestReplay {
	return delivery.RequestReplay{
		Organization: org,
		Destination:  to,
		Replay:       uuid.New(),
		At:           at,
	}
}

// recover asks for everything of a destination. Again at once, there is nothing.
func (d *driven) recover() {
	to := rapid.SampledFrom([]uuid.UUID{alpha, beta}).Draw(d.T, "recovered")
	if d.off[to] {
		return
	}
	for again := range 2 {
		d.Project()
		found, err := (&query.Queries{Pool: d.Database}).Undelivered(d.Context(), query.UndeliveredFilter{
			Destination: to,
			Until:       d.now,
			Now:         d.now,
			Limit:       1000,
		})
		if err != nil || again > 0 && len(found) > 0 {
			d.Fatalf("found %v, %v; the recovery is number %d", found, err, again+1)
		}
		for _, one := range found {
			of := d.made[slices.IndexFunc(d.made, func(s *sent) bool { return s.id == one.ID })]
			var request delivery.Command = delivery.RequestRetry{Organization: org, Destination: to, At: d.now}
			if one.Failed {
				request = replayOf(to, d.now)
			}
			if d.decide(of, request) {
				of.promised = of.requested + 1
			}
		}
	}
}

// toggle disables a destination, or enables it.
func (d *driven) toggle() { d.turn(rapid.SampledFrom([]uuid.UUID{alpha, beta}).Draw(d.T, "toggled")) }

func (d *driven) turn(id uuid.UUID) {
	var event destination.Event = destination.Disabled{At: d.now}
	if d.off[id] {
		event = destination.Enabled{At: d.now}
	}
	d.off[id] = !d.off[id]
	projecttest.Stream(d.history.Log, destination.Aggregate, id, d.now)(event)
}

// wait lets time pass. No request outlives its lease.
func (d *driven) wait() {
	pause := rapid.SampledFrom([]time.Duration{time.Second, 10 * time.Second, time.Hour}).Draw(d.T, "pause")
	for _, f := range d.flying() {
		if pause > time.Second {
			d.answered(f, false)
		}
	}
	d.now = d.now.Add(pause)
	if rapid.Bool().Draw(d.T, "is claimed at once") { // while the read model is behind
		d.claim()
	}
}

// end lets all be sent, and arrive.
func (d *driven) end() {
	for _, id := range []uuid.UUID{alpha, beta} {
		if d.off[id] {
			d.turn(id)
		}
	}
	for range 100 {
		for _, f := range d.flying() {
			d.answered(f, true)
		}
		d.now = d.now.Add(time.Hour)
		d.takeOver()
		d.claim()
		if len(d.inFlight) == 0 && d.count("SELECT count(*) FROM deliveries.due") == 0 {
			break
		}
	}
	for _, of := range d.made {
		row := d.row(of.n, of.to)
		switch {
		case row == nil || row.DueAt != nil || row.Status != string(of.state.Status):
			d.Errorf("delivery %d is lost: shown as %+v, recorded as %+v", of.n, row, of.state)
		case of.arrived != (row.Status == "succeeded") || !of.arrived && row.Status != "failed" && row.Status != "superseded":
			d.Errorf("delivery %d is %s, arrived %v", of.n, row.Status, of.arrived)
		case of.requested < of.promised:
			d.Errorf("delivery %d was requested %d times, promised %d", of.n, of.requested, of.promised)
		}
	}
}
