package delivery

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/destination"
)

var tight = Limits{
	InFlight: 8, PerDestination: 3, PerNew: 3, PerSlow: 1, SlowAfter: time.Second,
	Fresh: 100, Claimed: 100, Queued: 5, QueuedFor: time.Minute, QueuedAtFirst: 5,
}

func job(organization, to byte) Job {
	return Job{ID: uuid.New(), Target: &destination.Target{ID: uuid.UUID{to}, Organization: uuid.UUID{organization}}}
}

func nothing() {}

// take starts all that may start.
func take(ls *lanes) (started []Job) {
	for {
		next, ok := ls.next(nothing, calm)
		if !ok {
			return started
		}
		started = append(started, next)
	}
}

func TestOneDestinationGetsItsShareOnly(t *testing.T) {
	t.Parallel()
	ls := newLanes(tight)
	for range tight.Queued + 3 {
		ls.add(job(1, 1), false)
	}
	if got := len(take(ls)); got != tight.PerDestination {
		t.Errorf("%d started, want %d", got, tight.PerDestination)
	}
	ls.add(job(1, 2), false)
	if got := take(ls); len(got) != 1 || got[0].Target.ID != (uuid.UUID{2}) {
		t.Errorf("another destination had to wait: %v", got)
	}
}

func TestASlowDestinationGetsLess(t *testing.T) {
	t.Parallel()
	ls := newLanes(tight)
	for range 10 {
		ls.add(job(1, 1), false)
	}
	for _, started := range take(ls) {
		ls.done(started, 2*time.Second)
	}
	if got := len(take(ls)); got != tight.PerSlow {
		t.Errorf("%d started, want %d", got, tight.PerSlow)
	}
	if ls.reserve(job(1, 1).Target, nil) {
		t.Error("a slow destination got room for fresh deliveries")
	}
}

// More may wait in the read model for a lane that a claim has passed by: it asks once, as soon as it has room.
func TestALaneThatAClaimFoundFullAsksForAnother(t *testing.T) {
	t.Parallel()
	ls := newLanes(tight)
	for range tight.Queued {
		ls.add(job(1, 1), false)
	}
	var wants []bool
	finish := func() {
		started := take(ls)
		wants = append(wants, ls.done(started[0], 0))
		ls.done(started[1], 0)
		ls.done(started[2], 0)
	}
	finish() // two wait: room, but no claim has passed by yet
	for range 3 {
		ls.add(job(1, 1), false)
	}
	if a := ls.ask(); !slices.Equal(a.Full, []uuid.UUID{{1}}) {
		t.Errorf("full: %v, want the lane with five of five", a.Full)
	}
	finish()
	if want := []bool{false, true}; !slices.Equal(wants, want) {
		t.Errorf("asks for a claim: %v, want %v", wants, want)
	}
	if a := ls.ask(); len(a.Full) > 0 {
		t.Errorf("full: %v, want none", a.Full)
	}
}

func TestOrganizationsTakeTurns(t *testing.T) {
	t.Parallel()
	limits := tight
	limits.InFlight, limits.PerDestination, limits.PerNew = 15, 9, 9
	ls := newLanes(limits)
	for destination := range byte(3) { // three busy destinations of one organization …
		for range 9 {
			ls.add(job(1, 10+destination), false)
		}
	}
	for range 9 { // … and one of another
		ls.add(job(2, 20), false)
	}
	first, second := 0, 0
	for _, started := range take(ls) {
		if started.Target.Organization == (uuid.UUID{2}) {
			second++
		} else {
			first++
		}
	}
	if first < 5 || second < first-1 {
		t.Errorf("%d and %d, want about as many of each organization", first, second)
	}
}

// A delivery is claimed again while it waits, as after a crash of Postgres that forgot the claim.
func TestADeliveryThatIsClaimedTwiceRunsOnce(t *testing.T) {
	t.Parallel()
	ls := newLanes(tight)
	first := job(1, 1)
	second := first
	second.Attempts = 1 // the newer claim knows better
	if !ls.add(first, false) || !ls.add(second, false) {
		t.Fatal("no room")
	}
	started := take(ls)
	if len(started) != 1 || started[0].Attempts != 1 {
		t.Fatalf("%d started, want one, as the newest claim has it", len(started))
	}
	ls.add(first, false) // and again while it runs
	for _, s := range started {
		ls.done(s, 0)
	}
	if again := take(ls); len(again) != 0 {
		t.Errorf("it ran twice")
	}
	if queued, running := ls.size(); queued != 0 || running != 0 || len(ls.held) != 0 {
		t.Errorf("%d queued, %d running in the end", queued, running)
	}
}

