package app

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// gcPercent is for a small live heap: collect when the heap is five times that.
	gcPercent = 400
	// heapGoal is where a collection begins however large the live heap is, unless that is nearly as large.
	heapGoal      = 110 << 20
	leastPercent  = 50
	memoryLimit   = 150 << 20 // of all, for a small live heap: near it, memory is given back as soon as it is free, only to be asked for again
	besideHeap    = 40 << 20  // what the runtime takes beside the heap: stacks, its own tables, pages yet to be given back
	limitStep     = 16 << 20  // the limit is no finer: each change stops the world
	changePercent = 10        // what is less than that is not worth stopping the world for
)

// TuneMemory lets the garbage collector run less often, which costs memory and saves processor time, as long as the live
// heap is small. A larger one gets less room instead of all there is below the limit: there the runtime was busy giving
// pages back and asking for them again. GOGC and GOMEMLIMIT override it.
func TuneMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	if os.Getenv("GOGC") != "" {
		return
	}
	debug.SetGCPercent(gcPercent)
	live, percent := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}, gcPercent
	limit := int64(memoryLimit)
	afterEachCollection(func() {
		metrics.Read(live)
		if next := limitFor(live[0].Value.Uint64()); os.Getenv("GOMEMLIMIT") == "" && next != limit {
			limit = next
			debug.SetMemoryLimit(limit)
		}
		if next := percentFor(live[0].Value.Uint64()); next < percent-changePercent || next > percent+changePercent || next == gcPercent && percent != gcPercent {
			percent = next
			debug.SetGCPercent(percent)
		}
	})
}

// percentFor is by how much the heap may outgrow a live one of so many bytes, in percent of that.
func percentFor(live uint64) int {
	if live == 0 {
		return gcPercent
	}
	return int(min(gcPercent, max(leastPercent, (int64(heapGoal)-int64(live))*100/int64(live)))) //nolint:gosec // no heap is that large
}

// limitFor is the limit for a live heap of so many bytes. One that comes near it is given room: below a limit that can't be
// kept the collector would take half of all processor time, and give back pages that are wanted at once.
func limitFor(live uint64) int64 {
	room := int64(live)*(100+leastPercent)/100 + besideHeap //nolint:gosec // no heap is that large
	if room <= memoryLimit {
		return memoryLimit
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
