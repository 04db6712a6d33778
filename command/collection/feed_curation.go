package collection

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/item/shape"
	"carillon/aggregates/source"
	"carillon/command"
	"carillon/eventstore"
)

// FeedCurationName is its name as consumer and as actor.
const FeedCurationName = "feed_curation"

const (
	itemAdded        = "event.item.added"
	concurrentItems  = 128 // items on their way into the store at one time
	reasonDetached   = "no source of the feed carries it any more"
	feedsEventSource = "/feeds/events/" // what a published event names as its source, with the feed's id
)

// Publisher publishes events; command.Commands is one. Publishing an id again does nothing.
type Publisher interface {
	Publish(ctx context.Context, by command.Caller, in command.Publish) (uuid.UUID, eventstore.Position, error)
}

// FeedCuration is the process manager that adds happenings to the feeds that their sources fill, and removes them again.
type FeedCuration struct {
	eventstore.ProcessState

	store     eventstore.Store
	publisher Publisher
	log       *slog.Logger
	index     *index
}

var _ eventstore.ProcessManager = (*FeedCuration)(nil)

// NewFeedCuration makes a curation of the feeds; each run of it wants a fresh one.
func NewFeedCuration(store eventstore.Store, publisher Publisher, log *slog.Logger) *FeedCuration {
	c := &FeedCuration{store: store, publisher: publisher, log: log}
	c.index = newIndex(&c.ProcessState)
	return c
}

// Name implements eventstore.ProcessManager.
func (*FeedCuration) Name() string { return FeedCurationName }

// Version implements eventstore.ProcessManager.
func (*FeedCuration) Version() int { return 1 }

// Filter implements eventstore.ProcessManager.
func (*FeedCuration) Filter() eventstore.Filter {
	return eventstore.Categories(feed.Aggregate.Category, source.Aggregate.Category, happening.Aggregate.Category)
}

// task is a change with the event that it follows from.
type task struct {
	change

	cause    uuid.UUID
	metadata eventstore.Metadata
	replayed bool // it may have been done before
}

// React implements eventstore.ProcessManager: it decides in order, then acts on different items side by side.
func (c *FeedCuration) React(ctx context.Context, batch []eventstore.Recorded) error {
	tasks := map[uuid.UUID][]task{} // by item, in order
	for i := range batch {
		recorded := &batch[i]
		changes, err := c.index.apply(recorded)
		if err != nil {
			return err
		}
		if len(changes) == 0 {
			continue
		}
		cause, err := eventstore.ParseMetadata(recorded.Metadata)
		if err != nil {
			return err
		}
		for _, change := range changes {
			id := item.ID(change.feed, change.happening)
			tasks[id] = append(tasks[id], task{
				change: change, cause: recorded.ID, replayed: c.Replayed(recorded),
				metadata: eventstore.Metadata{
					Organization: change.organization, CorrelationID: cause.CorrelationID, CausationID: recorded.ID, Actor: FeedCurationName,
				},
			})
		}
	}
	group, acting := errgroup.WithContext(ctx)
	group.SetLimit(concurrentItems)
	for id, list := range tasks {
		group.Go(func() error {
			for _, t := range list {
				if err := c.do(acting, id, t); err != nil {
					return fmt.Errorf("item %s: %w", id, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// do records one change. Its command id is derived, so that doing it again after a crash records nothing.
func (c *FeedCuration) do(ctx context.Context, id uuid.UUID, t task) error {
	options := item.Options{CommandID: uuid.NewSHA1(t.cause, id[:]), Metadata: t.metadata}
	if t.remove {
		_, err := item.Aggregate.Execute(ctx, c.store, id, item.Remove{Reason: reasonDetached, At: t.at}, options)
		return err
	}
	if !t.replayed { // most are new: try without reading
		options.Known = &eventstore.Loaded[item.State]{Revision: eventstore.NoStream}
	}
	_, err := item.Aggregate.Execute(ctx, c.store, id, item.Add{
		FeedID: t.feed, HappeningID: t.happening, SourceID: t.source, Backfill: t.backfill, At: t.at,
	}, options)
	if err != nil || t.backfill {
		return err
	}
	return c.publish(ctx, id, t)
}

// publish tells subscribers of an item. Its id is derived as well.
func (c *FeedCuration) publish(ctx context.Context, id uuid.UUID, t task) error {
	data, err := shape.Published(shape.Item{ID: id, EventID: t.happening, AddedAt: t.at, Details: t.details})
	if err != nil {
		return err
	}
	by := command.Caller{Organization: t.organization, Actor: FeedCurationName, RequestID: t.metadata.CorrelationID}
	_, _, err = c.publisher.Publish(ctx, by, command.Publish{
		ID: uuid.NewSHA1(t.cause, []byte(itemAdded+id.String())), Type: itemAdded,
		Source: feedsEventSource + t.feed.String(), Subject: id.String(), Time: t.at.UTC().Truncate(time.Microsecond),
		FeedType: feed.TypeEvent, FeedID: t.feed, Organization: t.organization, Data: data,
	})
	var refusal *command.Refusal
	if errors.As(err, &refusal) {
		// The item is there; trying again would stop all feeds for one event that can't be told.
		c.log.Error("an item was added and can't be published", "item", id, "error", err)
		return nil
	}
	return err
}
