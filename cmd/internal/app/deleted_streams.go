package app

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/publication"
	"carillon/eventstore"
)

// retirable are the categories whose streams a retirement deletes.
var retirable = []string{
	publication.Aggregate.Category, dispatch.Aggregate.Category, delivery.Aggregate.Category,
	happening.Aggregate.Category, item.Aggregate.Category,
}

// deletedStreams is the event store, and reports streams that another client of the store has deleted.
type deletedStreams struct {
	eventStore

	log   *slog.Logger
	count prometheus.Counter

	mu    sync.Mutex
	known map[string]struct{}
}

func (s *stores) watchDeletedStreams() {
	watched := &deletedStreams{
		eventStore: s.store,
		log:        s.log,
		count: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "carillon_eventstore_deleted_streams_total",
			Help: "Streams that this process needed and another client of the event store has deleted.",
		}),
		known: map[string]struct{}{},
	}
	s.Metrics.MustRegister(watched.count)
	s.store = watched
}

// Append implements eventstore.Store.
func (s *deletedStreams) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	appended, err := s.eventStore.Append(ctx, stream, expected, events)
	s.report(stream, err)
	return appended, err
}

// Read implements eventstore.Store.
func (s *deletedStreams) Read(
	ctx context.Context, stream string, from eventstore.Revision,
) iter.Seq2[eventstore.Recorded, error] {
	return func(yield func(eventstore.Recorded, error) bool) {
		for recorded, err := range s.eventStore.Read(ctx, stream, from) {
			s.report(stream, err)
			if !yield(recorded, err) {
				return
			}
		}
	}
}

// report reports a stream once.
func (s *deletedStreams) report(stream string, err error) {
	if err == nil || !errors.Is(err, eventstore.ErrStreamDeleted) {
		return
	}
	if category, _, _ := strings.Cut(stream, "-"); slices.Contains(retirable, category) {
		return
	}
	s.mu.Lock()
	_, known := s.known[stream]
	s.known[stream] = struct{}{}
	s.mu.Unlock()
	if !known {
		s.count.Inc()
		s.log.Error("stream was deleted by another client of the event store", "stream", stream)
	}
}
