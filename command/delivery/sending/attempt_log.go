package sending

import (
	"context"
	"log/slog"
	"time"

	"carillon/aggregates/delivery"
	"carillon/command/delivery/schedule"
	"carillon/command/sampling"
)

// attemptLines bounds the lines about attempts: writing them must not cost what sending does.
var attemptLines = sampling.Rule{
	Lines: 50,
	Per:   time.Second,
	Count: "leftOut",
}

// logAttempt writes one line for each recorded attempt: the last failure of a delivery at warn, other failures at info,
// successes at debug. A line names the destination by its id: no URL, header, secret or body is in it.
func logAttempt(ctx context.Context, log *slog.Logger, held *schedule.Delivery, attempted delivery.Attempted) {
	level, outcome, exhausted := slog.LevelDebug, "succeeded", attempted.Status == delivery.StatusFailed
	switch {
	case exhausted:
		level, outcome = slog.LevelWarn, string(attempted.FailureReason)
	case !attempted.Succeeded():
		level, outcome = slog.LevelInfo, string(attempted.FailureReason)
	}
	if !log.Enabled(ctx, level) {
		return
	}
	attributes := []slog.Attr{
		slog.String("destination", held.Destination.String()), slog.String("delivery", held.ID.String()),
		slog.String("event", held.Event.String()), slog.String("type", bodyOf(held).Published.Type),
		slog.Int("attempt", attempted.Number), slog.String("outcome", outcome),
		slog.Int("status", attempted.ResponseStatus), slog.Duration("duration", attempted.Duration()),
	}
	if !attempted.NextAttemptAt.IsZero() {
		attributes = append(attributes, slog.Time("next", attempted.NextAttemptAt))
	}
	if attempted.LostRace() {
		attributes = append(attributes, slog.Bool("lostRace", true))
	}
	if exhausted {
		log.LogAttrs(ctx, level, "delivery failed permanently", attributes...)
		return
	}
	log.LogAttrs(ctx, level, "delivery attempted", attributes...)
}
