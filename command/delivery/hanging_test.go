package delivery

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
)

// of is a delivery to the first destination of the n-th organization.
func of(n int) Job { return ofTwo(n, 0) }

// ofTwo is a delivery to one of its destinations.
func ofTwo(n, to int) Job {
	id := uuid.UUID{byte(n), byte(n >> 8), 1}
	return Job{ID: uuid.New(), Target: &destination.Target{ID: uuid.UUID{id[0], id[1], id[2], byte(to)}, Organization: id}}
}

// However many organizations hang, each with two destinations, there is room at once for another one, and for claims of what
// waits for it. Before it is known that they hang, nearly all requests there may be at one time can be theirs; if they are
// more than these, there is room for destinations that are connected.
func TestManyOrganizationsThatHangLeaveRoom(t *testing.T) {
	t.Parallel()
	for _, hanging := range []int{1100, 1500, 3000} {
		synctest.Test(t, func(t *testing.T) {
			ls := newLanes(DefaultLimits)
			proven := of(1 << 15)
			ls.add(proven, false)
			answers(ls, take(ls), time.Millisecond)
			for round := range 6 {
				for n := range hanging {
					for i := range 6 {
						j := ofTwo(n, i%2)
						ls.add(j, ls.reserve(j.Target, nil))
					}
				}
				hang := take(ls)
				if len(hang) < DefaultLimits.InFlight/2 {
					t.Errorf("round %d: %d of %d that hang are under way", round, len(hang), hanging)
				}
				again := of(1 << 15)
				ls.add(again, false)
				started := take(ls)
				if len(started) != 1 || started[0].ID != again.ID {
					t.Fatalf("round %d: beside %d that hang, %d were started, want the one that is connected", round, hanging, len(started))
				}
				answers(ls, started, time.Millisecond)
				known := 0
				for n := range hanging {
					for to := range 2 {
						if l := ls.lanes[ofTwo(n, to).Target.ID]; l != nil && l.late {
							known++
						}
					}
				}
				if hanging > DefaultLimits.InFlight && known < 2*hanging {
					if round == 4 {
						t.Errorf("it is known of %d of %d only that they hang", known, hanging)
					}
					time.Sleep(29 * time.Second) //nolint:forbidigo // the clock of the test
					answers(ls, hang, 29*time.Second)
					continue
				}
				var newcomers []Job
				for newcomer := range 20 {
					fresh := of(1<<14 + newcomer)
					if !ls.reserve(fresh.Target, nil) || !ls.add(fresh, true) {
						t.Fatalf("round %d: no room to wait for newcomer %d", round, newcomer)
					}
					served := false
					for _, started := range take(ls) {
						if started.ID != fresh.ID {
							hang = append(hang, started)
							continue
						}
						served = true
						newcomers = append(newcomers, started)
					}
					if !served {
						t.Fatalf("round %d: beside %d that hang, newcomer %d was not started", round, hanging, newcomer)
					}
				}
				answers(ls, newcomers, time.Millisecond)
				time.Sleep(DefaultLimits.SlowAfter + time.Second) //nolint:forbidigo // the clock of the test
				if a := ls.ask(); a.Limit < minPerClaim || slices.Contains(a.Over, of(1<<13).Target.Organization) {
					t.Errorf("round %d: a claim may take %d", round, a.Limit)
				}
				back, ids := ls.takeBack(), ls.ids()
				for _, job := range back {
					if _, here := ids[job.ID]; here {
						t.Fatal("one that goes back is still here")
					}
				}
				time.Sleep(23 * time.Second) //nolint:forbidigo // the clock of the test
				answers(ls, hang, 29*time.Second)
				if ls.running.used != 0 || ls.slow.used != 0 {
					t.Fatalf("round %d: %d are counted as under way, %d as slow", round, ls.running.used, ls.slow.used)
				}
				ls.drain() // the next round has others
			}
		})
	}
}

