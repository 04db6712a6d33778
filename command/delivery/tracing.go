package delivery

import (
	"context"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/command/webhook"
	"carillon/eventstore"
)

// Tracer continues the trace of the request that published an event. The context of a span goes to the
// appends below it.
type Tracer interface {
	// Dispatch begins the span of a dispatch. own names it.
	Dispatch(ctx context.Context, cause eventstore.Trace, eventType string, deliveries int) (
		_ context.Context, own eventstore.Trace, end func(error))
	// Attempt begins the span of an attempt. own names it.
	Attempt(ctx context.Context, cause eventstore.Trace, job *Job) (
		_ context.Context, own eventstore.Trace, end func(webhook.Result))
}

// traceDispatch begins the span of a fan-out, if its publication is traced. end may be nil.
func (d *Dispatcher) traceDispatch(ctx context.Context, f *fanOut) (_ context.Context, end func(error)) {
	if d.Tracer == nil || f.trace == (eventstore.Trace{}) {
		return ctx, nil
	}
	ctx, f.trace, end = d.Tracer.Dispatch(ctx, f.trace, f.published.Type, len(f.scheduled))
	return ctx, end
}

// traceAttempt begins the span of an attempt, if its dispatch, the attempt before or the request to replay it is
// traced. end may be nil.
func (d *Deliverer) traceAttempt(
	ctx context.Context, job *Job,
) (_ context.Context, own eventstore.Trace, end func(webhook.Result)) {
	if d.Tracer == nil {
		return ctx, eventstore.Trace{}, nil
	}
	cause := job.Body.Trace
	if !job.fresh {
		cause = d.lastTrace(ctx, job)
	}
	if cause == (eventstore.Trace{}) {
		return ctx, eventstore.Trace{}, nil
	}
	return d.Tracer.Attempt(ctx, cause, job)
}

// lastTrace reads which span made a claimed delivery due: it is stored with the delivery's last event, or else
// with its dispatch. An unreachable store only ends the trace.
func (d *Deliverer) lastTrace(ctx context.Context, job *Job) (last eventstore.Trace) {
	if job.Known == nil || job.Known.Revision > eventstore.NoStream {
		from := eventstore.Revision(0)
		if job.Known != nil {
			from = job.Known.Revision
		}
		for recorded, err := range d.Store.Read(ctx, delivery.Aggregate.Stream(job.ID), from) {
			if err != nil {
				return eventstore.Trace{}
			}
			last = recorded.Trace()
		}
		return last
	}
	for recorded, err := range d.Store.Read(ctx, dispatch.Aggregate.Stream(job.Body.Event), 0) {
		if err != nil {
			return eventstore.Trace{}
		}
		return recorded.Trace() // later ones name the same span
	}
	return eventstore.Trace{}
}
