package delivery

import (
	"testing"
	"testing/synctest"
	"time"
)

// Where it is crowded, a backlog for many destinations that answer well begins few requests beside another organization,
// whose own go on at once. A destination of the same organization with none under way is not held back either. Alone, or
// where there is no crowd, nothing is held back.
func TestABacklogBesideOthersFollowsTheProcessors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const destinations, each = 20, 8 // as many as they may have at first
		ls := newLanes(DefaultLimits)
		for i := range destinations + 1 { // all have answered, and are connected
			ls.add(numbered(1, i), false)
			started, _ := ls.next(nothing, false)
			ls.done(started, time.Millisecond)
		}
		begin := func(crowded bool) (n int) {
			for _, ok := ls.next(nothing, crowded); ok; _, ok = ls.next(nothing, crowded) {
				n++
			}
			return n
		}
		neighbour := numbered(2, 1)
		ls.add(neighbour, false)
		started, _ := ls.next(nothing, true)
		ls.done(started, time.Millisecond)
		for i := range destinations * each {
			ls.add(numbered(1, i%destinations), false)
		}
		if n := begin(true); n < besides || n > besides+destinations {
			t.Errorf("%d were begun in a crowd beside another organization, want %d", n, besides)
		}
		ls.add(numbered(2, 1), false)
		ls.add(numbered(1, destinations), false)
		if n := begin(true); n != 2 {
			t.Errorf("%d were begun, want one of the other organization, and one of a destination that has none under way", n)
		}
		time.Sleep(besideFor) //nolint:forbidigo // the clock of the test
		if begin(true); ls.queued > 0 {
			t.Errorf("%d wait, although nobody else is there", ls.queued)
		}
	})
}