// Claims for those that hang leave room for others, however many they are: of those, too, that wait in memory.
func TestClaimsForThoseThatHangLeaveRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls := newLanes(DefaultLimits)
		// claim takes what a claim may, for organizations that hang.
		claim := func() (claimed int) {
			a := ls.ask()
			ls.takeBack()
			for n := 0; n < 2000 && claimed < a.Limit; n++ {
				j := of(n)
				if slices.Contains(a.Over, j.Target.Organization) || slices.Contains(a.Full, j.Target.ID) {
					continue
				}
				for range min(4, a.Limit-claimed) {
					j := of(n)
					if ls.add(j, false) {
						claimed++
					}
				}
			}
			return claimed
		}
		var hang []Job
		for range 12 {
			for claim() > 0 {
				hang = append(hang, take(ls)...)
			}
			time.Sleep(DefaultLimits.SlowAfter + time.Second) //nolint:forbidigo // the clock of the test
			a := ls.ask()
			if a.Limit < minPerClaim {
				t.Fatalf("%d are held for those that hang, and a claim may take %d", ls.claimed.used, a.Limit)
			}
			if len(hang) > 1000 {
				answers(ls, hang[:500], 20*time.Second)
				hang = hang[500:]
			}
		}
	})
}

func idsOf(jobs []Job) (ids []uuid.UUID) {
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// What waits for a lane that turns slow would wait for longer than its lease: all but a few go back to the queue, where
// claims find them in order when it is quick again.
func TestWhatWaitsForALaneThatTurnsSlowGoesBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls := newLanes(DefaultLimits)
		var all []Job
		for range 3 {
			j := job(1, 1)
			ls.add(j, false)
		}
		answers(ls, take(ls), time.Millisecond)
		for range 1000 {
			j := job(1, 1)
			j.fresh = ls.reserve(j.Target, nil)
			ls.add(j, j.fresh)
			all = append(all, j)
		}
		neighbour := job(1, 2)
		ls.add(neighbour, false)
		started := take(ls)
		if ls.ask(); len(ls.takeBack()) > 0 {
			t.Error("some went back before it was slow")
		}
		time.Sleep(DefaultLimits.SlowAfter + time.Second) //nolint:forbidigo // the clock of the test
		ls.ask()
		back := ls.takeBack()
		stay := len(started) - 1 + DefaultLimits.PerSlow
		if len(back) != len(all)-stay {
			t.Fatalf("%d went back, want all but %d", len(back), stay)
		}
		claimed := 1 // by the neighbour
		begun, gone := idsOf(started), idsOf(back)
		for _, fresh := range []bool{true, false} {
			kept := 0 // of those that wait
			for _, j := range all {
				switch {
				case j.fresh != fresh:
				case slices.Contains(begun, j.ID):
					if !fresh {
						claimed++
					}
				case !slices.Contains(gone, j.ID):
					if kept++; kept > DefaultLimits.PerSlow/2 {
						t.Errorf("more than half of those that stay are fresh: %t", fresh)
					}
				case kept < DefaultLimits.PerSlow/2:
					t.Fatalf("those that have waited longest went back, fresh: %t", fresh)
				}
			}
		}
		if len(ls.takeBack()) > 0 {
			t.Error("they went back twice")
		}
		if queued, _ := ls.size(); queued != DefaultLimits.PerSlow {
			t.Errorf("%d are counted as waiting", queued)
		}
		if n := ls.fresh.used + ls.claimed.used; n != DefaultLimits.PerSlow+claimed {
			t.Errorf("%d are counted in shares", n)
		}
		if ls.reserve(all[0].Target, nil) {
			t.Error("a fresh one has room before those that went back")
		}
		answers(ls, started, time.Millisecond)
		for rest := take(ls); len(rest) > 0; rest = take(ls) {
			answers(ls, rest, time.Millisecond)
		}
		if queued, running := ls.size(); queued != 0 || running != 0 {
			t.Errorf("%d wait and %d are under way in the end", queued, running)
		}
	})
}
