package retire

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/publication"
	"carillon/aggregates/retirement"
	"carillon/eventstore"
	"carillon/eventstore/panics"
)

// RemoverName is the name of the process manager.
const RemoverName = "retirement"

// atOnce is how many streams are deleted at the same time.
const atOnce = 16

// Remover is the process manager that deletes the streams of retired events and happenings. It runs whatever the
// settings are: retired streams are removed.
type Remover struct {
	eventstore.ProcessState

	store     eventstore.Store
	seal      func(ctx context.Context, at eventstore.Position) error
	tombstone func(ctx context.Context, stream string) error
}

// NewRemover makes a remover, with the function that seals the log up to an event, and the one that ends a stream of
// the store permanently; each run of it wants a fresh one.
func NewRemover(
	store eventstore.Store, seal func(ctx context.Context, at eventstore.Position) error,
	tombstone func(ctx context.Context, stream string) error,
) *Remover {
	return &Remover{store: store, seal: seal, tombstone: tombstone}
}

// Traits implements eventstore.ProcessManager.
func (*Remover) Traits() eventstore.Traits {
	return eventstore.Traits{
		Name:    RemoverName,
		Version: 1,
		Filter:  eventstore.Categories(retirement.Aggregate.Category),
		Lingers: true,
	}
}

// React implements eventstore.ProcessManager.
func (r *Remover) React(ctx context.Context, batch []eventstore.Recorded) error {
	for i := range batch {
		event, err := retirement.Events.Decode(&batch[i])
		if err != nil {
			return err
		}
		streams := Streams(event)
		if streams == nil { // its own
			continue
		}
		id := retirement.Aggregate.Evolve(retirement.State{}, event).Batch
		if err := r.remove(ctx, &batch[i], id, streams); err != nil {
			return err
		}
	}
	return nil
}

// Streams lists the streams that end with a batch, in the order in which they do.
func Streams(event retirement.Event) [][]string {
	switch e := event.(type) {
	case retirement.Retired:
		return streamsOf(e)
	case retirement.HappeningsRetired:
		return happeningStreams(e)
	case retirement.Removed: // ends none
	}
	return nil
}

// streamsOf lists the published events first, so that nothing is dispatched again, and the dispatches before the
// deliveries that they list.
func streamsOf(e retirement.Retired) [][]string {
	publications := make([]string, 0, len(e.Publications))
	var dispatches, deliveries []string
	for _, p := range e.Publications {
		publications = append(publications, publication.Aggregate.Stream(p.ID))
		if len(p.To) > 0 {
			dispatches = append(dispatches, dispatch.Aggregate.Stream(p.ID))
		}
		for _, to := range p.To {
			id := dispatch.DeliveryID(p.ID, e.Destinations[to].ID)
			deliveries = append(deliveries, delivery.Aggregate.Stream(id))
		}
	}
	return [][]string{publications, dispatches, deliveries}
}

// happeningStreams lists the happenings before their items, so that nothing is added to feeds again.
func happeningStreams(e retirement.HappeningsRetired) [][]string {
	happenings := make([]string, 0, len(e.Happenings))
	var items []string
	for _, h := range e.Happenings {
		happenings = append(happenings, happening.Aggregate.Stream(h.ID))
		for _, in := range h.In {
			items = append(items, item.Aggregate.Stream(item.ID(e.Feeds[in], h.ID)))
		}
	}
	return [][]string{happenings, items}
}

// remove deletes the streams of a batch, in their order. The batch is sealed before: a stream that ends without that
// was ended by another client. A kill leaves some, and the same batch comes again.
func (r *Remover) remove(
	ctx context.Context, recorded *eventstore.Recorded, batch uuid.UUID, inOrder [][]string,
) error {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	if err := r.seal(ctx, recorded.Position); err != nil {
		return fmt.Errorf("seal before streams are deleted: %w", err)
	}
	for _, streams := range inOrder {
		if err := r.end(ctx, streams); err != nil {
			return err
		}
	}
	// It is also the newest event then: what waits for the head of the store sees no tombstones.
	_, err := retirement.Aggregate.Execute(ctx, r.store, batch,
		retirement.Remove{At: recorded.RecordedAt()},
		retirement.Options{
			CommandID: uuid.NewSHA1(batch, []byte("removed")),
			Metadata:  eventstore.Metadata{Actor: actor, CausationID: recorded.ID},
		})
	return err
}

func (r *Remover) end(ctx context.Context, streams []string) error {
	ending, ctx := errgroup.WithContext(ctx)
	ending.SetLimit(atOnce)
	for _, stream := range streams {
		ending.Go(panics.Task("removal of streams", func() error {
			if err := r.tombstone(ctx, stream); err != nil && !errors.Is(err, eventstore.ErrStreamDeleted) {
				return fmt.Errorf("delete stream: %w", err)
			}
			return nil
		}))
	}
	return ending.Wait()
}
