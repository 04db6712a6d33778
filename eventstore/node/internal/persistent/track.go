package persistent

import "time"

// track follows messages in the order they were read, to know up to where all are done.
type track struct {
	messages []*message
	cursor   uint64 // behind everything read
	done     int    // since the last mark
	marked   uint64 // the last checkpoint
	markedAt time.Time
}

func (t *track) add(m *message) { t.messages = append(t.messages, m) }

// finish notes that a message is done.
func (t *track) finish(m *message) {
	m.done = true
	t.done++
	n := 0
	for n < len(t.messages) && t.messages[n].done {
		t.messages[n] = nil
		n++
	}
	t.messages = t.messages[n:]
}

// low is the cursor before which everything is done.
func (t *track) low() uint64 {
	if len(t.messages) > 0 {
		return t.messages[0].before
	}
	return t.cursor
}

// due reports whether a checkpoint should be written now. Without further messages wait says when to ask again;
// 0 is not before something happens.
func (t *track) due(s Settings, now time.Time) (due bool, wait time.Duration) {
	if t.low() == t.marked {
		return false, 0
	}
	if t.done >= int(s.MaxCheckpoint) {
		return true, 0
	}
	if t.done < int(s.MinCheckpoint) || s.CheckpointAfter == 0 {
		return false, 0
	}
	if wait = s.CheckpointAfter - now.Sub(t.markedAt); wait <= 0 {
		return true, 0
	}
	return false, wait
}

// mark notes that a checkpoint was written, or is being.
func (t *track) mark(now time.Time) uint64 {
	t.marked, t.markedAt, t.done = t.low(), now, 0
	return t.marked
}
