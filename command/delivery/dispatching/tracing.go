package dispatching

import (
	"context"

	"carillon/eventstore"
)

// Tracer continues the trace of the request that published an event. The context of a span goes to the
// appends below it.
type Tracer interface {
	// Dispatch begins the span of a dispatch. own names it.
	Dispatch(ctx context.Context, cause eventstore.Trace, eventType string, deliveries int) (
		_ context.Context, own eventstore.Trace, end func(error))
}

// traceDispatch begins the span of a fan-out, if its publication is traced. end may be nil.
func (d *Dispatcher) traceDispatch(ctx context.Context, f *fanOut) (_ context.Context, end func(error)) {
	if d.Tracer == nil || f.trace == (eventstore.Trace{}) {
		return ctx, nil
	}
	ctx, f.trace, end = d.Tracer.Dispatch(ctx, f.trace, f.published.Type, len(f.scheduled))
	return ctx, end
}
