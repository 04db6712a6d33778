package curate

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/eventstore"
	"carillon/eventstore/panics"
)

// commandID derives the id of an item's change from its cause.
func commandID(cause, item uuid.UUID) uuid.UUID { return uuid.NewSHA1(cause, item[:]) }

// loadAdded reads which feeds got the happenings of replayed events, if those were merged since: a merge in the same
// batch kept the item away, a later one did not. Only the item's events record that.
func (c *FeedCuration) loadAdded(ctx context.Context, events []event) error {
	last := map[uuid.UUID]eventstore.Revision{} // last merge into another happening
	for i := range events {
		e, id := &events[i], uuid.Nil
		if !c.Replayed(e.Recorded) {
			continue
		}
		var source uuid.UUID
		switch seen := e.happening.(type) {
		case happening.Observed:
			id, source = e.StreamID(), seen.SourceID
		case happening.Revised:
			id, source = e.StreamID(), seen.SourceID
		case nil, happening.WentStale, happening.OccurrenceChanged, happening.Merged, happening.Split: // add no items
			continue
		}
		if _, known := last[id]; !known {
			var err error
			if last[id], err = c.merging.lastMerged(ctx, id); err != nil {
				return err
			}
		}
		if last[id] < e.Revision {
			continue
		}
		e.added = map[uuid.UUID]bool{}
		for feedID := range c.index.feedsOfSource[source] {
			var err error
			itemID := item.ID(feedID, id)
			if e.added[feedID], err = c.recorded(ctx, itemID, eventstore.EventID(commandID(e.ID, itemID), 0)); err != nil {
				return err
			}
		}
	}
	return nil
}

// lastMerged returns the revision at which a happening was last merged into another one; NoStream if never.
func (m *merging) lastMerged(ctx context.Context, id uuid.UUID) (eventstore.Revision, error) {
	last := eventstore.NoStream
	if p := m.profiles.get(id); p != nil && p.State.Into == uuid.Nil && len(p.State.Apart) == 0 {
		return last, nil
	}
	for recorded, err := range m.store.Read(ctx, happening.Aggregate.Stream(id), 0) {
		if errors.Is(err, eventstore.ErrStreamDeleted) {
			return last, nil
		}
		if err != nil {
			return last, fmt.Errorf("happening %s: %w", id, err)
		}
		event, err := happening.Events.Decode(&recorded)
		if err != nil {
			return last, err
		}
		switch e := event.(type) {
		case happening.Merged:
			if e.Into != uuid.Nil {
				last = recorded.Revision
			}
		// merge nothing
		case happening.Observed, happening.Revised, happening.WentStale, happening.OccurrenceChanged, happening.Split:
		}
	}
	return last, nil
}

// recorded reports whether an item's stream holds an event.
func (c *FeedCuration) recorded(ctx context.Context, id, event uuid.UUID) (bool, error) {
	for recorded, err := range c.store.Read(ctx, item.Aggregate.Stream(id), 0) {
		if errors.Is(err, eventstore.ErrStreamDeleted) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("item %s: %w", id, err)
		}
		if recorded.ID == event {
			return true, nil
		}
	}
	return false, nil
}

// publishedBefore reports whether the feed has had the happening before, under the id of another that was merged into
// it.
func (c *FeedCuration) publishedBefore(ctx context.Context, t task, state happening.State) (bool, error) {
	for held, members := range state.Holds {
		if len(members) == 0 || held != t.of && !slices.Contains(members, t.of) {
			continue
		}
		for _, id := range append([]uuid.UUID{held}, members...) {
			for recorded, err := range c.store.Read(ctx, item.Aggregate.Stream(item.ID(t.feed, id)), 0) {
				if errors.Is(err, eventstore.ErrStreamDeleted) {
					return true, nil
				}
				if err != nil {
					return false, fmt.Errorf("item %s: %w", item.ID(t.feed, id), err)
				}
				if recorded.Position.Before(t.position) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

// merges runs merges, concurrently if they are of different happenings. wait returns their result.
type merges struct {
	parent context.Context
	ctx    context.Context
	group  *errgroup.Group
	busy   map[uuid.UUID]bool

	profiles *profiles
}

func (m *merging) begin(ctx context.Context) *merges {
	g := &merges{parent: ctx, busy: map[uuid.UUID]bool{}, profiles: m.profiles}
	g.fresh()
	return g
}

func (g *merges) fresh() {
	g.group, g.ctx = errgroup.WithContext(g.parent)
	g.group.SetLimit(maxMerges)
}

// start runs do for two happenings, after everything else that concerns one of them.
func (g *merges) start(stays, goes *profile, do func(context.Context) error) error {
	if err := g.await(stays.id, goes.id); err != nil {
		return err
	}
	g.busy[stays.id], g.busy[goes.id] = true, true
	g.profiles.hold(stays, goes)
	ctx := g.ctx
	g.group.Go(panics.Task("feed curation", func() error { return do(ctx) }))
	return nil
}

// await waits if work in flight concerns one of the happenings.
func (g *merges) await(ids ...uuid.UUID) error {
	for _, id := range ids {
		if g.busy[id] {
			return g.wait()
		}
	}
	return nil
}

// wait waits for all.
func (g *merges) wait() error {
	err := g.group.Wait()
	clear(g.busy)
	g.fresh()
	return err
}
