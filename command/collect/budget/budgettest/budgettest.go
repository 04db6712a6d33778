// Package budgettest tells tests and benchmarks what the reading of a page has cost.
package budgettest

import (
	"syscall"
	"time"
)

// ProcessorTime is what this process has had of processors so far: on a busy machine the clock tells of others.
func ProcessorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
