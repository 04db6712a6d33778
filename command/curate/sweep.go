package curate

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/retirement"
	"carillon/eventstore"
)

// sweep applies to all happenings that a source carries: it adds the recent ones to a feed, or removes those from it
// that no other source of the feed carries.
type sweep struct {
	feed, source uuid.UUID
	at           time.Time
	remove       bool
	deleted      bool // the feed is deleted: its items need not be removed one by one
}

// sweeping reports whether an event may cause sweeps, or retires happenings. apply reports an event that can't be
// decoded.
func sweeping(recorded eventstore.Recorded) bool { //nolint:gocritic // as slices wants it
	switch recorded.Category() {
	case feed.Aggregate.Category:
	case retirement.Aggregate.Category:
		return true
	default:
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

// sweeps returns one sweep for each source of the feed, in a fixed order, because the source that adds an item is
// recorded.
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

// which returns the happenings of the source that the sweep is about.
func (s sweep) which(window time.Duration) Carried {
	if s.remove {
		return Carried{Source: s.source, ItemsOf: s.feed}
	}
	return Carried{Source: s.source, Since: instant(s.at.Add(-window))}
}

// sweep applies s to the loaded happenings. It does not repeat changes.
func (x *index) sweep(s sweep) []change {
	var changes []change
	for id, h := range x.happenings.known {
		var c change
		var fresh bool
		if s.remove {
			c, fresh = x.remove(s, id, h)
		} else if !h.Merged && h.Sources[s.source].recent(s.at, x.window) {
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
	f := x.feeds.Get(s.feed) // nil if it is deleted
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
