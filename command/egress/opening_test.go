package egress

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

const oneAddress = "hooks.example:443"

func wants() *Handshake {
	_, handshake := NoteHandshake(context.Background())
	return handshake
}

// fill takes all places of the address, and returns how to leave them.
func fill(t *testing.T, o *opening) []func() {
	t.Helper()
	var leave []func()
	for range openingMost {
		one, err := o.enter(t.Context(), oneAddress, wants())
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, one)
	}
	return leave
}

func TestWhoWaitsToOpenComesWhenOneIsOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &opening{at: map[string]*entrance{}}
		leave := fill(t, o)
		begun := time.Now()
		came := make(chan time.Duration, 1)
		go func() {
			last, err := o.enter(t.Context(), oneAddress, wants())
			if err != nil {
				t.Error(err)
				return
			}
			came <- time.Since(begun)
			last()
		}()
		synctest.Wait()
		select {
		case <-came:
			t.Fatal("more than openingMost were let in")
		default:
		}
		leave[0]()
		leave[0]() // its place is another's by now
		if after := <-came; after != 0 {
			t.Errorf("came %v after a place was free", after)
		}
		for _, leave := range leave[1:] {
			leave()
		}
		synctest.Wait()
		if len(o.at) != 0 {
			t.Errorf("kept of addresses where none opens: %v", o.at)
		}
	})
}

func TestOneThatIsServedNoLongerOpens(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &opening{at: map[string]*entrance{}}
		leave := fill(t, o)
		request := wants()
		ended := make(chan error, 1)
		go func() {
			_, err := o.enter(t.Context(), oneAddress, request)
			ended <- err
		}()
		synctest.Wait()
		request.Served()
		if err := <-ended; !errors.Is(err, errServed) {
			t.Errorf("a request that has a connection: %v", err)
		}
		if _, err := o.enter(t.Context(), oneAddress, request); !errors.Is(err, errServed) {
			t.Errorf("and one more dial of it: %v", err)
		}
		for _, leave := range leave {
			leave()
		}
		request.Wanted(oneAddress) // the connection that it got was closed
		again, err := o.enter(t.Context(), oneAddress, request)
		if err != nil {
			t.Fatalf("a request that looks for one again: %v", err)
		}
		again()
		if len(o.at) != 0 {
			t.Errorf("kept of addresses where none opens: %v", o.at)
		}
	})
}

func TestOneThatHangsWhileItOpensHoldsNobodyForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &opening{at: map[string]*entrance{}}
		fill(t, o) // none of them is left
		begun := time.Now()
		elsewhere, err := o.enter(t.Context(), "other.example:443", wants())
		if err != nil || time.Since(begun) != 0 {
			t.Errorf("another address waited %v: %v", time.Since(begun), err)
		}
		elsewhere()
		here, err := o.enter(t.Context(), oneAddress, wants())
		if waited := time.Since(begun); err != nil || waited != openingHeld {
			t.Errorf("the same address waited %v: %v", waited, err)
		}
		here()
		synctest.Wait() // the others' time ends with the one that came
		if len(o.at) != 0 {
			t.Errorf("kept of addresses where none opens: %v", o.at)
		}
	})
}

func TestWhoseTimeIsOverNoLongerWaitsToOpen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		o := &opening{at: map[string]*entrance{}}
		leave := fill(t, o)
		over := errors.New("over")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(over)
		if _, err := o.enter(ctx, oneAddress, wants()); !errors.Is(err, over) {
			t.Errorf("entered with %v", err)
		}
		for _, leave := range leave {
			leave()
		}
		if len(o.at) != 0 {
			t.Errorf("kept of addresses where none opens: %v", o.at)
		}
	})
}
