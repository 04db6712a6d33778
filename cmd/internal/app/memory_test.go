package app

import (
	"runtime"
	"testing"
	"time"
)

func TestARoomForTheHeapIsLeft(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64][2]int{ // without pages, and beside them
		0: {400, 400}, 1 << 20: {400, 400}, 22 << 20: {400, 400}, 55 << 20: {172, 100}, 60 << 20: {150, 83}, 80 << 20: {87, 37}, 100 << 20: {50, 25}, 1 << 40: {50, 25},
	} {
		if got := [2]int{percentFor(live, heapGoal), percentFor(live, heapGoalOfPages)}; got != want {
			t.Errorf("%d MiB: %d %%, want %d %%", live>>20, got, want)
		}
	}
}

func TestTheLimitLeavesALargeHeapItsRoom(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64][2]int64{ // without pages, and beside them
		0: {190, 150}, 60 << 20: {190, 150}, 80 << 20: {190, 150}, 100 << 20: {190, 176}, 160 << 20: {288, 240}, 1 << 30: {1584, 1328},
	} {
		if got := [2]int64{limitFor(live, 0, heapGoal) >> 20, limitFor(live, 0, heapGoalOfPages) >> 20}; got != want {
			t.Errorf("%d MiB: %d MiB, want %d MiB", live>>20, got, want)
		}
	}
}

// Where stacks and the room between objects are more than usual, the live heap has its room all the same: else it would be
// collected all the time.
func TestWhatIsBesideTheHeapTakesNothingFromItsRoom(t *testing.T) {
	t.Parallel()
	m := &Memory{percentFixed: true, limitFixed: true} // the process has other tests
	for _, tt := range []struct{ live, beside, limit int64 }{{50, 90, 190}, {100, 40, 190}, {100, 90, 240}, {120, 90, 272}, {50, 30, 190}} {
		m.collected(uint64(tt.live)<<20, time.Now()) //nolint:gosec // of the table
		m.has(uint64(tt.beside)<<20, time.Now())     //nolint:gosec // of the table
		if m.limit != tt.limit<<20 {
			t.Errorf("%d MiB live, and %d beside: the limit is %d MiB, want %d", tt.live, tt.beside, m.limit>>20, tt.limit)
		}
	}
	if bytes := beside(); bytes == 0 || bytes > 1<<40 {
		t.Errorf("%d bytes are said to be beside the heap", bytes)
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
