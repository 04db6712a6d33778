package delivery

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
)

// numbered is a delivery to the n-th destination of an organization.
func numbered(organization byte, n int) Job {
	j := job(organization, 0)
	j.Target.ID = uuid.UUID{organization, byte(n), byte(n >> 8)}
	return j
}

// answers ends requests that took some time.
func answers(ls *lanes, started []Job, took time.Duration) {
	for _, s := range started {
		ls.done(s, took)
	}
}

// However many destinations of an organization hang, and for however long, there is room at once for what another one
// sends, and for a destination of the same organization that answers.
func TestWhatHangsLeavesRoom(t *testing.T) {
	t.Parallel()
	for _, hanging := range []int{40, 600, 5000} {
		synctest.Test(t, func(t *testing.T) {
			ls := newLanes(DefaultLimits)
			refill := func() {
				for i := range hanging {
					for range 3 {
						ls.add(numbered(1, i), false)
					}
				}
			}
			for round := range 5 { // the first time nobody knows that they hang
				refill()
				hang := take(ls)
				if len(hang) < 3*40 {
					t.Errorf("round %d: %d of %d that hang are under way", round, len(hang), hanging)
				}
				for _, organization := range []byte{2, 1} {
					if organization == 1 && hanging == 5000 {
						break // most of them have not had their turn yet, so nobody can know that they hang
					}
					if organization == 1 {
						time.Sleep(DefaultLimits.SlowAfter + time.Second) //nolint:forbidigo // the clock of the test
					}
					for range 4 {
						ls.add(numbered(organization, 1<<15), false)
					}
					started := take(ls)
					served := 0
					for _, s := range started {
						if s.Target.ID == numbered(organization, 1<<15).Target.ID {
							served++
						}
					}
					if served < 3 {
						t.Errorf("round %d: beside %d that hang, %d of 4 of organization %d were started", round, hanging, served, organization)
					}
					for _, s := range started {
						if s.Target.ID == numbered(organization, 1<<15).Target.ID {
							ls.done(s, time.Millisecond)
						} else {
							hang = append(hang, s)
						}
					}
				}
				time.Sleep(29 * time.Second) //nolint:forbidigo // the clock of the test
				answers(ls, hang, 29*time.Second)
			}
		})
	}
}

// Ten that want all they can get have equal parts; when nine stop, the tenth gets what they had.
func TestWhatIsIdleIsLent(t *testing.T) {
	t.Parallel()
	limits := DefaultLimits
	limits.PerNew = limits.PerDestination
	ls := newLanes(limits)
	ask := func(organization byte) {
		for i := range 40 {
			for range 64 {
				ls.add(numbered(organization, i), false)
			}
		}
	}
	for organization := range byte(10) {
		ask(organization)
	}
	by := map[byte][]Job{}
	for _, s := range take(ls) {
		by[s.Target.Organization[0]] = append(by[s.Target.Organization[0]], s)
	}
	for organization, started := range by {
		if n := len(started); n < 180 || n > 200 {
			t.Errorf("organization %d has %d at one time, want 2/21 of %d", organization, n, limits.InFlight)
		}
	}
	for organization := range byte(9) {
		for i := range 40 {
			ls.change(numbered(organization, i).Target.ID, nil)
		}
		answers(ls, by[organization], time.Millisecond)
	}
	if n := len(by[9]) + len(take(ls)); n < limits.InFlight*6/10 {
		t.Errorf("alone it has %d at one time, want two thirds of %d", n, limits.InFlight)
	}
}

func TestALaneStartsSlowly(t *testing.T) {
	t.Parallel()
	ls := newLanes(DefaultLimits)
	for range 500 {
		ls.add(job(1, 1), false)
	}
	for _, want := range []int{8, 16, 32, 64, 64} {
		started := take(ls)
		if len(started) != want {
			t.Errorf("%d at one time, want %d", len(started), want)
		}
		answers(ls, started, 10*time.Millisecond)
	}
}

// A lane is slow from when a request is late on, and what was given up before it was asked does not make it fast again.
func TestALaneIsSlowAsSoonAsItsOldestRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls := newLanes(DefaultLimits)
		for range 3 {
			ls.add(job(1, 1), false)
		}
		started := take(ls)
		if !ls.reserve(started[0].Target, nil) {
			t.Error("no room, although nothing is late")
		}
		ls.cancel(started[0].Target, nil)
		time.Sleep(DefaultLimits.SlowAfter + time.Second) //nolint:forbidigo // the clock of the test
		if ls.reserve(started[0].Target, nil) {
			t.Error("room for a fresh one, although all three are late")
		}
		for range 5 {
			ls.add(job(1, 1), false)
		}
		if more := take(ls); len(more) != DefaultLimits.PerSlow-3 {
			t.Errorf("%d more were started, want %d at one time", len(more), DefaultLimits.PerSlow)
		}
		ls.done(started[0], 7*time.Second)
		ls.done(started[1], 0)
		ls.done(started[2], 0)
		if ls.reserve(started[0].Target, nil) {
			t.Error("what was abandoned made it fast")
		}
	})
}

