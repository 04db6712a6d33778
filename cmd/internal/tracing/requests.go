package tracing

import (
	"net/http"

	"github.com/go-chi/chi/v5/middleware"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"carillon/cmd/internal/wire"
)

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
