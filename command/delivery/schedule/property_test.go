package schedule_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/command/delivery/schedule"
)

// Whatever comes in whatever order: no bound is exceeded, nothing is lost or sent twice, each kind stays in its
// order, and nothing starves.
func TestSchedulerKeepsItsPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &model{
			T:       t,
			now:     epoch,
			waiting: map[uuid.UUID]*schedule.Delivery{},
			running: map[uuid.UUID]*schedule.Delivery{},
			kept:    map[uuid.UUID]*schedule.Delivery{},
			to:      map[uuid.UUID]int{},
		}
		m.Scheduler = schedule.New(tight)
		t.Repeat(map[string]func(*rapid.T){
			"offer": m.offer,
			"hand":  m.hand,
			"next":  func(*rapid.T) { m.next() },
			"done":  m.done,
			"drop":  m.drop,
			"rest":  m.letRest,
			"claim": func(*rapid.T) {
				room, _ := m.Room(m.now)
				m.Claimed(room, nil, 0, m.now)
			},
			"advance": m.advance,
			"":        m.check,
		})
		m.drain()
	})
}

var tight = schedule.Settings{
	InFlight:  64,
	PerLane:   6,
	Opening:   3,
	Queued:    80,
	Bytes:     3 * 500_000,
	SlowAfter: time.Second,
}

// model knows what a scheduler should have.
type model struct {
	*schedule.Scheduler
	*rapid.T

	now              time.Time
	number           uint64
	waiting, running map[uuid.UUID]*schedule.Delivery
	kept             map[uuid.UUID]*schedule.Delivery // room is
	to               map[uuid.UUID]int                // in flight
	order            []uuid.UUID                      // of all offered deliveries
}

func (m *model) offer(t *rapid.T) {
	organization, n := rapid.IntRange(1, 3).Draw(t, "organization"), rapid.IntRange(0, 3).Draw(t, "destination")
	d := &schedule.Delivery{
		Destination:  id(organization, n),
		Organization: id(organization, -1),
		Size:         rapid.SampledFrom([]int{0, 100, 5000, 300_000, 500_000}).Draw(t, "size"),
		Claimed:      rapid.Bool().Draw(t, "claimed"),
	}
	d.Event = uuid.UUID{byte(d.Size >> 8), byte(rapid.IntRange(0, 3).Draw(t, "event"))}
	if len(m.waiting) > 0 && rapid.IntRange(0, 9).Draw(t, "again") == 0 {
		for _, waits := range m.waiting {
			*d = *waits
			break
		}
	} else {
		m.number++
		d.ID = uuid.UUID{byte(m.number >> 8), byte(m.number)}
	}
	if _, waits := m.waiting[d.ID]; !d.Claimed {
		if !m.Admit(d, m.now) {
			return
		}
		if !waits && rapid.Bool().Draw(t, "keep") {
			m.kept[d.ID] = d
			return
		}
	}
	m.offerNow(d)
}

// hand offers or withdraws a delivery that room is kept for.
func (m *model) hand(t *rapid.T) {
	for id, d := range m.kept {
		delete(m.kept, id)
		if rapid.Bool().Draw(t, "recorded") {
			m.offerNow(d)
		} else {
			m.Withdraw(id)
		}
		return
	}
}

func (m *model) offerNow(d *schedule.Delivery) {
	if m.Offer(d, m.now) {
		if _, known := m.waiting[d.ID]; !known {
			m.order = append(m.order, d.ID)
		}
		m.waiting[d.ID] = d
	}
}

func (m *model) next() bool {
	d := m.Next(m.now)
	if d == nil {
		return false
	}
	if _, known := m.waiting[d.ID]; !known {
		m.Fatalf("%s started and was not waiting", d.ID)
	}
	for _, earlier := range m.order {
		if earlier == d.ID {
			break
		}
		if e, waits := m.waiting[earlier]; waits && e.Destination == d.Destination && e.Claimed == d.Claimed {
			m.Fatalf("%s started before %s", d.ID, earlier)
		}
	}
	delete(m.waiting, d.ID)
	m.running[d.ID] = d
	m.to[d.Destination]++
	if n := m.to[d.Destination]; len(m.running) > tight.InFlight || n > tight.PerLane {
		m.Fatalf("%d in flight, %d of them to one destination", len(m.running), n)
	}
	return true
}

func (m *model) done(t *rapid.T) {
	for _, d := range m.running {
		m.end(d, schedule.Outcome{
			Took:   time.Duration(rapid.IntRange(0, 2).Draw(t, "seconds")) * time.Second,
			Failed: rapid.Bool().Draw(t, "failed"),
			Kept:   rapid.Bool().Draw(t, "kept"),
		})
		return
	}
}

func (m *model) end(d *schedule.Delivery, o schedule.Outcome) {
	delete(m.running, d.ID)
	m.to[d.Destination]--
	m.Done(d.ID, o, m.now)
}

func (m *model) drop(t *rapid.T) {
	for _, d := range m.Drop(id(rapid.IntRange(1, 3).Draw(t, "of"), rapid.IntRange(0, 3).Draw(t, "lane")), m.now) {
		m.returns(d)
	}
}

func (m *model) returns(d *schedule.Delivery) {
	if _, known := m.waiting[d.ID]; !known {
		m.Fatalf("%s is returned and was not waiting", d.ID)
	}
	delete(m.waiting, d.ID)
}

func (m *model) letRest(t *rapid.T) {
	of := id(rapid.IntRange(1, 3).Draw(t, "of"), rapid.IntRange(0, 3).Draw(t, "lane"))
	m.Rest(of, m.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "rest"))*time.Second), m.now)
}

func (m *model) advance(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "passes")) * time.Millisecond)
	m.tick()
}

func (m *model) tick() (next time.Time) {
	returned, next := m.Tick(m.now)
	for _, d := range returned {
		m.returns(d)
	}
	return next
}

func (m *model) check(*rapid.T) {
	m.tick()
	waiting, inFlight := m.Load()
	if waiting != len(m.waiting) || inFlight != len(m.running) {
		m.Fatalf("%d wait and %d are in flight, want %d and %d", waiting, inFlight, len(m.waiting), len(m.running))
	}
	bodies, bytes := map[uuid.UUID]bool{}, 0
	for _, here := range []map[uuid.UUID]*schedule.Delivery{m.waiting, m.running, m.kept} {
		for _, d := range here {
			if d.Size > schedule.SmallBody && !bodies[d.Event] {
				bodies[d.Event] = true
				bytes += d.Size
			}
		}
	}
	if got := m.Bytes(); got != bytes {
		m.Fatalf("%d bytes of bodies are counted, want %d", got, bytes)
	}
}

// drain ends all: whatever waits starts sooner or later.
func (m *model) drain() {
	for id := range m.kept {
		delete(m.kept, id)
		m.Withdraw(id)
	}
	for steps := 0; len(m.waiting)+len(m.running) > 0; steps++ {
		if steps > 10_000 {
			m.Fatalf("%d wait and nothing starts", len(m.waiting))
		}
		for m.next() { //nolint:revive // all that may start
		}
		for _, d := range m.running {
			m.end(d, schedule.Outcome{Took: time.Millisecond, Kept: true})
		}
		if next := m.tick(); next.After(m.now) {
			m.now = next
		}
	}
	m.now = m.now.Add(time.Hour)
	m.check(nil)
	if n := m.Left(); n != 0 {
		m.Fatalf("%d things are remembered", n)
	}
}
