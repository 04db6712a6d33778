package delivery

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"carillon/aggregates/delivery"
)

// attemptLines bounds the lines about attempts in one second: writing them must not cost what sending does.
const attemptLines = 50

// attemptLog writes one line for each recorded attempt: the last failure of a delivery at warn, other failures at info,
// successes at debug. Under load it leaves out
// what is too much, and the next line says how many that were. A line names the destination by its id: no URL, header,
// secret or body is in it.
type attemptLog struct {
	log *slog.Logger

	mu      sync.Mutex
	second  time.Time // the lines are of
	lines   int
	leftOut int // since the last line
}

func (l *attemptLog) write(ctx context.Context, job *Job, attempted delivery.Attempted) {
	level, outcome, exhausted := slog.LevelDebug, "succeeded", attempted.Status == delivery.StatusFailed
	switch {
	case exhausted:
		level, outcome = slog.LevelWarn, attempted.FailureReason
	case !attempted.Succeeded():
		level, outcome = slog.LevelInfo, attempted.FailureReason
	}
	if !l.log.Enabled(ctx, level) {
		return
	}
	leftOut, ok := l.take(time.Now())
	if !ok {
		return
	}
	attributes := []slog.Attr{
		slog.String("destination", job.Destination.String()), slog.String("delivery", job.ID.String()),
		slog.String("event", job.Body.Event.String()), slog.String("type", job.Body.Published.Type),
		slog.Int("attempt", attempted.Number), slog.String("outcome", outcome),
		slog.Int("status", attempted.ResponseStatus), slog.Duration("duration", attempted.Duration()),
	}
	if !attempted.NextAttemptAt.IsZero() {
		attributes = append(attributes, slog.Time("next", attempted.NextAttemptAt))
	}
	if attempted.LostRace() {
		attributes = append(attributes, slog.Bool("lostRace", true))
	}
	if leftOut > 0 {
		attributes = append(attributes, slog.Int("leftOut", leftOut))
	}
	if exhausted {
		l.log.LogAttrs(ctx, level, "delivery failed permanently", attributes...)
		return
	}
	l.log.LogAttrs(ctx, level, "delivery attempted", attributes...)
}

// take says whether there may be one more line in this second, and how many were left out before it.
func (l *attemptLog) take(now time.Time) (leftOut int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.second) >= time.Second {
		l.second, l.lines = now, 0
	}
	if l.lines == attemptLines {
		l.leftOut++
		return 0, false
	}
	l.lines++
	leftOut, l.leftOut = l.leftOut, 0
	return leftOut, true
}
