// Package budgettest measures the cost of reading a page for tests and benchmarks.
package budgettest

import (
	"syscall"
	"time"
)

// ProcessorTime returns the processor time of this process so far, which is independent of other load.
func ProcessorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
