package sessionlock

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Of several callers that try a lock at once, each is refused while it is held, and lost with the session. Those that
// wait for it go on waiting.
func TestWaiters_removedWhileListed(t *testing.T) {
	t.Parallel()
	const held Key = -7
	for ended, want := range map[string]error{"refused": ErrHeld, "lost": ErrLost} {
		for pattern := range 1 << 4 { // which of four make one attempt
			t.Run(fmt.Sprintf("%s %04b", ended, pattern), func(t *testing.T) {
				t.Parallel()
				l := New(&pgx.ConnConfig{}, slog.New(slog.DiscardHandler))
				l.held[held] = &Lock{locks: l, key: held, lost: make(chan struct{})}
				for i := range 4 {
					l.waiting[held] = append(l.waiting[held], &waiter{once: pattern>>i&1 == 1, done: make(chan struct{})})
				}
				waiters := append([]*waiter{}, l.waiting[held]...)
				if ended == "refused" {
					l.due(&session{}, time.Now())
				} else {
					l.lose(ErrLost, false)
				}
				left := 0
				for i, w := range waiters {
					if w.once && !errors.Is(w.failed, want) || !w.once && w.failed != nil {
						t.Errorf("waiter %d, once %t: %v", i, w.once, w.failed)
					}
					if !w.once {
						left++
					}
				}
				if len(l.waiting[held]) != left {
					t.Errorf("%d wait, want %d", len(l.waiting[held]), left)
				}
			})
		}
	}
}
