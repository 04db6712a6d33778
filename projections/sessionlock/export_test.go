package sessionlock

// StartBroken runs a session that panics when it is used, and when it is closed.
func StartBroken(l *Locks) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start(&session{})
}

// Break makes the next use of the session panic.
func Break(l *Locks) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = append(l.released, &Lock{}) // it has no channel to close
	l.wake()
}
