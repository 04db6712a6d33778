package stack_test

import (
	"testing"
	"unsafe"

	"carillon/eventstore/stack"
)

// deeper uses a lot of the stack.
//
//go:noinline
func deeper(n int) byte {
	var frame [512]byte
	if n > 0 {
		frame[n] = deeper(n - 1)
	}
	return frame[n]
}

func TestAGrownStackStaysWhereItIs(t *testing.T) {
	t.Parallel()
	const tries = 20 // a collection of garbage may move a stack as well
	for range tries {
		moved := make(chan bool)
		go func() {
			stack.Grow()
			var here byte
			before := uintptr(unsafe.Pointer(&here))
			here = deeper(18) // 10 KiB
			moved <- before != uintptr(unsafe.Pointer(&here))
		}()
		if !<-moved {
			return
		}
	}
	t.Error("the stack was moved each time")
}
