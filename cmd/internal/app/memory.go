package app

import (
	"os"
	"runtime/debug"
)

const (
	gcPercent   = 400       // collect when the heap is five times what is live, …
	memoryLimit = 150 << 20 // … and more often as it gets near this
)

// TuneMemory lets the garbage collector run less often, which costs memory and saves processor time: the live heap is
// small. GOGC and GOMEMLIMIT override it.
func TuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
