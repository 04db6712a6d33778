package tracing

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestSwitchedOn(t *testing.T) {
	const endpoint = "http://collector:4318"
	for name, c := range map[string]struct {
		set     map[string]string
		on, err bool
	}{
		"without variables":  {nil, false, false},
		"endpoint":           {map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint}, true, false},
		"endpoint of traces": {map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": endpoint}, true, false},
		"exporter":           {map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, false},
		"none": {map[string]string{
			"OTEL_TRACES_EXPORTER":        "none",
			"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
		}, false, false},
		"disabled": {map[string]string{
			"OTEL_SDK_DISABLED":           "true",
			"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint,
		}, false, false},
		"unknown exporter": {map[string]string{"OTEL_TRACES_EXPORTER": "zipkin"}, false, true},
		"unknown protocol": {map[string]string{
			"OTEL_TRACES_EXPORTER":        "otlp",
			"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
		}, false, true},
		"protocol of traces": {map[string]string{
			"OTEL_TRACES_EXPORTER":               "otlp",
			"OTEL_EXPORTER_OTLP_PROTOCOL":        "grpc",
			"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
		}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, variable := range []string{"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT",
				"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"} {
				t.Setenv(variable, c.set[variable])
			}
			on, err := switchedOn()
			assert.True(t, on == c.on && (err != nil) == c.err, "on = %v, %v", on, err)
		})
	}
}

// The path and parameters of a collector, and its headers, are in no log and no error.
func TestTracingHidesSecrets(t *testing.T) {
	const secret = "hunter2"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	for _, endpoint := range []string{server.URL + "/" + secret, "http://127.0.0.1:1/" + secret} {
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
		var logged bytes.Buffer
		tracing := must.Get(Open(t.Context(), "test", slog.New(slog.NewTextHandler(&logged, nil))))(t)
		_, span := tracing.tracer.Start(t.Context(), "span")
		span.End()
		if err := tracing.provider.ForceFlush(t.Context()); err != nil {
			otel.Handle(err)
		}
		tracing.Close()
		assert.True(t, strings.Contains(logged.String(), "traces not exported") && !strings.Contains(logged.String(), secret),
			"%s: %s", endpoint, logged.String())
	}
	for name, value := range map[string]string{
		"OTEL_EXPORTER_OTLP_ENDPOINT":       "https://ho st/" + secret,
		"OTEL_EXPORTER_OTLP_HEADERS":        secret,
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "key=" + secret + "%zz",
	} {
		t.Setenv(name, value)
		_, err := Open(t.Context(), "test", slog.New(slog.DiscardHandler))
		assert.True(t, err != nil && !strings.Contains(err.Error(), secret) && strings.HasPrefix(err.Error(), name),
			"%s: %v", name, err)
		t.Setenv(name, "")
		t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", server.URL)
	}
}

// appends is a store that keeps the last append.
type appends struct {
	Backend

	last []eventstore.Proposed
	err  error
}

func (a *appends) Append(
	_ context.Context, _ string, _ eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	a.last = events
	return eventstore.Appended{}, a.err
}

// Only events of a sampled span get its traceparent. The caller's own, and untraced ones, stay as they are.
func TestStoreMarksSampledAppends(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(spans))
	tracing := &Tracing{provider: provider, tracer: provider.Tracer("test")}
	backend := &appends{}
	store := tracing.Store(backend)
	proposed := []eventstore.Proposed{{ID: uuid.New(), Metadata: []byte(`{"actor":"me","schemaVersion":1}`)}}
	untraced := func(ctx context.Context) {
		t.Helper()
		must.Get(store.Append(ctx, "item-1", eventstore.NoStream, proposed))(t)
		if &backend.last[0] != &proposed[0] || len(spans.GetSpans()) != 0 {
			t.Errorf("events = %+v, spans = %v", backend.last, spans.GetSpans())
		}
	}
	untraced(t.Context())
	untraced(below(t.Context(), eventstore.Trace{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"}))

	sampled := eventstore.Trace{
		Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: `congo=t61,rojo="quoted\\"`,
	}
	backend.err = errors.New("refused")
	_, err := store.Append(below(t.Context(), sampled), "item-1", eventstore.NoStream, proposed)
	assert.Is(t, err, backend.err, "err")
	recorded := eventstore.Recorded{Metadata: backend.last[0].Metadata}
	metadata, err := eventstore.ParseMetadata(recorded.Metadata)
	assert.True(t, err == nil && metadata.Actor == "me" && recorded.Trace() == sampled,
		"metadata = %s, %v", recorded.Metadata, err)
	if string(proposed[0].Metadata) != `{"actor":"me","schemaVersion":1}` {
		t.Errorf("the caller's event became %s", proposed[0].Metadata)
	}
	if got := spans.GetSpans(); len(got) != 1 || got[0].Name != "append item" || got[0].Status.Description != "refused" {
		t.Errorf("spans = %v", got)
	}
}

// An append that is not traced allocates nothing more. Allocations are counted, so that it can't run in parallel.
func TestStoreUntracedAllocatesNothing(t *testing.T) {
	provider := sdk.NewTracerProvider()
	store := (&Tracing{provider: provider, tracer: provider.Tracer("test")}).Store(&appends{})
	ctx, events := t.Context(), []eventstore.Proposed{{}}
	assert.Equal(t, testing.AllocsPerRun(100, func() {
		_, _ = store.Append(ctx, "item-1", eventstore.NoStream, events)
	}), 0, "allocations")
}