// Claims are not held back by what waits, and what was claimed for one organization leaves room for others.
func TestClaimsHaveABudgetOfTheirOwn(t *testing.T) {
	t.Parallel()
	ls := newLanes(DefaultLimits)
	for i := range 600 {
		for range 200 {
			if j := numbered(1, i); ls.reserve(j.Target, nil) {
				ls.add(j, true)
			}
		}
	}
	if queued, _ := ls.size(); queued < DefaultLimits.Fresh/2 || queued > DefaultLimits.Fresh {
		t.Errorf("%d fresh ones wait, of %d", queued, DefaultLimits.Fresh)
	}
	if a := ls.ask(); a.Limit != maxClaim || len(a.Over) != 0 {
		t.Errorf("a claim may take %d, and nothing for %v", a.Limit, a.Over)
	}
	for claims := 0; ; claims++ {
		a := ls.ask()
		if len(a.Over) > 0 {
			if a.Limit < maxClaim || !slices.Equal(a.Over, []uuid.UUID{{2}}) {
				t.Errorf("a claim may take %d, and nothing for %v", a.Limit, a.Over)
			}
			break
		}
		if claims > 100 || a.Limit == 0 {
			t.Fatalf("after %d claims the next may take %d", claims, a.Limit)
		}
		for i := range a.Limit {
			ls.add(numbered(2, 1000+i), false)
		}
	}
	wants := false
	for !wants {
		started := take(ls)
		if len(started) == 0 {
			t.Fatal("nothing more is claimed for it, and nothing is under way")
		}
		for _, s := range started {
			wants = ls.done(s, time.Millisecond) || wants
		}
	}
	if a := ls.ask(); len(a.Over) != 0 {
		t.Errorf("nothing for %v, although it has room again", a.Over)
	}
}

// When more was published than had room, what was left to the read model is older than what is published now: fresh ones
// only keep the lane from running dry until nothing more is claimed for it.
func TestAfterASpillTheOlderGoFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls := newLanes(DefaultLimits)
		fresh := func() (taken int) {
			for range 4 * DefaultLimits.QueuedAtFirst {
				if j := job(1, 1); ls.reserve(j.Target, nil) {
					ls.add(j, true)
					taken++
				}
			}
			return taken
		}
		if n := fresh(); n != DefaultLimits.QueuedAtFirst {
			t.Errorf("%d had room, want %d", n, DefaultLimits.QueuedAtFirst)
		}
		// send lets all that waits be sent, in a millisecond each.
		send := func() {
			for started := take(ls); len(started) > 0; started = take(ls) {
				answers(ls, started, 100*time.Millisecond)
			}
		}
		send()
		claim := func(n int) {
			a, claimed := ls.ask(), []Job(nil)
			for range n {
				claimed = append(claimed, job(1, 1))
			}
			ls.answer(a, claimed)
			for _, j := range claimed {
				ls.add(j, false)
			}
		}
		most := DefaultLimits.Queued
		if n := fresh(); n != most/4 {
			t.Errorf("%d fresh ones had room while older ones wait, want %d", n, most/4)
		}
		send()
		claim(maxPerDestination) // some came
		if n := fresh(); n > most/4 {
			t.Errorf("%d fresh ones had room while older ones are claimed", n)
		}
		send()
		claim(0) // what spilled just now is on its way into the read model
		if n := fresh(); n > most/4 {
			t.Errorf("%d fresh ones had room while older ones are on their way", n)
		}
		time.Sleep(2 * expectTime) //nolint:forbidigo // the clock of the test
		send()
		ls.add(job(1, 1), false) // so that the lane is not idle, and its pace forgotten
		take(ls)
		claim(0)
		if n := fresh(); n <= most/4 {
			t.Errorf("%d fresh ones had room, although nothing older waits", n)
		}
	})
}

// No more wait in memory than are sent in some seconds: a lease must not end there.
func TestASlowerLaneHasAShorterQueue(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]int{
		10 * time.Millisecond: DefaultLimits.Queued, 2 * time.Second: 4 * DefaultLimits.PerDestination, 4 * time.Second: 2 * DefaultLimits.PerDestination,
	} {
		ls := newLanes(DefaultLimits)
		for range 500 {
			ls.add(job(1, 1), false)
		}
		started := take(ls)
		for queued, _ := ls.size(); queued > 0; queued, _ = ls.size() {
			answers(ls, started, took)
			started = take(ls)
		}
		waits := 0
		for ls.reserve(job(1, 1).Target, nil) {
			waits++
		}
		if waits != want {
			t.Errorf("where an answer takes %s, %d wait, want %d", took, waits, want)
		}
	}
}
