//go:build !linux

package app

// LetNapsBeLate does nothing: this system has no slack of timers that could be set.
func LetNapsBeLate() {}
