package app

import (
	"os"
	"runtime"
	"syscall"
	"time"
)

const (
	setTimerSlack = 29 // PR_SET_TIMERSLACK
	getTimerSlack = 30 // PR_GET_TIMERSLACK

	// slack is how late a timer may be. Go's are late by as much anyway: it waits in whole milliseconds.
	slack = time.Millisecond
	// begunAgain says that this process has begun again, with whatever slack came of it.
	begunAgain = "CARILLON_BEGUN_AGAIN"
)

// LetNapsBeLate lets timers of this process be late by a millisecond, where Linux has them late by 50 µs. A thread of Go's
// runtime naps for 20 µs at a time as long as anything goes on: each nap costs a switch of context, and they were a sixth
// of all processor time when little happened. A thread sets its own slack and hands it down to those that it makes, and
// the runtime makes that one before any code of ours runs. So the program begins again, once: as the same process, with
// the same arguments. Call it first of all: a signal that was taken in before is forgotten by then. Where it can't be done everything works, and costs more.
func LetNapsBeLate() {
	if os.Getenv(begunAgain) != "" {
		_ = os.Unsetenv(begunAgain)
		return
	}
	runtime.LockOSThread() // whose slack is kept
	defer runtime.UnlockOSThread()
	if timerSlack() >= slack {
		return // whoever started it saw to that
	}
	program, err := os.Executable()
	if err != nil {
		return
	}
	if _, _, failed := syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, uintptr(slack), 0); failed != 0 {
		return
	}
	_ = syscall.Exec(program, os.Args, append(os.Environ(), begunAgain+"=1")) //nolint:gosec // this very program
}

// timerSlack is that of the thread that asks.
func timerSlack() time.Duration {
	of, _, _ := syscall.RawSyscall(syscall.SYS_PRCTL, getTimerSlack, 0, 0)
	return time.Duration(of) //nolint:gosec // nanoseconds
}
