package tracing

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5/middleware"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"carillon/cmd/internal/wire"
	"carillon/command/delivery/dispatching"
	"carillon/command/delivery/schedule"
	"carillon/command/delivery/sending"
	"carillon/command/webhook"
	"carillon/eventstore"
)

var (
	_ dispatching.Tracer = (*Tracing)(nil)
	_ sending.Tracer     = (*Tracing)(nil)
)

// Dispatch implements dispatching.Tracer.
func (t *Tracing) Dispatch(
	ctx context.Context, cause eventstore.Trace, eventType string, deliveries int,
) (_ context.Context, own eventstore.Trace, end func(error)) {
	//nolint:spancheck // the caller ends it
	ctx, span := t.tracer.Start(below(ctx, cause), "dispatch", trace.WithAttributes(
		attribute.String("carillon.event.type", eventType),
		attribute.Int("carillon.deliveries", deliveries),
	))
	return ctx, traceOf(span.SpanContext()), func(err error) { //nolint:spancheck // as above
		if err != nil {
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
	}
}

// Attempt implements sending.Tracer. The span has no address: it may contain credentials.
func (t *Tracing) Attempt(
	ctx context.Context, cause eventstore.Trace, held *schedule.Delivery,
) (_ context.Context, own eventstore.Trace, end func(webhook.Result)) {
	//nolint:spancheck // the caller ends it
	ctx, span := t.tracer.Start(below(ctx, cause), "attempt", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(
			attribute.String("carillon.destination.id", held.Destination.String()),
			attribute.String("carillon.delivery.id", held.ID.String()),
			attribute.Int("carillon.attempt", held.Attempts+1),
		))
	return ctx, traceOf(span.SpanContext()), func(result webhook.Result) { //nolint:spancheck // as above
		outcome := "succeeded"
		switch {
		case result.Aborted:
			outcome = "aborted"
		case !result.OK():
			outcome = string(result.FailureReason)
			span.SetStatus(codes.Error, outcome)
		}
		span.SetAttributes(attribute.String("carillon.outcome", outcome))
		if result.StatusCode != 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", result.StatusCode))
		}
		span.End()
	}
}

// Requests makes a span for each request: named by its route, without path, query string, headers and body. It belongs
// below the access log.
func (t *Tracing) Requests(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, method := r.Context(), wire.MethodLabel(r.Method)
		if t.joins {
			ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(r.Header))
		}
		ctx, span := t.tracer.Start(ctx, method, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			attribute.String("http.request.method", method),
			attribute.String("carillon.request.id", wire.RequestIDOf(ctx).String()),
		))
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
		route := wire.PatternOf(ctx)
		span.SetName(method + " " + route)
		span.SetAttributes(attribute.String("http.route", route))
		if answered, ok := w.(middleware.WrapResponseWriter); ok && answered.Status() != 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", answered.Status()))
			if answered.Status() >= http.StatusInternalServerError {
				span.SetStatus(codes.Error, "")
			}
		}
	})
}
