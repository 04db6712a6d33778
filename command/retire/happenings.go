package retire

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/retirement"
	"carillon/command/irreversible"
	"carillon/eventstore"
	"carillon/eventstore/panics"
)

// Happenings retires happenings that are over, in the turns of a Retirer.
type Happenings struct {
	Store eventstore.Store
	// Oldest lists happenings with a sighting that has ended before a time, in the order of these ends, after one of them
	// (the zero value: from the first). Those that were merged into others are left out. revision is the last one of the
	// stream of batches that these rows have applied.
	Oldest func(ctx context.Context, before time.Time, after retirement.Old, limit int) (
		page []retirement.Old, revision eventstore.Revision, err error)
	// Due counts happenings that Oldest lists, and all.
	Due irreversible.Due
	// Feeds lists the feeds in which happenings are or were items.
	Feeds func(ctx context.Context, happenings []uuid.UUID) (map[uuid.UUID][]uuid.UUID, error)
	// Backfills returns what came by the backfills of sources in feeds.
	Backfills func(ctx context.Context, of []retirement.Filled) ([]retirement.Backfilled, error)
	// Await waits until the read models have applied the event at a position.
	Await func(ctx context.Context, at eventstore.Position) error
	// Curated returns a position up to which all happenings are in their feeds.
	Curated func(ctx context.Context) eventstore.Position
	Keep    time.Duration // since the end, or the last change
	Now     func() time.Time
	Log     *slog.Logger
}

// Retire retires all happenings that are over by now, and returns their number and the position of the last batch. The
// caller holds the lock.
func (h *Happenings) Retire(ctx context.Context, pass irreversible.Pass) (n int, last eventstore.Position, err error) {
	before, err := allowed(ctx, pass, irreversible.RetireHappenings, h.Keep, h.Due)
	if err != nil {
		return 0, last, err
	}
	began, last := h.Now(), eventstore.Start
	for after := (retirement.Old{}); ; {
		b, at, err := h.step(ctx, before, &after)
		if err != nil {
			return n, last, err
		}
		if b == nil {
			break
		}
		if retired := len(b.retired.Happenings); retired > 0 {
			n, last = n+retired, at
		}
	}
	if n > 0 {
		h.Log.Info("happenings retired", "happenings", n, "before", before,
			"took", h.Now().Sub(began).Round(time.Millisecond))
	}
	return n, last, nil
}

// step retires what is over of a page after one happening, and moves that on. It returns no batch after the last page.
func (h *Happenings) step(
	ctx context.Context, before time.Time, after *retirement.Old,
) (b *happeningBatch, at eventstore.Position, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	page, revision, err := h.Oldest(ctx, before, *after, pageSize)
	if err != nil || len(page) == 0 {
		return nil, eventstore.Start, err
	}
	b = newHappeningBatch(before)
	b.curated = h.Curated(ctx)
	looked, err := h.fill(ctx, b, page)
	if err != nil {
		return nil, eventstore.Start, err
	}
	*after = page[looked-1]
	if len(b.retired.Happenings) == 0 {
		return b, eventstore.Start, nil
	}
	at, err = h.record(ctx, b, revision)
	return b, at, err
}

// fill adds the happenings of a page that are over to a batch, until that is full, and returns how many it has looked
// at, at least one.
func (h *Happenings) fill(ctx context.Context, b *happeningBatch, page []retirement.Old) (looked int, err error) {
	for looked < len(page) {
		part := page[looked:min(looked+readers, len(page))]
		all := make([]group, len(part))
		reading, readingCtx := errgroup.WithContext(ctx)
		for i, p := range part {
			reading.Go(panics.Task("retirement", func() (err error) {
				all[i], err = h.read(readingCtx, p.ID, b)
				return err
			}))
		}
		if err := reading.Wait(); err != nil {
			return looked, err
		}
		for i, g := range all {
			if len(g) > 0 && !b.add(g) {
				if len(b.retired.Happenings) > 0 {
					return looked, nil
				}
				h.Log.Warn("happening has too many others merged into it to be retired", "happening", part[i].ID)
			}
			looked++
		}
	}
	return looked, nil
}

