package wire

import (
	"sync"
	"time"
)

// maxStrangerLines is how many lines of requests without a valid key, or beyond a rate, the log gets in a second: whoever
// sends thousands must not fill the disk.
const maxStrangerLines = 50

// thinner passes on some lines of each second.
type thinner struct {
	mu      sync.Mutex
	second  time.Time
	passed  int
	leftOut int // since the last line
}

// pass reports whether a line is to be written, and how many were left out before it.
func (t *thinner) pass(now time.Time) (ok bool, leftOut int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if second := now.Truncate(time.Second); !second.Equal(t.second) {
		t.second, t.passed = second, 0
	}
	if t.passed >= maxStrangerLines {
		t.leftOut++
		return false, 0
	}
	leftOut, t.leftOut = t.leftOut, 0
	t.passed++
	return true, leftOut
}

// stranger reports whether a request was refused before anybody knew whose it was, or because it was one of too many.
func stranger(rec *record) bool {
	return rec != nil && rec.failure != nil &&
		(rec.anybody || rec.failure.Kind == Unauthenticated || rec.failure.Kind == RateLimited)
}
