package console

import (
	"context"
	"testing"
)

// Work that panics ends alone: other work begins after it, and the console ends.
func TestWorkers_surviveAPanic(t *testing.T) {
	t.Parallel()
	var w workers
	w.open(t.Context())
	done := 0
	for _, fault := range []bool{true, false} {
		_, err := w.start(func() (Work, error) { return Work{}, nil }, func(context.Context, Work) {
			if fault {
				panic("planted")
			}
			done++
		})
		if err != nil {
			t.Error(err)
		}
		w.running.Wait()
	}
	if done != 1 {
		t.Errorf("%d works were done", done)
	}
}
