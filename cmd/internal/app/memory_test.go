package app

import (
	"runtime"
	"testing"
	"time"
)

func TestARoomForTheHeapIsLeft(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 22 << 20: 400, 55 << 20: 100, 60 << 20: 83, 100 << 20: 50, 1 << 40: 50} {
		if got := percentFor(live); got != want {
			t.Errorf("%d MiB: %d %%, want %d %%", live>>20, got, want)
		}
	}
}

func TestTheLimitLeavesALargeHeapItsRoom(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int64{0: 150, 60 << 20: 150, 70 << 20: 150, 80 << 20: 160, 100 << 20: 192, 1 << 30: 1584} {
		if got := limitFor(live); got != want<<20 {
			t.Errorf("%d MiB: %d MiB, want %d MiB", live>>20, got>>20, want)
		}
	}
}

func TestEachCollectionIsNoticed(t *testing.T) {
	// Not parallel: beside whole servers, a collection takes seconds.
	came := make(chan struct{})
	done := t.Context().Done()
	afterEachCollection(func() {
		select {
		case came <- struct{}{}:
		case <-done:
		}
	})
	for range 3 {
		for noticed := false; !noticed; {
			runtime.GC()
			select {
			case <-came:
				noticed = true
			case <-time.After(100 * time.Millisecond): // or another one is needed
			}
		}
	}
}
