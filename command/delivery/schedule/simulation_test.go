package schedule_test

import (
	"container/heap"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
	"carillon/eventstore/storetest/must"
)

var settings = schedule.Settings{
	InFlight:  2048,
	PerLane:   64,
	Opening:   8,
	Queued:    16384,
	Bytes:     32 << 20,
	SlowAfter: 5 * time.Second,
}

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Processor time that a simulated request takes, of a machine with two processors: as it was measured.
const (
	processors  = 2
	requestCost = 300 * time.Microsecond
	openingCost = 1500 * time.Microsecond
)

// simulation runs a scheduler beside simulated destinations, under a separate clock.
type simulation struct {
	*schedule.Scheduler

	t        *testing.T
	settings schedule.Settings
	now      time.Time
	events   events
	busy     [processors]time.Time // until when each processor has work
	ids      uint64
	open     map[uuid.UUID]int // connections that are idle, by destination
	receive  map[uuid.UUID]receiver
	took     map[string][]time.Duration         // from the offer to the receiver, by label
	due      map[uuid.UUID][]*schedule.Delivery // rows of the read model, by destination
	order    []uuid.UUID                        // those destinations
	claims   bool                               // a claim is about to be made
	running  map[uuid.UUID]uuid.UUID            // to organizations
	sent     int
	wake     time.Time
}

// receiver answers the request that comes at a time.
type receiver func(now time.Time) answer

type answer struct {
	takes  time.Duration
	fails  bool
	closes bool
}

func answers(takes time.Duration) receiver {
	return func(time.Time) answer { return answer{takes: takes} }
}

// hangs until the request is given up.
func hangs(time.Time) answer { return answer{takes: 30 * time.Second, fails: true, closes: true} }

// payload names the measurement that a delivery belongs to.
type payload struct {
	label   string
	offered time.Time
}

func newSimulation(t *testing.T, s schedule.Settings) *simulation {
	t.Helper()
	return &simulation{
		Scheduler: schedule.New(s),
		t:         t,
		settings:  s,
		now:       epoch,
		open:      map[uuid.UUID]int{},
		receive:   map[uuid.UUID]receiver{},
		took:      map[string][]time.Duration{},
		running:   map[uuid.UUID]uuid.UUID{},
		due:       map[uuid.UUID][]*schedule.Delivery{},
	}
}

// id names an organization, or the n-th destination of one.
func id(organization, n int) (id uuid.UUID) {
	binary.BigEndian.PutUint32(id[:], uint32(organization+1)) //nolint:gosec // small
	binary.BigEndian.PutUint32(id[4:], uint32(n+1))           //nolint:gosec // small
	return id
}

// delivery makes one to the n-th destination of an organization.
func (s *simulation) delivery(organization, n int, label string) *schedule.Delivery {
	s.ids++
	d := &schedule.Delivery{
		Destination:  id(organization, n),
		Organization: id(organization, -1),
		Body:         payload{label, s.now},
	}
	binary.BigEndian.PutUint64(d.ID[8:], s.ids)
	return d
}

// offer offers a fresh delivery, which goes to the read model if it is not taken.
func (s *simulation) offer(d *schedule.Delivery) {
	if !s.Admit(d, s.now) || !s.Offer(d, s.now) {
		s.store(d)
	}
}

// store puts deliveries into the read model.
func (s *simulation) store(deliveries ...*schedule.Delivery) {
	for _, d := range deliveries {
		if s.due[d.Destination] == nil {
			s.order = append(s.order, d.Destination)
		}
		s.due[d.Destination] = append(s.due[d.Destination], d)
	}
}

// at lets something happen at a time after the start.
func (s *simulation) at(after time.Duration, happens func()) {
	heap.Push(&s.events, event{epoch.Add(after), len(s.events), happens})
}

func (s *simulation) after(wait time.Duration, happens func()) {
	s.at(s.now.Add(wait).Sub(epoch), happens)
}

// every lets something happen at a pace, from one time to another.
func (s *simulation) every(pace, from, to time.Duration, happens func()) {
	for at := from; at < to; at += pace {
		s.at(at, happens)
	}
}

// run lets all happen until a time after the start.
func (s *simulation) run(until time.Duration) {
	for at := s.now.Sub(epoch); at < until; at += 500 * time.Millisecond {
		s.at(at, s.claim)
	}
	for len(s.events) > 0 && !s.events[0].at.After(epoch.Add(until)) {
		e := heap.Pop(&s.events).(event) //nolint:forcetypeassert // there are no others
		s.now = e.at
		e.happens()
		s.pump()
	}
}

