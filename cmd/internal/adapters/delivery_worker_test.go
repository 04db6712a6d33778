package adapters

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

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
			if dead := w.dead(holders, step.live); !slices.Equal(dead, step.dead) {
				t.Errorf("after %s, with %v alive: %v are dead, want %v", step.after, step.live, dead, step.dead)
			}
		}
		w.won = time.Now() // it has lost its own meanwhile, as all may have
		time.Sleep(absence - time.Millisecond)
		if dead := w.dead(holders, nil); dead != nil {
			t.Errorf("right after its own lock was won %v are dead", dead)
		}
	})
}