func TestWhatWaitsFollowsItsDestination(t *testing.T) {
	t.Parallel()
	ls := newLanes(tight)
	enabled := &destination.Target{ID: uuid.UUID{1}, Organization: uuid.UUID{1}, Enabled: true, URL: "https://example.org/old"}
	replay := Job{ID: uuid.New(), Target: enabled, Replay: uuid.New()}
	ls.add(Job{ID: uuid.New(), Target: enabled}, false)
	ls.add(replay, false)
	moved := *enabled
	moved.URL = "https://example.org/new"
	if dropped := ls.change(uuid.UUID{1}, func(*destination.Target) *destination.Target { return &moved }); len(dropped) != 0 {
		t.Errorf("%d dropped by a change of the address", len(dropped))
	}
	disabled := moved
	disabled.Enabled = false
	if dropped := ls.change(uuid.UUID{1}, func(*destination.Target) *destination.Target { return &disabled }); len(dropped) != 1 || dropped[0].Replay != uuid.Nil {
		t.Errorf("disabled: dropped %+v, want the one that is no replay", dropped)
	}
	started := take(ls)
	if len(started) != 1 || started[0].ID != replay.ID || started[0].Target.URL != moved.URL {
		t.Errorf("started %+v, want the replay, to the new address", started)
	}
}

func TestADeletedDestinationDropsWhatWaitsAndCancelsWhatRuns(t *testing.T) {
	t.Parallel()
	ls := newLanes(tight)
	for range 5 {
		ls.add(job(1, 1), false)
	}
	cancelled := 0
	for range tight.PerDestination {
		ls.next(func() { cancelled++ }, calm)
	}
	if got := len(ls.change(uuid.UUID{1}, nil)); got != 2 || cancelled != tight.PerDestination {
		t.Errorf("%d dropped and %d cancelled, want 2 and %d", got, cancelled, tight.PerDestination)
	}
	if got := take(ls); len(got) != 0 {
		t.Errorf("%d started after the drop", len(got))
	}
}

// Whatever comes in whatever order: no bound is passed, nothing is lost, nothing runs twice, nothing starves.
func TestLanesKeepTheirPromises(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		ls := newLanes(tight)
		ls.bodies.size = 3 * 500_000
		bodies := []*Body{nil, sized(100), sized(5000), sized(300_000), sized(500_000), sized(500_000), sized(500_000)}
		waiting, running := map[uuid.UUID]Job{}, map[uuid.UUID]Job{}
		perDestination := map[uuid.UUID]int{}
		finish := func(j Job, took time.Duration) {
			delete(running, j.ID)
			perDestination[j.Target.ID]--
			ls.done(j, took)
		}
		start := func() bool {
			j, ok := ls.next(nothing, calm)
			if !ok {
				return false
			}
			if _, known := waiting[j.ID]; !known {
				t.Fatalf("%s started and was not waiting", j.ID)
			}
			delete(waiting, j.ID)
			running[j.ID] = j
			perDestination[j.Target.ID]++
			if len(running) > tight.InFlight || perDestination[j.Target.ID] > tight.PerDestination {
				t.Fatalf("%d in flight, %d of them to one destination", len(running), perDestination[j.Target.ID])
			}
			return true
		}
		for range rapid.IntRange(1, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				j := job(byte(rapid.IntRange(1, 3).Draw(t, "organization")), 0)
				j.Target.ID = uuid.UUID{j.Target.Organization[0], byte(rapid.IntRange(1, 3).Draw(t, "destination"))}
				if len(waiting) > 0 && rapid.Bool().Draw(t, "again") { // a claim that was forgotten
					for _, j = range waiting {
						break
					}
				}
				j.Body = rapid.SampledFrom(bodies).Draw(t, "body")
				reserved := ls.reserve(j.Target, j.Body)
				if reserved && rapid.IntRange(0, 4).Draw(t, "cancelled") == 0 {
					ls.cancel(j.Target, j.Body)
					continue
				}
				if ls.add(j, reserved) {
					waiting[j.ID] = j
				}
			case 1:
				start()
			case 2:
				for _, j := range running {
					finish(j, time.Duration(rapid.IntRange(0, 2).Draw(t, "seconds"))*time.Second)
					break
				}
			case 3:
				disabled := func(*destination.Target) *destination.Target { return &destination.Target{} }
				for _, dropped := range ls.change(uuid.UUID{byte(rapid.IntRange(1, 3).Draw(t, "of")), byte(rapid.IntRange(1, 3).Draw(t, "drop"))}, disabled) {
					delete(waiting, dropped.ID)
				}
			}
			held := map[*Body]bool{}
			for _, h := range ls.held {
				held[h.Body] = true
			}
			want := 0
			for body := range held {
				want += body.counted()
			}
			if ls.bodies.used != want {
				t.Fatalf("%d bytes of bodies are used, want %d", ls.bodies.used, want)
			}
		}
		for len(waiting)+len(running) > 0 {
			progress := false
			for start() {
				progress = true
			}
			for _, j := range running {
				finish(j, 0)
				progress = true
			}
			if !progress {
				t.Fatalf("%d wait and nothing starts", len(waiting))
			}
		}
		if queued, inFlight := ls.size(); queued != 0 || inFlight != 0 {
			t.Fatalf("%d queued, %d in flight in the end", queued, inFlight)
		}
		if len(ls.bodies.by) > 0 {
			t.Fatalf("memory is still used in the end: %v", ls.bodies.by)
		}
	})
}
