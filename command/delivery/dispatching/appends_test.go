package dispatching

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/eventstore/panics"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// heldUp are appends that end when the test lets them.
type heldUp struct {
	*appends
	mu    sync.Mutex
	begun []*fanOut
	ends  int              // of those, in order
	gone  map[*fanOut]bool // ended
	let   map[*fanOut]chan error
}

func newHeldUp() *heldUp {
	h := &heldUp{let: map[*fanOut]chan error{}, gone: map[*fanOut]bool{}}
	h.appends = newAppends(nil, func(ctx context.Context, f *fanOut) (bool, error) {
		h.mu.Lock()
		h.begun = append(h.begun, f)
		let := h.let[f]
		h.mu.Unlock()
		select {
		case err := <-let:
			return err == nil, err
		case <-ctx.Done():
			return false, ctx.Err()
		}
	})
	return h
}

func (h *heldUp) take(t *testing.T, of uuid.UUID, deliveries int) *fanOut {
	t.Helper()
	f := &fanOut{
		id:        uuid.New(),
		publisher: of,
		fresh:     true,
		published: publication.Published{Data: make([]byte, 100)},
		scheduled: make([]dispatch.Scheduled, deliveries),
	}
	h.mu.Lock()
	h.let[f] = make(chan error, 1)
	h.mu.Unlock()
	must.OK(t, h.add(t.Context(), f))
	return f
}

func (h *heldUp) end(f *fanOut, err error) {
	h.gone[f] = true
	h.let[f] <- err
	synctest.Wait()
}

// has reports whether one is begun.
func (h *heldUp) has(f *fanOut) bool {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, begun := range h.begun {
		if begun == f {
			return true
		}
	}
	return false
}

func beside(t *testing.T, test func(t *testing.T, h *heldUp)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHeldUp()
		defer h.End()
		test(t, h)
	})
}

func TestAppends_floodDelaysOnlyItself(t *testing.T) {
	beside(t, func(t *testing.T, h *heldUp) {
		flood := make([]*fanOut, 1000)
		for i := range flood {
			flood[i] = h.take(t, alice, 1)
		}
		must.True(t, h.has(flood[concurrentAppends-1]) && !h.has(flood[concurrentAppends]),
			"not %d are on their way", concurrentAppends)
		first, second := h.take(t, bob, 1), h.take(t, bob, 1)
		assert.True(t, h.has(first) && !h.has(second),
			"one of an organization that has none on its way begins at once, the others wait for their turn")
		h.end(first, nil)
		assert.True(t, h.has(second), "it has none on its way again")
		for range 10 {
			h.end(h.oldest(), nil)
		}
		assert.True(t, len(h.begun) == concurrentAppends+2+9 && h.running == concurrentAppends,
			"%d were begun, %d are on their way", len(h.begun), h.running)
	})
}

// Organizations that each have enough to do get equal parts.
func TestAppends_floodsShareEqually(t *testing.T) {
	beside(t, func(t *testing.T, h *heldUp) {
		for range 4 * concurrentAppends {
			h.take(t, alice, 1)
		}
		for range 4 * concurrentAppends {
			h.take(t, bob, 1)
		}
		synctest.Wait()
		for range 2 * concurrentAppends {
			h.end(h.oldest(), nil)
		}
		of := h.of[alice].running
		assert.True(t, of >= concurrentAppends/2-1 && of <= concurrentAppends/2+1 && h.running == concurrentAppends,
			"%d of %d are of one", of, h.running)
	})
}

// oldest is the one on its way that was begun first.
func (h *heldUp) oldest() *fanOut {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.gone[h.begun[h.ends]] {
		h.ends++
	}
	return h.begun[h.ends]
}

