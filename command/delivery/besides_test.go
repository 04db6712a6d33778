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
			started, _ := ls.next(nothing, calm)
			ls.done(started, time.Millisecond)
		}
		begin := func(p press) (n int) {
			for _, ok := ls.next(nothing, p); ok; _, ok = ls.next(nothing, p) {
				n++
			}
			return n
		}
		neighbour := numbered(2, 1)
		ls.add(neighbour, false)
		started, _ := ls.next(nothing, crowded)
		ls.done(started, time.Millisecond)
		for i := range destinations * each {
			ls.add(numbered(1, i%destinations), false)
		}
		if n := begin(crowded); n < besides || n > besides+destinations {
			t.Errorf("%d were begun in a crowd beside another organization, want %d", n, besides)
		}
		ls.add(numbered(2, 1), false)
		ls.add(numbered(1, destinations), false)
		if n := begin(crowded); n != 2 {
			t.Errorf("%d were begun, want one of the other organization, and one of a destination that has none under way", n)
		}
		time.Sleep(besideFor) //nolint:forbidigo // the clock of the test
		if begin(crowded); ls.queued > 0 {
			t.Errorf("%d wait, although nobody else is there", ls.queued)
		}
	})
}

// As soon as anybody waits for a processor, one organization opens few connections at one time beside others. Another one
// opens its own beside them. Alone, and where nobody waits, it opens as many as it likes.
func TestWhoOpensManyConnectionsBesideOthersOpensFewAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const destinations = 200
		few := DefaultLimits.OpeningBeside
		ls := newLanes(DefaultLimits)
		begin := func(p press) (begun []Job) {
			for j, ok := ls.next(nothing, p); ok; j, ok = ls.next(nothing, p) {
				begun = append(begun, j)
			}
			return begun
		}
		neighbour := numbered(2, 1)
		ls.add(neighbour, false)
		answers(ls, begin(busy), time.Millisecond)
		for i := range destinations {
			ls.add(numbered(1, i), false)
		}
		opening := begin(busy)
		if len(opening) != few {
			t.Errorf("%d connections are opened at one time, want %d", len(opening), few)
		}
		ls.add(numbered(2, 2), false)
		if n := len(begin(busy)); n != 1 {
			t.Errorf("%d were begun, want one of the organization that opens no other", n)
		}
		for _, j := range opening {
			ls.sent(j, true, false)
		}
		if n := len(begin(busy)); n != few {
			t.Errorf("%d were begun after those that were open, want %d", n, few)
		}
		time.Sleep(2 * besideFor) //nolint:forbidigo // the clock of the test
		if begin(busy); ls.queued > 0 {
			t.Errorf("%d wait, although nobody else is there", ls.queued)
		}
	})
}

// Several organizations with backlogs have as many under way together as one would have, but one to each destination.
func TestBacklogsOfManyFollowTheProcessorsTogether(t *testing.T) {
	t.Parallel()
	const organizations, destinations, each = 10, 5, 8
	ls := newLanes(DefaultLimits)
	for o := range organizations { // all have answered, and are connected
		for i := range destinations {
			ls.add(numbered(byte(1+o), i), false)
			started, _ := ls.next(nothing, calm)
			ls.done(started, time.Millisecond)
		}
	}
	for i := range destinations * each {
		for o := range organizations {
			ls.add(numbered(byte(1+o), i%destinations), false)
		}
	}
	begun := 0
	for _, ok := ls.next(nothing, crowded); ok; _, ok = ls.next(nothing, crowded) {
		begun++
	}
	if most := organizations * (few + destinations); begun > most || begun < organizations*destinations {
		t.Errorf("%d were begun in a crowd, want %d at most, and one for each destination", begun, most)
	}
}
