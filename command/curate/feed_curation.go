package curate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/item/shape"
	"carillon/aggregates/publication"
	"carillon/aggregates/retirement"
	"carillon/aggregates/source"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/panics"
)

// FeedCurationName identifies the curation as consumer and as actor.
const FeedCurationName = "feed_curation"

const (
	itemAdded         = "event.item.added"
	occurrenceChanged = "event.occurrence.changed"
	concurrentItems   = 128 // items recorded at a time
	reasonDetached    = "no source of the feed carries it any more"
	reasonMerged      = "it is the same event as another one"
	feedsEventSource  = "/feeds/events/" // prefix of a published event's source, before the feed's id
)

// Publisher publishes events; command.Commands is one. Publishing an id again does nothing.
type Publisher interface {
	Publish(ctx context.Context, by command.Caller, in command.Publish) (command.Result[publication.State], error)
}

// FeedCuration is the process manager that adds happenings to the feeds that their sources fill, and removes them
// again.
type FeedCuration struct {
	eventstore.ProcessState

	store     eventstore.Store
	publisher Publisher
	memory    Memory
	merging   *merging
	log       *slog.Logger
	index     *index
}

// NewFeedCuration returns a curation of the feeds. A curation runs once. Happenings that are over are kept for a time;
// 0 means forever.
func NewFeedCuration(store eventstore.Store, publisher Publisher, memory Memory, likeness Likeness,
	keep time.Duration, log *slog.Logger) *FeedCuration {
	c := &FeedCuration{
		store:     store,
		publisher: publisher,
		memory:    memory,
		merging:   newMerging(store, likeness, keep, log),
		log:       log,
	}
	c.index = newIndex(&c.ProcessState, keep)
	return c
}

// Traits implements eventstore.ProcessManager. Happenings, which the memory follows from, are retired.
func (c *FeedCuration) Traits() eventstore.Traits {
	return eventstore.Traits{
		Name:    FeedCurationName,
		Version: 2,
		Filter: eventstore.Categories(feed.Aggregate.Category, source.Aggregate.Category, happening.Aggregate.Category,
			retirement.Aggregate.Category),
		Folded: &eventstore.Folded{
			Filter: eventstore.Categories(feed.Aggregate.Category, source.Aggregate.Category),
			Fold: func(recorded *eventstore.Recorded) error {
				_, _, err := c.index.apply(&event{Recorded: recorded})
				return err
			},
			Rows: func() ([]eventstore.SavedRow, error) { return c.Rows("feed") },
		},
	}
}

// task is a change with the event that it follows from.
type task struct {
	change

	cause    uuid.UUID
	revision eventstore.Revision // of the causing event
	position eventstore.Position // of the causing event
	metadata eventstore.Metadata
	replayed bool // it may have been executed before
}

