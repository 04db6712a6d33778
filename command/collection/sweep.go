package collection

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/eventstore"
)

// sweep is what an event of a feed asks of all that a source carries: to become items of the feed, as far as they are
// recent, or to be none any more, as far as no other source of the feed carries them.
type sweep struct {
	feed, source uuid.UUID
	at           time.Time
	remove       bool
	deleted      bool // the feed is gone: its items need not be removed one by one
}

// sweeping says that an event may ask for sweeps. One that can't be decoded is nobody's concern here.
func sweeping(recorded eventstore.Recorded) bool { //nolint:gocritic // as slices wants it
	if recorded.Category() != feed.Aggregate.Category {
		return false
	}
	event, err := feed.Events.Decode(&recorded)
	if err != nil {
		return false
	}
	switch event.(type) {
	case feed.Enabled, feed.SourceAttached, feed.SourceDetached, feed.Deleted:
		return true
	case feed.Created, feed.Registered, feed.Revised, feed.Disabled, feed.Shared, feed.Unshared:
	}
	return false
}

// sweeps are one for each source of the feed, in an order that is always the same: who adds an item is recorded.
func (f *feedState) sweeps(id uuid.UUID, like sweep) []sweep {
	list := make([]sweep, 0, len(f.Sources))
	for _, sourceID := range slices.SortedFunc(maps.Keys(f.Sources), func(a, b uuid.UUID) int {
		return bytes.Compare(a[:], b[:])
	}) {
		like.feed, like.source = id, sourceID
		list = append(list, like)
	}
	return list
}

// which says what of the source the sweep is about.
func (s sweep) which() Carried {
	if s.remove {
		return Carried{Source: s.source, ItemsOf: s.feed}
	}
	return Carried{Source: s.source, Since: instant(s.at.Add(-backfillWindow))}
}

// sweep goes over the happenings that are at hand. What was done already it does not do again.
func (x *index) sweep(s sweep) []change {
	var changes []change
	for id, h := range x.happenings.known {
		var c change
		var fresh bool
		if s.remove {
			c, fresh = x.remove(s, id, h)
		} else if !h.Merged && h.Sources[s.source].recent(s.at) {
			c, fresh = x.add(s.feed, id, s.source, s.at)
			c.backfill = true
		}
		if fresh {
			changes = append(changes, c)
		}
	}
	return changes
}

// remove makes a happening no item, unless another source of the feed carries it.
func (x *index) remove(s sweep, id uuid.UUID, h *Known) (c change, fresh bool) {
	f := x.feeds.Get(s.feed) // nil: it is deleted
	if !h.Feeds[s.feed] || f != nil && h.carriedBySourceOf(f) {
		return change{}, false
	}
	delete(h.Feeds, s.feed)
	x.happenings.set(id, h)
	if s.deleted {
		return change{}, false
	}
	return change{
		feed:         s.feed,
		organization: f.Organization,
		happening:    id,
		source:       s.source,
		remove:       true,
		reason:       reasonDetached,
		at:           s.at,
	}, true
}
