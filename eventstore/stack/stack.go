// Package stack spares a goroutine that is made for one task the growing of its stack. That begins with 2 KiB, and is
// copied each time it is too small, frame by frame: two or three times where JSON is read or a request is sent.
package stack

const deep = 12 << 10

var never bool

// Grow gives the calling goroutine a stack of 16 KiB at once, while there is hardly anything to copy.
//
//go:noinline
func Grow() {
	if never { // a frame has its room whether it is used or not
		var room [deep]byte
		use(&room)
	}
}

//go:noinline
func use(*[deep]byte) {}
