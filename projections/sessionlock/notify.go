package sessionlock

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"carillon/eventstore/panics"
)

const (
	together   = 4 * time.Millisecond // between two statements that notify
	maxPending = 256                  // notifications that wait for the session
	trustFor   = time.Minute          // until a sender is looked up again: its process id may be another session's
)

// notification is sent to all that listen to its channel.
type notification struct{ channel, payload string }

// Notify sends a message to all that listen to a channel, this process included, outside of any transaction of others.
// It does not wait: messages within a few milliseconds go in one statement, equal ones once, and messages while the
// session is being opened again go when it is open. A channel without listeners costs as much.
func (l *Locks) Notify(channel, payload string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := notification{channel, payload}
	if l.ended == nil || slices.Contains(l.pending, n) {
		return
	}
	if len(l.pending) == maxPending { // Postgres is away: the newest matter most
		l.pending = l.pending[1:]
	}
	l.pending = append(l.pending, n)
	l.wake()
}

// Listen calls heard with each notification of a channel, until the context ends. heard must not wait for anything.
// Notifications are lost while the session is being opened again: an empty payload says that from now on none is.
func (l *Locks) Listen(ctx context.Context, channel string, heard func(payload string)) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	if l.ended == nil {
		l.start(nil)
	}
	l.channels[channel] = func(payload string) { // a listener that fails costs no lock
		panics.Func("listener of "+channel, func() { heard(payload) })()
	}
	l.wake()
	l.mu.Unlock()
	<-ctx.Done()
	l.mu.Lock()
	delete(l.channels, channel)
	l.mu.Unlock()
}

// listens says on channels that all is heard from now on.
func (l *Locks) listens(s *session, channels []string) {
	for _, channel := range channels {
		s.listening[channel] = true
		l.mu.Lock()
		heard := l.channels[channel]
		l.mu.Unlock()
		if heard != nil {
			heard("")
		}
	}
}

// sender is a session that notified.
type sender struct {
	ours  bool
	until time.Time
}

// trusts reports whether a session that notified is of the product: every user of Postgres may NOTIFY. One that has
// ended meanwhile is not.
func (s *session) trusts(ctx context.Context, pid uint32, now time.Time) (bool, error) {
	known, there := s.senders[pid]
	if there && now.Before(known.until) {
		return known.ours, nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	known = sender{until: now.Add(trustFor)}
	err := s.conn.QueryRow(ctx, "SELECT coalesce((SELECT "+ofProduct+" FROM pg_stat_activity WHERE pid = $1), false)",
		int32(pid)).Scan(&known.ours) //nolint:gosec // Postgres' process ids fit
	if err != nil {
		return false, fmt.Errorf("look up who notified: %w", err)
	}
	maps.DeleteFunc(s.senders, func(_ uint32, other sender) bool { return !now.Before(other.until) })
	s.senders[pid] = known
	return known.ours, nil
}
