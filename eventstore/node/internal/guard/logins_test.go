package guard

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

const caller = "192.0.2.1:5000"

func TestWrongPasswordsAreAnsweredLaterAndLater(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(slog.New(slog.DiscardHandler), FirstDelay)
		for i, want := range []time.Duration{
			250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second,
		} {
			began := time.Now()
			g.Wrong(t.Context(), fmt.Sprintf("192.0.2.1:%d", 5000+i)) // a separate connection
			assert.Equal(t, time.Since(began), want, "answer %d came after", i)
		}
		began := time.Now()
		g.Wrong(t.Context(), "192.0.2.2:5000")
		assert.Equal(t, time.Since(began), FirstDelay, "another address waited")
		time.Sleep(forgottenAfter + time.Second)
		began = time.Now()
		g.Wrong(t.Context(), caller)
		assert.Equal(t, time.Since(began), FirstDelay, "after a long time it took")
		ended, end := context.WithCancel(t.Context())
		end()
		began = time.Now()
		g.Wrong(ended, caller)
		assert.Equal(t, time.Since(began), 0, "a caller who is gone was waited for")
	})
}

// However many connections a client opens, the number of tries per second is bounded, and other clients are not
// delayed.
func TestManyGuessesAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(slog.New(slog.DiscardHandler), FirstDelay)
		var looked atomic.Int64
		began := time.Now()
		for time.Since(began) < time.Minute {
			for range 100 {
				go func() {
					if g.Wrong(t.Context(), caller) {
						looked.Add(1)
					}
				}()
			}
			synctest.Wait()
			must.True(t, !g.Right(caller), "of a hundred guesses the right one is answered at once")
			must.True(t, g.Right("192.0.2.2:1"), "another client has to wait")
			time.Sleep(97 * time.Millisecond) // never at the moment at which an answer is due
		}
		if n := looked.Load(); n < 100 || n > 600 { // 32 every 4 s, and some more in the beginning
			t.Errorf("%d passwords were answered in a minute", n)
		}
		for i := range 3 * heldInAll {
			go g.Wrong(t.Context(), fmt.Sprintf("[2001:db8:0:%x::1]:1", i/8))
		}
		synctest.Wait()
		assert.True(t, !g.Right("192.0.2.3:1"), "too many are held in all")
		time.Sleep(time.Minute)
		assert.True(t, g.Right("192.0.2.3:1") && g.Right(caller), "a minute later it is still refused")
	})
}

func TestPlacesAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New(slog.New(slog.DiscardHandler), FirstDelay)
		for i := range 2 * maxPlaces {
			_, done, _ := g.hold(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255))
			done()
		}
		assert.True(t, len(g.places) <= maxPlaces, "%d places are remembered", len(g.places))
	})
}

func TestGuessesAreLoggedEverMoreSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		g := New(slog.New(slog.NewTextHandler(&text, nil)), FirstDelay)
		for range 100 {
			g.Wrong(t.Context(), "[2001:db8::1]:1")
			g.Wrong(t.Context(), "[2001:db8::2]:2") // the same network
		}
		lines := strings.Count(text.String(), "\n")
		assert.True(t, lines == 8 && strings.Contains(text.String(), "times=128"), "%d lines: %s", lines, text.String())
	})
}
