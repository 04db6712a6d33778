// Package tracing follows requests over processes and retries by OpenTelemetry, as its standard variables have it
// (OTEL_*). It is off without them.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"carillon/command/egress"
	"carillon/eventstore"
)

// closeTimeout bounds the export of the last spans when the process ends.
const closeTimeout = 5 * time.Second

// Names of the headers, and of the members of metadata.
const (
	traceparentName = "traceparent"
	tracestateName  = "tracestate"
	maxTracestate   = 512 // characters. The W3C asks to pass on as many; a longer one is left out
)

// Tracing makes spans and exports them in the background. Spans that its bounded queue has no room for are dropped.
type Tracing struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	joins    bool // traces of callers are continued
}

// Open starts tracing as the standard variables say. It returns nil if they don't switch it on. It connects to nothing.
func Open(ctx context.Context, version string, log *slog.Logger) (*Tracing, error) {
	on, err := switchedOn()
	if err == nil && on {
		err = checkSecrets()
	}
	if err != nil || !on {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", egress.HideAddresses(err))
	}
	origin, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", "carillon"), attribute.String("service.version", version)),
		resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("traces not exported", "error", egress.HideAddresses(err))
	}))
	provider := sdk.NewTracerProvider(sdk.WithBatcher(exporter), sdk.WithResource(origin))
	propagators := cmp.Or(os.Getenv("OTEL_PROPAGATORS"), "tracecontext")
	return &Tracing{
		provider: provider,
		tracer:   provider.Tracer("carillon", trace.WithInstrumentationVersion(version)),
		joins:    strings.Contains(propagators, "tracecontext"),
	}, nil
}

// switchedOn reports whether the variables switch tracing on, and refuses values that this program does not know.
func switchedOn() (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	switch exporter := os.Getenv("OTEL_TRACES_EXPORTER"); exporter {
	case "none":
		return false, nil
	case "":
		if os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "" {
			return false, nil
		}
	case "otlp":
	default:
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q: set it to otlp or none", exporter)
	}
	const known = "http/protobuf"
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		switch protocol := os.Getenv(name); protocol {
		case "":
		case known:
			return true, nil
		default:
			return false, fmt.Errorf("%s is %q: set it to %s, and the endpoint to the collector's port for HTTP, usually 4318",
				name, protocol, known)
		}
	}
	return true, nil
}

// checkSecrets refuses malformed addresses and headers of the collector, which the library would write to the log.
func checkSecrets() error {
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		address, err := url.Parse(strings.TrimSpace(os.Getenv(name)))
		if os.Getenv(name) != "" && (err != nil || address.Host == "" ||
			address.Scheme != "http" && address.Scheme != "https") {
			return fmt.Errorf("%s must look like http://host:4318 or https://host/path", name)
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		for header := range strings.SplitSeq(os.Getenv(name), ",") {
			key, value, valid := strings.Cut(header, "=")
			_, err := url.PathUnescape(value)
			if os.Getenv(name) != "" && (!valid || strings.TrimSpace(key) == "" || err != nil) {
				return fmt.Errorf("%s must look like name=value,name=value, with the values percent-encoded", name)
			}
		}
	}
	return nil
}

// Close exports what is left, for 5 s at most. A nil Tracing has nothing to export.
func (t *Tracing) Close() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// traceOf returns the span as the W3C writes it; empty if it is not sampled.
func traceOf(span trace.SpanContext) eventstore.Trace {
	if !span.IsSampled() {
		return eventstore.Trace{}
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), span), carrier)
	if len(carrier[tracestateName]) > maxTracestate {
		delete(carrier, tracestateName)
	}
	return eventstore.Trace{Parent: carrier[traceparentName], State: carrier[tracestateName]}
}

// below returns a context whose spans are children of a span of maybe another process.
func below(ctx context.Context, cause eventstore.Trace) context.Context {
	return propagation.TraceContext{}.Extract(ctx,
		propagation.MapCarrier{traceparentName: cause.Parent, tracestateName: cause.State})
}
