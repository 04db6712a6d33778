package sessionlock

// Break makes the next use of the session panic.
func Break(l *Locks) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.released = append(l.released, &Lock{}) // it has no channel to close
	l.wake()
}
