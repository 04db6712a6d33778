package app

import (
	"runtime"
	"testing"
	"time"
)

func TestARoomForTheHeapIsLeft(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 400, 1 << 20: 400, 22 << 20: 400, 55 << 20: 100, 60 << 20: 83, 100 << 20: 50, 1 << 40: 50} {
		if got := percentFor(live, 110<<20); got != want {
			t.Errorf("%d MiB: %d %%, want %d %%", live>>20, got, want)
		}
	}
}

func TestTheLimitLeavesALargeHeapItsRoom(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int64{0: 150, 60 << 20: 150, 70 << 20: 150, 80 << 20: 160, 100 << 20: 192, 1 << 30: 1584} {
		if got := limitFor(live, 110<<20); got != want<<20 {
			t.Errorf("%d MiB: %d MiB, want %d MiB", live>>20, got>>20, want)
		}
	}
}

func TestTheHeapHasLessRoomBesidePages(t *testing.T) {
	t.Parallel()
	read := time.Now()
	for later, want := range map[time.Duration]int64{0: heapGoalOfPages, pagesLinger - 1: heapGoalOfPages, pagesLinger: heapGoal} {
		if got := goalAt(read.Add(later), read); got != want {
			t.Errorf("%s after a page: %d MiB, want %d MiB", later, got>>20, want>>20)
		}
	}
	if got := goalAt(read, time.Time{}); got != heapGoal {
		t.Errorf("where no page was ever read: %d MiB, want %d MiB", got>>20, heapGoal>>20)
	}
}

func TestAPageTakesTheHeapsRoomAtOnce(t *testing.T) {
	t.Parallel()
	m := &Memory{percentFixed: true, limitFixed: true} // the process has other tests
	m.collected(50<<20, time.Now())
	if m.percent != 200 || m.limit != 190<<20 {
		t.Fatalf("without pages: %d %%, %d MiB", m.percent, m.limit>>20)
	}
	m.PageComes()
	if m.percent != 120 || m.limit != 150<<20 {
		t.Fatalf("beside a page: %d %%, %d MiB", m.percent, m.limit>>20)
	}
	m.collected(50<<20, time.Now())
	if m.percent != 120 || m.limit != 150<<20 {
		t.Fatalf("beside a page, after a collection: %d %%, %d MiB", m.percent, m.limit>>20)
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
