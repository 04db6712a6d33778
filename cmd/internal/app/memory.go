package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

const (
	// gcPercent is for a small live heap: collect when the heap is five times that.
	gcPercent     = 400
	leastPercent  = 50
	leastOfPages  = 25                    // the same beside pages and large events: most of those has no pointers to follow
	besideHeap    = 40 << 20              // what the runtime takes beside the heap, at least: see beside
	sweptFor      = 50 * time.Millisecond // after a collection, until what it has freed is known
	limitStep     = 16 << 20              // the limit is no finer: each change stops the world
	changePercent = 10                    // what is less than that is not worth stopping the world for
	pagesLinger   = 10 * time.Second      // after a page, until the heap may be larger again
)

// Where a collection begins however large the live heap is, unless that is nearly as large. Pages that are read, and large
// events, come in bursts, so the heap has less room beside them.
const (
	heapGoal        = 150 << 20
	heapGoalOfPages = 110 << 20
)

// Memory lets the garbage collector run less often, which costs memory and saves processor time, as long as the live heap
// is small. A larger one gets less room instead of all there is below the limit: there the runtime was busy giving pages
// back and asking for them again.
type Memory struct {
	percentFixed, limitFixed bool

	mu      sync.Mutex
	live    uint64    // as the last collection found it
	beside  uint64    // the heap
	looks   bool      // soon, how much that is
	pages   time.Time // when the last page of a source was read
	percent int
	limit   int64
}

// TuneMemory has the process's memory managed. GOGC and GOMEMLIMIT override it.
func TuneMemory() *Memory {
	m := &Memory{percentFixed: os.Getenv("GOGC") != "", limitFixed: os.Getenv("GOMEMLIMIT") != ""}
	m.collected(0, time.Now())
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	afterEachCollection(func() {
		metrics.Read(live)
		m.collected(live[0].Value.Uint64(), time.Now())
		m.lookBeside()
	})
	return m
}

// lookBeside notes what the process has beside its heap, once what was collected is swept: before, the room between live
// objects counts as taken by dead ones.
func (m *Memory) lookBeside() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.looks {
		return
	}
	m.looks = true
	time.AfterFunc(sweptFor, func() {
		bytes := beside()
		m.mu.Lock()
		defer m.mu.Unlock()
		m.looks = false
		m.has(bytes, time.Now())
	})
}

// has sets the limit for so much beside the heap. The caller holds the lock.
func (m *Memory) has(beside uint64, now time.Time) {
	m.beside = beside
	m.set(goalAt(now, m.pages))
}

// beside is what counts for the memory limit and is no object: stacks, the runtime's own tables, and room between objects
// that is of use for others of their size only. With thousands of requests under way it is most of what the limit has
// left: each has four goroutines, and a crowd that comes and goes leaves few spans of the heap empty.
func beside() uint64 {
	classes := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
	}
	metrics.Read(classes)
	total := classes[0].Value.Uint64()
	for _, class := range classes[1:] {
		total -= min(total, class.Value.Uint64())
	}
	return total
}

// PageComes says that a page of a source is about to be read, or that a large event has come. Where the heap had more room than it may have beside pages,
// a collection begins at once.
func (m *Memory) PageComes() {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pages = time.Now()
	m.set(heapGoalOfPages)
}

// collected sets how far the heap may grow until the next collection.
func (m *Memory) collected(live uint64, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.live = live
	m.set(goalAt(now, m.pages))
}

// goalAt is where a collection begins, if a page was last read then.
func goalAt(now, pages time.Time) int64 {
	if now.Sub(pages) < pagesLinger {
		return heapGoalOfPages
	}
	return heapGoal
}

// set tells the runtime what has changed. The caller holds the lock.
func (m *Memory) set(goal int64) {
	if limit := limitFor(m.live, m.beside, goal); limit != m.limit {
		m.limit = limit
		if !m.limitFixed {
			debug.SetMemoryLimit(limit)
		}
	}
	percent := percentFor(m.live, goal)
	if percent < m.percent-changePercent || percent > m.percent+changePercent || percent == gcPercent && m.percent != gcPercent {
		m.percent = percent
		if !m.percentFixed {
			debug.SetGCPercent(percent)
		}
	}
}

// percentFor is by how much the heap may outgrow a live one of so many bytes, in percent of that.
func percentFor(live uint64, goal int64) int {
	if live == 0 {
		return gcPercent
	}
	return int(min(gcPercent, max(leastFor(goal), (goal-int64(live))*100/int64(live)))) //nolint:gosec // no heap is that large
}

// leastFor is by how much the heap may outgrow a live one that has nearly reached its goal, in percent.
func leastFor(goal int64) int64 {
	if goal == heapGoalOfPages {
		return leastOfPages
	}
	return leastPercent
}

// limitFor is the limit for a live heap of so many bytes. Near it, memory is given back as soon as it is free, only to be
// asked for again. A heap that comes near it is given room: below a limit that can't be kept the collector would take half
// of all processor time, and give back pages that are wanted at once.
func limitFor(live, beside uint64, goal int64) int64 {
	limit := goal + besideHeap
	room := int64(live)*(100+leastFor(goal))/100 + max(besideHeap, int64(beside)) //nolint:gosec // no heap is that large
	if room <= limit {
		return limit
	}
	return (room + limitStep - 1) / limitStep * limitStep
}

// afterEachCollection does something whenever the heap was collected: then what nobody holds is cleaned up.
func afterEachCollection(do func()) {
	held := &struct{ self *int }{}
	runtime.AddCleanup(held, func(do func()) {
		do()
		afterEachCollection(do)
	}, do)
}
