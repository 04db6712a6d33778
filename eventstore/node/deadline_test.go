package node

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A deadline ends when it says, whether somebody waits for it or only looks.
func TestADeadlineEndsWhenItSays(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		looked, releaseLooked := withDeadline(t.Context(), time.Second)
		waited, releaseWaited := withDeadline(t.Context(), time.Second)
		defer releaseLooked()
		defer releaseWaited()
		done := waited.Done()
		time.Sleep(time.Second - time.Nanosecond)
		synctest.Wait()
		select {
		case <-done:
			t.Error("it ended early")
		default:
		}
		if looked.Err() != nil || waited.Err() != nil {
			t.Errorf("early: %v, %v", looked.Err(), waited.Err())
		}
		time.Sleep(time.Nanosecond)
		<-done
		<-looked.Done() // has ended already
		for _, ctx := range []context.Context{looked, waited} {
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("%v, want %v", ctx.Err(), context.DeadlineExceeded)
			}
		}
	})
}

// It ends with its parent, whether somebody waits for that or only looks.
func TestADeadlineEndsWithItsParent(t *testing.T) {
	t.Parallel()
	parent, end := context.WithCancel(t.Context())
	looked, release := withDeadline(parent, time.Hour)
	defer release()
	end()
	if err := looked.Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("looked at: %v, want %v", err, context.Canceled)
	}
	<-looked.Done()
}