func (s *simulation) pump() {
	for d := s.Next(s.now); d != nil; d = s.Next(s.now) {
		s.send(d)
	}
	returned, next := s.Tick(s.now)
	s.store(returned...)
	if !next.IsZero() && (next.Before(s.wake) || !s.wake.After(s.now)) {
		s.wake = next
		s.after(max(0, next.Sub(s.now)), func() {})
	}
	if _, inFlight := s.Load(); inFlight > s.settings.InFlight || inFlight != len(s.running) {
		s.t.Fatalf("%d in flight, %d are counted", len(s.running), inFlight)
	}
}

// compute takes the processor that is free first, and returns when it is done.
func (s *simulation) compute(cost time.Duration) time.Duration {
	first := &s.busy[0]
	for i := range s.busy {
		if s.busy[i].Before(*first) {
			first = &s.busy[i]
		}
	}
	if first.Before(s.now) {
		*first = s.now
	}
	*first = first.Add(cost)
	return first.Sub(s.now)
}

func (s *simulation) send(d *schedule.Delivery) {
	cost := requestCost
	if s.open[d.Destination] > 0 {
		s.open[d.Destination]--
	} else {
		cost += openingCost
	}
	_, twice := s.running[d.ID]
	must.True(s.t, !twice, "%s is sent twice at one time", d.ID)
	s.running[d.ID] = d.Organization
	s.sent++
	arrives, p := s.compute(cost), d.Body.(payload) //nolint:forcetypeassert // there are no others
	s.took[p.label] = append(s.took[p.label], s.now.Add(arrives).Sub(p.offered))
	answer := s.receive[d.Destination](s.now)
	took := arrives + answer.takes
	s.after(took, func() {
		if !answer.closes {
			s.open[d.Destination]++
		}
		delete(s.running, d.ID)
		if s.Done(d.ID, schedule.Outcome{Took: took, Failed: answer.fails, Kept: !answer.closes}, s.now) {
			s.wakeUp()
		}
	})
}

// wakeUp lets a claim be made soon, as it takes a while.
func (s *simulation) wakeUp() {
	if !s.claims {
		s.claims = true
		s.after(5*time.Millisecond, s.claim)
	}
}

// claim takes from the read model as the queue does: of all destinations that have something due by turns.
func (s *simulation) claim() {
	s.claims = false
	room, _ := s.Room(s.now)
	none, slow := map[uuid.UUID]bool{}, map[uuid.UUID]bool{}
	for _, id := range slices.Concat(room.Full, room.Over) {
		none[id] = true
	}
	for _, id := range room.Slow {
		slow[id] = true
	}
	var claimed []*schedule.Delivery
	for range len(s.order) {
		if len(claimed) >= room.Limit {
			break
		}
		to := s.order[0]
		waiting := s.due[to]
		n := min(room.PerDestination, room.Limit-len(claimed), len(waiting))
		switch {
		case none[to] || none[waiting[0].Organization]:
			n = 0
		case slow[to]:
			n = min(n, room.PerSlow)
		}
		for _, d := range waiting[:n] {
			d.Claimed = true
			claimed = append(claimed, d)
		}
		s.order = s.order[1:]
		if s.due[to] = waiting[n:]; len(waiting) > n {
			s.order = append(s.order, to)
		} else {
			delete(s.due, to)
		}
	}
	s.Claimed(room, claimed, time.Second, s.now)
	for _, d := range claimed {
		if !s.Offer(d, s.now) {
			s.store(d)
		}
	}
	if len(claimed) >= maxPerClaim {
		s.wakeUp()
	}
}

// maxPerClaim is how much a claim takes of one destination at most: more may wait after a full claim.
const maxPerClaim = 128

// percentile returns how long n of a hundred took at most.
func (s *simulation) percentile(label string, n int) time.Duration {
	took := slices.Sorted(slices.Values(s.took[label]))
	must.True(s.t, len(took) != 0, "nothing came of %q", label)
	return took[len(took)*n/100]
}

type event struct {
	at      time.Time
	number  int
	happens func()
}

// events are those that are to come, the next one first.
type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at.Before(e[j].at) || e[i].at.Equal(e[j].at) && e[i].number < e[j].number
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) } //nolint:forcetypeassert // of container/heap
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