// React implements eventstore.ProcessManager: it decides in order, acts on different items concurrently, then saves
// its state. An event that causes a sweep, or retires happenings, is processed separately.
func (c *FeedCuration) React(ctx context.Context, batch []eventstore.Recorded) error {
	for len(batch) > 0 {
		n := slices.IndexFunc(batch, sweeping)
		var err error
		switch {
		case n < 0:
			n, err = len(batch), c.curate(ctx, batch, false)
		case n > 0:
			err = c.curate(ctx, batch[:n], true)
		case batch[0].Category() == retirement.Aggregate.Category:
			n, err = 1, c.forget(ctx, batch[:1])
		default:
			n, err = 1, c.curateSweep(ctx, batch[:1])
		}
		if err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// curate processes events that cause no sweep.
func (c *FeedCuration) curate(ctx context.Context, recorded []eventstore.Recorded, keep bool) error {
	events, err := decode(recorded)
	if err != nil {
		return err
	}
	known := map[uuid.UUID]*Known{}
	if ids := concerned(events); len(ids) > 0 {
		if known, err = c.memory.Recall(ctx, ids); err != nil {
			return err
		}
	}
	c.index.happenings = newRecalled(known)
	merged, compared, err := c.merging.react(ctx, events, c.Replayed)
	if err != nil {
		return err
	}
	c.index.merged = merged
	if err := c.loadAdded(ctx, events); err != nil {
		return err
	}
	var tasks []task
	for i := range events {
		changes, _, err := c.index.apply(&events[i])
		if err == nil {
			tasks, err = c.follow(tasks, events[i].Recorded, changes)
		}
		if err != nil {
			return err
		}
	}
	if err := c.act(ctx, tasks); err != nil {
		return err
	}
	changed := c.index.happenings.changed
	if len(changed) == 0 && !compared && !keep {
		return nil // the rest of the state is saved from time to time
	}
	return c.memory.Keep(ctx, changed, recorded)
}

// curateSweep processes an event that causes sweeps, page by page. Finished pages stay finished if it is interrupted.
func (c *FeedCuration) curateSweep(ctx context.Context, event []eventstore.Recorded) error {
	decoded, err := decode(event)
	if err != nil {
		return err
	}
	_, sweeps, err := c.index.apply(&decoded[0])
	if err != nil {
		return err
	}
	for _, s := range sweeps {
		for after := (Mark{}); ; {
			known, last, err := c.memory.Carried(ctx, s.which(c.index.window), after)
			if err != nil {
				return err
			}
			if len(known) == 0 {
				break
			}
			c.index.happenings, after = newRecalled(known), last
			tasks, err := c.follow(nil, &event[0], c.index.sweep(s))
			if err == nil {
				err = c.act(ctx, tasks)
			}
			if err == nil && len(c.index.happenings.changed) > 0 {
				err = c.memory.Keep(ctx, c.index.happenings.changed, nil)
			}
			if err != nil {
				return err
			}
		}
	}
	return c.memory.Keep(ctx, nil, event)
}

// forget drops retired happenings.
func (c *FeedCuration) forget(ctx context.Context, recorded []eventstore.Recorded) error {
	event, err := retirement.Events.Decode(&recorded[0])
	if err != nil {
		return err
	}
	var ids []uuid.UUID
	switch e := event.(type) {
	case retirement.HappeningsRetired:
		for _, h := range e.Happenings {
			ids = append(ids, h.ID)
			c.merging.profiles.forget(h.ID)
		}
	case retirement.Retired, retirement.Removed: // no happenings
	}
	return c.memory.Forget(ctx, ids, recorded)
}

// follow appends a task for each change that follows from an event.
func (c *FeedCuration) follow(tasks []task, recorded *eventstore.Recorded, changes []change) ([]task, error) {
	if len(changes) == 0 {
		return tasks, nil
	}
	cause, err := eventstore.ParseMetadata(recorded.Metadata)
	if err != nil {
		return nil, err
	}
	for _, change := range changes {
		tasks = append(tasks, task{
			change:   change,
			cause:    recorded.ID,
			revision: recorded.Revision,
			position: recorded.Position,
			replayed: c.Replayed(recorded),
			metadata: eventstore.Metadata{
				Organization:  change.organization,
				CorrelationID: cause.CorrelationID,
				CausationID:   recorded.ID,
				Actor:         FeedCurationName,
			},
		})
	}
	return tasks, nil
}

// act executes tasks: those of different items concurrently, those of one item in order.
func (c *FeedCuration) act(ctx context.Context, tasks []task) error {
	byItem := map[uuid.UUID][]task{}
	for _, t := range tasks {
		id := item.ID(t.feed, t.happening)
		byItem[id] = append(byItem[id], t)
	}
	group, acting := errgroup.WithContext(ctx)
	group.SetLimit(concurrentItems)
	for id, list := range byItem {
		group.Go(panics.Task("feed curation", func() error {
			for _, t := range list {
				// A retired item stays as it is.
				if err := c.execute(acting, id, t); err != nil && !errors.Is(err, eventstore.ErrStreamDeleted) {
					return fmt.Errorf("item %s: %w", id, err)
				}
			}
			return nil
		}))
	}
	return group.Wait()
}

// execute records one change. Its command id is derived, so that a repetition after a crash records nothing.
func (c *FeedCuration) execute(ctx context.Context, id uuid.UUID, t task) error {
	options := item.Options{CommandID: commandID(t.cause, id), Metadata: t.metadata}
	if t.occurrence != nil {
		data, err := shape.Changed(id, t.happening, *t.occurrence)
		if err != nil {
			return err
		}
		return c.publish(ctx, id, t, occurrenceChanged, data)
	}
	if t.remove {
		_, err := item.Aggregate.Execute(ctx, c.store, id, item.Remove{Reason: t.reason, At: t.at}, options)
		return err
	}
	if !t.replayed { // most items are new: try without reading
		options.Known = &eventstore.Loaded[item.State]{Revision: eventstore.NoStream}
	}
	_, err := item.Aggregate.Execute(ctx, c.store, id, item.Add{
		FeedID:      t.feed,
		HappeningID: t.happening,
		SourceID:    t.source,
		Backfill:    t.backfill,
		At:          t.at,
	}, options)
	if err != nil || !t.news {
		return err
	}
	details := t.details
	if t.others || t.of != uuid.Nil {
		// The happening as of the causing event, whenever it is published.
		loaded, err := happening.Aggregate.LoadAt(ctx, c.store, t.happening, t.revision)
		if err != nil {
			return err
		}
		if published, err := c.publishedBefore(ctx, t, loaded.State); err != nil || published {
			return err
		}
		details = loaded.State.Combine().Details
	}
	data, err := shape.Published(shape.Item{
		ID:      id,
		EventID: t.happening,
		AddedAt: t.at,
		Details: details,
	})
	if err != nil {
		return err
	}
	return c.publish(ctx, id, t, itemAdded, data)
}

// publish publishes the event of an item. Its id is derived too.
func (c *FeedCuration) publish(ctx context.Context, id uuid.UUID, t task, kind string, data []byte) error {
	by := command.Caller{Organization: t.organization, Actor: FeedCurationName, RequestID: t.metadata.CorrelationID}
	_, err := c.publisher.Publish(ctx, by, command.Publish{
		ID:           uuid.NewSHA1(t.cause, []byte(kind+id.String())),
		Type:         kind,
		Source:       feedsEventSource + t.feed.String(),
		Subject:      id.String(),
		Time:         t.at.UTC().Truncate(time.Microsecond),
		FeedType:     feed.TypeEvent,
		FeedID:       t.feed,
		Organization: t.organization,
		Data:         data,
	})
	var refusal *command.Refusal
	switch {
	case errors.Is(err, eventstore.ErrStreamDeleted):
		return nil // it was published, and is retired
	case errors.As(err, &refusal):
		// The change is recorded; retrying would stop all feeds for one unpublishable event.
		c.log.Error("event not published", "type", kind, "item", id, "error", err)
		return nil
	}
	return err
}
