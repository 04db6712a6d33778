package visiting

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

func TestBacklogDelaysPages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &Backlog{}
		first := b.hold(maxUnrecorded - 1)
		if err := b.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		second := b.hold(200) // a page may exceed the limit
		gone, errGone := make(chan error, 1), errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() { gone <- b.Wait(ctx) }()
		waited := make(chan error, 3)
		for range cap(waited) {
			go func() { waited <- b.Wait(t.Context()) }()
		}
		synctest.Wait()
		if len(waited) > 0 || len(gone) > 0 {
			t.Fatal("a page is read although there is no room")
		}
		cancel(errGone)
		if err := <-gone; !errors.Is(err, errGone) {
			t.Errorf("who gave up got %v", err)
		}
		second()
		for range cap(waited) {
			if err := <-waited; err != nil {
				t.Error(err)
			}
		}
		first()
		if b.held != 0 {
			t.Errorf("%d are held, want none", b.held)
		}
		(*Backlog)(nil).hold(1)()
		if err := (*Backlog)(nil).Wait(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
