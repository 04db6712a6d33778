package delivery

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What is due in a moment is claimed then, and not when the queue would have been looked into anyway.
func TestWhatIsDueSoonIsWaitedForExactly(t *testing.T) {
	t.Parallel()
	var p pacing
	for _, due := range []time.Duration{0, 3 * time.Millisecond, busyPoll, 70 * time.Millisecond, idlePoll} {
		p.again(busyPoll) // something was claimed
		if wait := p.until(due, idlePoll); wait != due {
			t.Errorf("due in %s: waits for %s", due, wait)
		}
	}
	if wait := p.until(time.Hour, idlePoll); wait != idlePoll {
		t.Errorf("due in an hour: waits for %s", wait)
	}
}

// However many moments come to nothing, the queue is looked into twice in busyPoll at most.
func TestMomentsThatComeToNothingAreFew(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var p pacing
		last := busyPoll
		for range 50 {
			wait := p.until(time.Duration(rapid.Int64Range(-int64(time.Second), int64(2*busyPoll)).Draw(t, "due")), idlePoll)
			if wait < 0 || last+wait < busyPoll {
				t.Fatalf("waits for %s after %s", wait, last)
			}
			last = wait
		}
	})
}
