package app

import (
	"os"
	"runtime/debug"
)

const (
	// memoryLimit is the default of GOMEMLIMIT: a server at full speed stays below 300 MB.
	memoryLimit = 256 << 20
	// gcPercent is the default of GOGC. The live heap is small, so there is room below the limit for fewer collections.
	gcPercent = 400
)

// LimitMemory sets the defaults of GOMEMLIMIT and GOGC for a server.
func LimitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
