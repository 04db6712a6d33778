package retire_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/publication"
	"carillon/aggregates/retirement"
	"carillon/command/retire"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var errKilled = errors.New("killed")

// A remover that is killed after any stream is followed by another one, which gets the batch again.
func TestRemover(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	event, to := uuid.New(), uuid.New()
	retired := retirement.Retired{
		Batch:        uuid.New(),
		Publications: []retirement.Publication{{ID: event, To: []int{0}}},
		Destinations: []retirement.Destination{{ID: to}},
		At:           now,
	}
	streams := []string{
		publication.Aggregate.Stream(event), dispatch.Aggregate.Stream(event),
		"delivery-" + dispatch.DeliveryID(event, to).String(),
	}
	removes(t, retirement.LogID, retirement.Retire(retired), retired.Batch, streams)
}

func TestRemover_happenings(t *testing.T) {
	t.Parallel()
	id, feed := uuid.New(), uuid.New()
	retired := retirement.HappeningsRetired{
		Batch:      uuid.New(),
		Happenings: []retirement.Happening{{ID: id, In: []int{0}}},
		Feeds:      []uuid.UUID{feed},
		At:         time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
	}
	removes(t, retirement.HappeningsLogID, retirement.RetireHappenings(retired), retired.Batch, []string{
		happening.Aggregate.Stream(id), item.Aggregate.Stream(item.ID(feed, id)),
	})
}

// removes kills removers of a batch after each of its streams.
func removes(t *testing.T, log uuid.UUID, command retirement.Command, batch uuid.UUID, streams []string) {
	t.Helper()
	store := nodetest.Start(t)
	for _, stream := range streams {
		must.Get(store.Append(t.Context(), stream, eventstore.NoStream, []eventstore.Proposed{
			{ID: uuid.New(), Type: "thing.happened.v1", Data: []byte("{}")},
		}))(t)
	}
	must.Get(retirement.Aggregate.Execute(t.Context(), store, log, command, retirement.Options{}))(t)
	var recorded []eventstore.Recorded
	for e, err := range store.Read(t.Context(), retirement.Aggregate.Stream(log), 0) {
		must.OK(t, err)
		recorded = append(recorded, e)
	}
	for killedAt := range len(streams) + 2 {
		var ended []string
		sealed := eventstore.Start
		remover := retire.NewRemover(store, func(_ context.Context, at eventstore.Position) error {
			sealed = at
			return nil
		}, func(ctx context.Context, stream string) error {
			if len(ended) == killedAt {
				return errKilled
			}
			assert.True(t, !sealed.Before(recorded[0].Position), "%s is deleted before its retirement is sealed", stream)
			ended = append(ended, stream)
			return store.Tombstone(ctx, stream)
		})
		err := remover.React(t.Context(), recorded)
		if (err != nil) != (killedAt < len(streams)) || !slices.Equal(ended, streams[:min(killedAt, len(streams))]) {
			t.Errorf("killed at %d: %v were deleted, %v", killedAt, ended, err)
		}
	}
	for _, stream := range streams {
		for _, err := range store.Read(t.Context(), stream, 0) {
			assert.Is(t, err, eventstore.ErrStreamDeleted, "%s", stream)
		}
	}
	removed, err := retirement.Aggregate.Load(t.Context(), store, batch)
	assert.True(t, err == nil && removed.State.Removed && removed.Revision == 0,
		"removed %v at revision %d, %v", removed.State.Removed, removed.Revision, err)
	for e := range store.Read(t.Context(), retirement.Aggregate.Stream(batch), 0) {
		metadata, err := eventstore.ParseMetadata(e.Metadata)
		event, decodeErr := retirement.Events.Decode(&e)
		if err != nil || decodeErr != nil || metadata.Actor != "retirement" || metadata.CausationID != recorded[0].ID ||
			event != retirement.Event(retirement.Removed{At: recorded[0].RecordedAt()}) {
			t.Errorf("%+v, because of %s", event, metadata.CausationID)
		}
	}
	// Subscribers get events of the program alone, in a stream that has ended too.
	all := eventstore.Categories("publication", "retirement")
	for message, err := range store.Subscribe(t.Context(), eventstore.Start, all) {
		must.OK(t, err)
		if message.CaughtUp {
			break
		}
		if message.Event != nil && message.Event.Type[0] == '$' {
			t.Errorf("subscribers get %s of %s", message.Event.Type, message.Event.Stream)
		}
	}
}
