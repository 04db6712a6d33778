package adapters

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
	"carillon/command/delivery/sending"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// announced makes deliverers of which some have announced their room for fresh deliveries and for claims.
func announced(rooms map[int32][2]int) *Deliverers {
	d := &Deliverers{LeasedUntil: func() time.Time { return time.Now().Add(time.Minute) }}
	for id, room := range rooms {
		d.hear(announcement(id, sending.Capacity{Fresh: room[0], Claims: room[1]}))
	}
	return d
}

func small(destination uuid.UUID) *schedule.Delivery {
	return &schedule.Delivery{Destination: destination}
}

// Deliveries go to deliverers that have announced room, each destination to the same one, up to that room.
func TestDeliverers_handOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // by its clock no deliverer becomes silent
		d := announced(map[int32][2]int{1: {1000, 1}, 2: {1000, 1}, 3: {0, 1}})
		by := map[int32]int{}
		for range 100 {
			destination := uuid.New()
			first, fresh := d.Lease(small(destination)), small(destination)
			if again := d.Lease(fresh); again == 0 || again != first || !fresh.LeasedUntil.After(time.Now()) {
				t.Fatalf("to %d, then to %d until %s", first, again, fresh.LeasedUntil)
			}
			by[first]++
		}
		assert.True(t, by[1] >= 20 && by[2] >= 20 && by[3] <= 0,
			"%v of 100 destinations, want about half each for 1 and 2", by)
		n := 0
		for ok := true; ok && n < 1000; n++ {
			ok = d.Lease(&schedule.Delivery{Destination: uuid.New(), Size: 100 << 10}) != 0
		}
		most := 2 * 1000 / 51
		assert.True(t, n <= most+1, "%d bodies of 100 KiB were handed over, want %d at most", n-1, most)
	})
}

// Nothing is handed over to a deliverer that is silent, that has said farewell, or for a destination that one had no
// room for lately.
func TestDeliverers_noHandOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		destination := uuid.New()
		takes := func(d *Deliverers) bool {
			return d.Lease(small(destination)) != 0
		}
		d := announced(map[int32][2]int{1: {1000, 1}})
		assert.True(t, takes(d), "nothing is handed over to one that has room")
		time.Sleep(silentFor + 1)
		assert.True(t, !takes(d), "handed over to one that says nothing")
		d = announced(map[int32][2]int{1: {1000, 1}})
		d.hear(announcement(1, sending.Capacity{}))
		assert.True(t, !takes(d), "handed over after a farewell")
		d.hear(announcement(1, sending.Capacity{Fresh: 10, Refused: []uuid.UUID{uuid.New(), destination}}))
		assert.True(t, !takes(d), "handed over for a destination that was refused")
		time.Sleep(refusedFor + 1)
		d.hear(announcement(1, sending.Capacity{Fresh: 10}))
		d.hear("of another version")
		d.hear("")
		assert.True(t, takes(d), "a refusal is permanent")
	})
}

// A change is awaited until each deliverer that is alive has applied it. One that keeps nothing, is silent, or is of
// a version that does not say, holds up no answer.
func TestDeliverers_applied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		at := func(n uint64) eventstore.Position { return eventstore.Position{Commit: n, Prepare: n} }
		d := announced(map[int32][2]int{1: {}})
		d.hear("2 1000 1")
		applied := func(to eventstore.Position) bool {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return d.Applied(ctx, to)
		}
		assert.True(t, applied(at(5)), "deliverers that keep nothing are awaited")
		d.hear(announcement(3, sending.Capacity{Applied: at(4)}))
		assert.True(t, !applied(at(5)) && applied(at(4)),
			"a change after what is applied is not awaited, or one before it is")
		go d.hear(announcement(3, sending.Capacity{Applied: at(6), Refused: []uuid.UUID{uuid.New()}}))
		assert.True(t, applied(at(5)) && len(d.refused) == 1, "it has applied the change, and is awaited")
		if time.Sleep(silentFor + 1); !applied(at(7)) {
			t.Error("a silent one is awaited")
		}
	})
}

// Of ten deliverers with room one has the turn, in all processes the same, and each has it now and then.
func TestDeliverers_turns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // by its clock no deliverer becomes silent
		rooms := map[int32][2]int{99: {10, 0}}
		for id := range int32(10) {
			rooms[id+1] = [2]int{0, 10}
		}
		here, there := announced(rooms), announced(rooms)
		had := map[int32]bool{}
		begins := time.Now().Truncate(time.Second)
		for range 200 {
			var turn []int32
			for id := range rooms {
				must.True(t, here.Searches(id, begins) == there.Searches(id, begins),
					"processes disagree on the turn at %s", begins)
				if here.Searches(id, begins) {
					turn = append(turn, id)
				}
			}
			must.True(t, len(turn) == 1 && !had[99], "%v have the turn, want one with room", turn)
			had[turn[0]] = true
			begins = begins.Add(time.Second)
		}
		assert.Equal(t, len(had), 10, "of ten had a turn")
		assert.True(t, announced(nil).Searches(7, begins), "it has no turn, although nothing was heard yet")
	})
}

// A worker is dead once it was seen without its lock for 3 s, by one that has had its own for as long: all lose theirs
// when Postgres starts again, and need a moment to take them again.
func TestWorkerIsDeadAfterAbsence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorker(nil, time.Now, nil)
		w.won = time.Now()
		holders := []int32{1, 2, w.id}
		for _, step := range []struct {
			after time.Duration
			live  []int32
			dead  []int32
		}{
			{0, []int32{1, 2}, nil},
			{time.Minute, []int32{2}, nil}, // seen without its lock for the first time
			{absence - time.Millisecond, []int32{2}, nil},
			{time.Millisecond, []int32{2}, []int32{1}},
			{time.Millisecond, []int32{1}, nil},           // 1 has it again, 2 has lost it
			{absence - time.Millisecond, []int32{1}, nil}, // for less than 3 s
			{time.Millisecond, nil, []int32{2}},           // 1 has lost it again, just now
			{absence, nil, []int32{1, 2}},
		} {
			time.Sleep(step.after)
			assert.Slices(t, w.dead(holders, step.live), step.dead, "after %s, with %v alive … are dead", step.after, step.live)
		}
		w.won = time.Now() // it has lost its own meanwhile, as all may have
		time.Sleep(absence - time.Millisecond)
		if dead := w.dead(holders, nil); dead != nil {
			t.Errorf("right after its own lock was won %v are dead", dead)
		}
	})
}
