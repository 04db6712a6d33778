package sending

import (
	"context"
	"log/slog"
	"time"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/command/delivery/schedule"
	"carillon/command/sampling"
	"carillon/command/webhook"
	"carillon/eventstore"
)

// Tracer continues the trace of the request that published an event. The context of a span goes to the
// appends below it.
type Tracer interface {
	// Attempt begins the span of an attempt. own names it.
	Attempt(ctx context.Context, cause eventstore.Trace, held *schedule.Delivery) (
		_ context.Context, own eventstore.Trace, end func(webhook.Result))
}

// traceAttempt begins the span of an attempt, if its dispatch, the attempt before or the request to replay it is
// traced. end may be nil.
func (d *Deliverer) traceAttempt(
	ctx context.Context, held *schedule.Delivery,
) (_ context.Context, own eventstore.Trace, end func(webhook.Result)) {
	if d.Tracer == nil {
		return ctx, eventstore.Trace{}, nil
	}
	cause := bodyOf(held).Trace
	if held.Claimed {
		cause = d.lastTrace(ctx, held)
	}
	if cause == (eventstore.Trace{}) {
		return ctx, eventstore.Trace{}, nil
	}
	return d.Tracer.Attempt(ctx, cause, held)
}

// lastTrace reads which span made a claimed delivery due: it is stored with the delivery's last event, or else
// with its dispatch. An unreachable store only ends the trace.
func (d *Deliverer) lastTrace(ctx context.Context, held *schedule.Delivery) (last eventstore.Trace) {
	if known := knownOf(held); known == nil || known.Revision > eventstore.NoStream {
		from := eventstore.Revision(0)
		if known != nil {
			from = known.Revision
		}
		for recorded, err := range d.Store.Read(ctx, delivery.Aggregate.Stream(held.ID), from) {
			if err != nil {
				return eventstore.Trace{}
			}
			last = recorded.Trace()
		}
		return last
	}
	for recorded, err := range d.Store.Read(ctx, dispatch.Aggregate.Stream(held.Event), 0) {
		if err != nil {
			return eventstore.Trace{}
		}
		return recorded.Trace() // later ones name the same span
	}
	return eventstore.Trace{}
}

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
