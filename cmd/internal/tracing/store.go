package tracing

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"carillon/eventstore"
)

// Backend is an event store that has an identity.
type Backend interface {
	eventstore.Store
	Identity(ctx context.Context) (string, error)
}

// Store is an event store that makes a span for each append of a sampled trace, and stores with the events which span
// caused them. It changes nothing else.
type Store struct {
	Backend

	tracer trace.Tracer
}

// Store returns a store on another one.
func (t *Tracing) Store(backend Backend) *Store { return &Store{Backend: backend, tracer: t.tracer} }

// Append implements eventstore.Store.
func (s *Store) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	cause := trace.SpanContextFromContext(ctx)
	if !cause.IsSampled() {
		return s.Backend.Append(ctx, stream, expected, events)
	}
	category, _, _ := strings.Cut(stream, "-")
	ctx, span := s.tracer.Start(ctx, "append "+category, trace.WithAttributes(
		attribute.String("carillon.stream.category", category),
		attribute.Int64("carillon.stream.expected_revision", int64(expected)),
		attribute.Int("carillon.events", len(events)),
	))
	defer span.End()
	appended, err := s.Backend.Append(ctx, stream, expected, causedBy(traceOf(cause), events))
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	return appended, err
}

// causedBy returns copies of events with a span in their metadata.
func causedBy(cause eventstore.Trace, events []eventstore.Proposed) []eventstore.Proposed {
	const emptyObject = len("{}")
	marked := make([]eventstore.Proposed, len(events))
	for i, event := range events {
		if marked[i] = event; len(event.Metadata) > emptyObject {
			member := []byte(`{"` + traceparentName + `":"` + cause.Parent + `",`)
			if cause.State != "" {
				member, _ = jsontext.AppendQuote(append(member, `"`+tracestateName+`":`...), cause.State) // it is ASCII
				member = append(member, ',')
			}
			marked[i].Metadata = slices.Concat(member, event.Metadata[1:])
		}
	}
	return marked
}