// group is a happening with all that was merged into it; empty if it is not over.
type group []member

// member is a happening of a group.
type member struct {
	id    uuid.UUID
	state happening.State
	items []itemStream
}

// itemStream is a happening in a feed.
type itemStream struct {
	feed   uuid.UUID
	events []item.Event
}

// read reads a happening with all that was merged into it, and their items. A stream that is deleted already has no
// events: a stream that was recorded while its happening was retired is removed now.
func (h *Happenings) read(ctx context.Context, id uuid.UUID, b *happeningBatch) (group, error) {
	root, _, err := h.member(ctx, id, b)
	if err != nil || root == nil || root.state.Into != uuid.Nil {
		return nil, err
	}
	all, seen := group{*root}, map[uuid.UUID]struct{}{id: {}}
	for _, other := range root.state.Group(id)[1:] {
		if _, twice := seen[other]; twice {
			continue
		}
		seen[other] = struct{}{}
		m, deleted, err := h.member(ctx, other, b)
		if err != nil || m == nil || m.state.Into == uuid.Nil && !deleted {
			return nil, err // a merge or a split is yet to be completed
		}
		all = append(all, *m)
	}
	ids := make([]uuid.UUID, len(all))
	for i := range all {
		ids[i] = all[i].id
	}
	feeds, err := h.Feeds(ctx, ids)
	if err != nil {
		return nil, err
	}
	for i := range all {
		m := &all[i]
		for _, feed := range feeds[m.id] {
			happened, err := events(ctx, h.Store, item.Aggregate, item.ID(feed, m.id))
			if err != nil && !errors.Is(err, eventstore.ErrStreamDeleted) {
				return nil, err
			}
			if !itemOver(happened, b.retired.Before) {
				return nil, nil
			}
			m.items = append(m.items, itemStream{feed, happened})
		}
	}
	return all, nil
}

// member reads a happening; nil if it is not over, or not in its feeds yet.
func (h *Happenings) member(ctx context.Context, id uuid.UUID, b *happeningBatch) (m *member, deleted bool, err error) {
	loaded, err := happening.Aggregate.Load(ctx, h.Store, id)
	if errors.Is(err, eventstore.ErrStreamDeleted) {
		return &member{id: id}, true, nil
	}
	if err != nil || b.curated.Before(loaded.Position) || !loaded.State.Over(b.retired.Before) {
		return nil, false, err
	}
	return &member{id: id, state: loaded.State}, false, nil
}

// itemOver reports whether nothing happened to an item since a time.
func itemOver(happened []item.Event, before time.Time) bool {
	for _, event := range happened {
		var at time.Time
		switch e := event.(type) {
		case item.Added:
			at = e.At
		case item.Removed:
			at = e.At
		case item.FeedbackGiven:
			at = e.At
		}
		if !at.Before(before) {
			return false
		}
	}
	return true
}

// record appends a batch at the revision that its happenings were chosen by, and waits until the rows are gone.
func (h *Happenings) record(
	ctx context.Context, b *happeningBatch, revision eventstore.Revision,
) (at eventstore.Position, err error) {
	backfills, err := h.Backfills(ctx, b.filled)
	if err != nil {
		return eventstore.Start, err
	}
	for _, f := range backfills {
		b.retired.Backfills = append(b.retired.Backfills, retirement.Backfill{
			In:         b.feeds[f.Feed],
			SourceID:   f.Source,
			AttachedAt: f.AttachedAt,
			Added:      f.Added,
		})
	}
	b.retired.At = h.Now().UTC().Truncate(time.Microsecond)
	out, err := retirement.Aggregate.Execute(ctx, h.Store, retirement.HappeningsLogID,
		retirement.RetireHappenings(b.retired), retirement.Options{
			CommandID: b.retired.Batch,
			Metadata:  eventstore.Metadata{Actor: actor},
			Known:     &eventstore.Loaded[retirement.State]{Revision: revision},
			OnlyKnown: true,
		})
	if err != nil {
		return eventstore.Start, fmt.Errorf("record retired happenings: %w", err)
	}
	return out.Position, h.Await(ctx, out.Position)
}
