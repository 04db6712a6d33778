package app

import (
	"os"
	"runtime/debug"
)

const (
	gcPercent   = 400       // collect when the heap is five times what is live, …
	memoryLimit = 200 << 20 // … and more often as it gets near this
)

// TuneMemory trades memory that a server has for processor time that it has not: its live heap is small. The usual
// variables of the Go runtime have the last word.
func TuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
}