func TestAppends_boundOutstanding(t *testing.T) {
	beside(t, func(t *testing.T, h *heldUp) {
		const large = 5000 // deliveries, a megabyte
		var flood []*fanOut
		full := make(chan struct{})
		go func() {
			for range 20 {
				flood = append(flood, h.take(t, alice, large))
			}
			close(full)
		}()
		synctest.Wait()
		n := len(flood)
		must.True(t, n >= 15 && n <= 17, "%d megabytes are outstanding", n)
		assert.True(t, flood[0].fresh && !flood[n-1].fresh && flood[n-1].published.Data == nil,
			"fan-outs far from their turn don't wait with their data")
		for _, f := range flood[:4] {
			h.end(f, nil)
		}
		<-full
		for _, f := range flood[4:] {
			h.end(f, nil)
		}
		assert.True(t, h.bytes == 0 && len(h.left) == 0 && h.running == 0 && len(h.of) == 0 && h.Pending() == nil,
			"%d bytes, %d, %d, %d left", h.bytes, len(h.left), h.running, len(h.of))
	})
}

func TestAppends_distantWaitWithoutData(t *testing.T) {
	beside(t, func(t *testing.T, h *heldUp) {
		const large = 5000 // deliveries, a megabyte
		for i := range 9 {
			f := h.take(t, []uuid.UUID{alice, bob}[i%2], large)
			assert.True(t, f.fresh && f.published.Data != nil, "there was room for its data")
		}
		for _, of := range []uuid.UUID{alice, bob} {
			f := h.take(t, of, large)
			assert.True(t, !f.fresh && f.published.Data == nil, "one of many waits with its data")
		}
		if f := h.take(t, uuid.New(), 1); !f.fresh || f.published.Data == nil {
			t.Error("the only one of an organization waits without its data")
		}
	})
}

func TestAppends_barrierIncludesEarlierOnly(t *testing.T) {
	beside(t, func(t *testing.T, h *heldUp) {
		assert.True(t, h.Pending() == nil, "something is outstanding from the beginning")
		first, second := h.take(t, alice, 1), h.take(t, bob, 1)
		waits, again := h.Pending(), h.Pending()
		later := h.take(t, alice, 1)
		done := make(chan error, 2)
		go func() { done <- waits(t.Context()) }()
		go func() { done <- again(t.Context()) }()
		h.end(later, nil)
		h.end(second, nil)
		assert.Equal(t, len(done), 0, "it did not wait for the first")
		h.take(t, alice, 1)
		h.end(first, nil)
		assert.True(t, len(done) == 2 && <-done == nil && <-done == nil, "it waits for later fan-outs")
	})
}

func TestAppends_failureEndsAll(t *testing.T) {
	beside(t, func(t *testing.T, h *heldUp) {
		first := h.take(t, alice, 1)
		waits := h.Pending()
		for range concurrentAppends {
			h.take(t, alice, 1)
		}
		broken := errors.New("broken")
		h.end(first, broken)
		<-h.Failed()
		assert.Is(t, waits(t.Context()), broken, "waiting caller")
		assert.Is(t, h.add(t.Context(), &fanOut{}), broken, "next caller")
		if !errors.Is(h.Err(), broken) || h.running != 0 || len(h.begun) != concurrentAppends {
			t.Errorf("%v, %d go on, %d were begun", h.Err(), h.running, len(h.begun))
		}
	})
}

func TestAppends_noneAfterEnd(t *testing.T) {
	beside(t, func(t *testing.T, h *heldUp) {
		for range 4 * concurrentAppends {
			h.take(t, alice, 1)
		}
		synctest.Wait()
		waits := h.Pending()
		h.End()
		assert.True(t, h.running == 0 && len(h.begun) == concurrentAppends,
			"%d go on, %d were begun", h.running, len(h.begun))
		assert.Is(t, waits(t.Context()), errEnded, "waiting caller")
		assert.Is(t, h.add(t.Context(), &fanOut{}), errEnded, "next caller")
		if h.Err() != nil {
			t.Errorf("the end is a failure: %v", h.Err())
		}
	})
}

// A panic after an append, between two, ends them all, and not the process.
func TestAppends_failByAPanic(t *testing.T) {
	beside(t, func(t *testing.T, h *heldUp) {
		f := h.take(t, uuid.New(), 1)
		h.appends.mu.Lock()
		f.done = nil // it can't be closed
		h.appends.mu.Unlock()
		h.end(f, nil)
		synctest.Wait()
		if _, panicked := errors.AsType[*panics.Error](h.Err()); !panicked {
			t.Errorf("failed with %v", h.Err())
		}
	})
}
