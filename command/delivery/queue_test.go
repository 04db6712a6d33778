package delivery

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// A destination gets what is published now beside thousands that were asked for again: each second request is a fresh one,
// and what was claimed takes no room from those.
func TestFreshAndClaimedTakeTurns(t *testing.T) {
	t.Parallel()
	limits := DefaultLimits
	ls := newLanes(limits)
	for range 4 * limits.QueuedAtFirst {
		ls.add(job(1, 1), false) // a backfill
	}
	fresh := map[uuid.UUID]bool{}
	for range 20 {
		j := job(1, 1)
		if !ls.reserve(j.Target, nil) {
			t.Fatal("a backfill left no room for what is published")
		}
		ls.add(j, true)
		fresh[j.ID] = true
	}
	for begun := 1; len(fresh) > 0; begun++ {
		next, ok := ls.next(nothing, calm)
		if !ok {
			t.Fatal("nothing may start")
		}
		ls.done(next, time.Millisecond)
		delete(fresh, next.ID)
		if begun > 2*20 {
			t.Fatalf("%d fresh ones still wait after %d requests", len(fresh), begun)
		}
	}
}

// What was left to be claimed is older than fresh ones that come later: then all go in the order in which they came, so that
// overload is shared by all that is published.
func TestAfterASpillAllGoInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var want []*held
		for i := range rapid.IntRange(1, 40).Draw(t, "waiting") {
			h := &held{Job: Job{came: time.Unix(int64(i), 0)}}
			q.add(h, rapid.Bool().Draw(t, "fresh"))
			want = append(want, h)
		}
		for i, h := range want {
			if q.next(true) != h {
				t.Fatalf("not the one that came as number %d", i)
			}
		}
	})
}

// Whatever comes and goes: nothing is lost, nothing is taken twice, each kind stays in its order, and no more wait than may.
func TestQueueKeepsWhatWaits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var waiting [2][]*held // as it should be: claimed ones, and fresh ones
		kind := map[*held]int{}
		n := 0
		forget := func(h *held) {
			part := waiting[kind[h]]
			for i, other := range part {
				if other == h {
					waiting[kind[h]] = append(part[:i:i], part[i+1:]...)
					return
				}
			}
			t.Fatal("it was let go of twice")
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				h := &held{Job: Job{came: time.Unix(int64(n), 0)}}
				n++
				kind[h] = rapid.IntRange(0, 1).Draw(t, "fresh")
				q.add(h, kind[h] == 1)
				waiting[kind[h]] = append(waiting[kind[h]], h)
			},
			"next": func(t *rapid.T) {
				if q.len() == 0 {
					t.Skip("nothing waits")
				}
				h := q.next(rapid.Bool().Draw(t, "spilled"))
				if waiting[kind[h]][0] != h {
					t.Fatal("others of its kind came before")
				}
				forget(h)
			},
			"shorten": func(t *rapid.T) {
				most := rapid.IntRange(0, 8).Draw(t, "most")
				before := q.len()
				q.shorten(most, forget)
				if q.len() != min(most, before) {
					t.Fatalf("%d of %d wait where %d may", q.len(), before, most)
				}
			},
			"keep": func(t *rapid.T) {
				odd := rapid.Int64Range(0, 1).Draw(t, "which")
				q.keep(func(h *held) bool {
					if h.came.Unix()%2 == odd {
						return true
					}
					forget(h)
					return false
				})
			},
			"": func(t *rapid.T) {
				i, all := 0, append(append([]*held{}, waiting[1]...), waiting[0]...)
				for h := range q.all() {
					if i >= len(all) || all[i] != h {
						t.Fatal("something else waits")
					}
					i++
				}
				if i != len(all) || q.len() != len(all) {
					t.Fatalf("%d wait, want %d", q.len(), len(all))
				}
			},
		})
	})
}
