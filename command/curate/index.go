package curate

import (
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/eventstore"
)

// backfillWindow limits the age of happenings that a newly attached source adds.
const backfillWindow = 14 * 24 * time.Hour

// index knows which sources fill which feeds, which happenings each source carries, and which of those are items. It
// is folded from events in their global order, so that a replay leads to the same changes. It holds only the
// happenings of the current events. It is not safe for concurrent use.
type index struct {
	feeds         *eventstore.SavedTable[uuid.UUID, feedState]
	feedsOfSource map[uuid.UUID]map[uuid.UUID]struct{}
	happenings    recalled
	merged        map[uuid.UUID]bool // among the current happenings
	window        time.Duration      // of backfills
}

// feedState is an event feed and its sources.
type feedState struct {
	Organization uuid.UUID                     `json:"organization"`
	Enabled      bool                          `json:"enabled"`
	Sources      map[uuid.UUID]*attachedSource `json:"sources"`
}

// attachedSource is a source in a feed. Its happenings are backfill until a walk that began after the attachment has
// completed, unless the source was fully known at the attachment.
type attachedSource struct {
	Backfill   bool      `json:"backfill,omitempty"`
	Collecting bool      `json:"collecting,omitempty"`
	KnownAt    time.Time `json:"knownAt,omitzero"` // end of the backfill
}

// backfilling reports whether the backfill had not ended at a time. Merging records observations again, with their
// times: those of the backfill may follow its end.
func (a *attachedSource) backfilling(at time.Time) bool { return a.Backfill || at.Before(a.KnownAt) }

// change is an item to be added or removed, or a changed occurrence of one.
type change struct {
	feed, organization, happening, source uuid.UUID

	remove     bool
	reason     string                       // of a removal
	backfill   bool                         // added together with its source
	news       bool                         // the change is published
	details    happening.Details            // to be published, as the source shows them
	others     bool                         // other sources show it too
	of         uuid.UUID                    // its id in the event, if it was merged into another
	occurrence *happening.OccurrenceChanged // nil if the item itself is added or removed
	at         time.Time
}

// newIndex returns an empty index. Its feeds are saved with the state of a process manager. Happenings that are over
// are kept for a time; 0 means forever.
func newIndex(state *eventstore.ProcessState, keep time.Duration) *index {
	x := &index{
		window:        backfillWindow,
		feeds:         eventstore.NewSavedTable[uuid.UUID, feedState](state, "feed", uuid.Parse),
		feedsOfSource: map[uuid.UUID]map[uuid.UUID]struct{}{},
	}
	x.feeds.Indexed = x.indexFeed
	if keep > 0 {
		x.window = min(backfillWindow, keep)
	}
	return x
}

// indexFeed indexes the feeds by source. detach removes a detached source itself.
func (x *index) indexFeed(id uuid.UUID, _, after *feedState) {
	if after == nil {
		return
	}
	if after.Sources == nil {
		after.Sources = map[uuid.UUID]*attachedSource{}
	}
	for sourceID := range after.Sources {
		put(x.feedsOfSource, sourceID, id)
	}
}

// event is a recorded event. An event of a happening is decoded once for all its readers.
type event struct {
	*eventstore.Recorded

	happening happening.Event // nil for an event of another aggregate
	// added holds the feeds to which a replayed event has added its happening before the happening was merged into
	// another. nil for all other events.
	added map[uuid.UUID]bool
}

func decode(recorded []eventstore.Recorded) ([]event, error) {
	events := make([]event, len(recorded))
	for i := range recorded {
		events[i].Recorded = &recorded[i]
		if recorded[i].Category() != happening.Aggregate.Category {
			continue
		}
		var err error
		if events[i].happening, err = happening.Events.Decode(&recorded[i]); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// concerned returns the happenings that events are about.
func concerned(events []event) []uuid.UUID {
	set := map[uuid.UUID]struct{}{}
	for i := range events {
		switch e := events[i].happening.(type) {
		case nil: // of another aggregate
			continue
		case happening.Observed:
			if e.Of != uuid.Nil {
				set[e.Of] = struct{}{}
			}
		// concern only their own happening
		case happening.Revised, happening.WentStale, happening.OccurrenceChanged, happening.Merged, happening.Split:
		}
		set[events[i].StreamID()] = struct{}{}
	}
	return slices.Collect(maps.Keys(set))
}

// apply folds one event. It returns the changes and the sweeps that follow from it.
func (x *index) apply(e *event) ([]change, []sweep, error) {
	id := e.StreamID()
	switch e.Category() {
	case feed.Aggregate.Category:
		event, err := feed.Events.Decode(e.Recorded)
		if err != nil {
			return nil, nil, err
		}
		return nil, x.applyFeed(id, event), nil
	case source.Aggregate.Category:
		event, err := source.Events.Decode(e.Recorded)
		if err == nil {
			x.applySource(id, event)
		}
		return nil, nil, err
	default:
		return x.applyHappening(id, e), nil, nil
	}
}

func (x *index) applyHappening(id uuid.UUID, recorded *event) []change {
	switch e := recorded.happening.(type) {
	case happening.Observed:
		dates := x.dates(id, e.SourceID)
		if e.PublishedAt != nil {
			dates.Published = instant(*e.PublishedAt)
		}
		changes := x.seen(id, e.SourceID, dates, e.Details, e.At, true, recorded.added)
		if e.Of == uuid.Nil {
			return changes
		}
		before := x.happenings.get(e.Of)
		for i := range changes { // the event has the id that was merged
			c := &changes[i]
			c.of, c.backfill = e.Of, x.feeds.Get(c.feed).Sources[e.SourceID].backfilling(e.At)
			c.news = c.news && !c.backfill && (before == nil || !before.Feeds[c.feed])
		}
		return changes
	case happening.Revised:
		// A happening that was too old for a feed may have got a new date.
		return x.seen(id, e.SourceID, x.dates(id, e.SourceID), e.Details, e.At, false, recorded.added)
	case happening.WentStale: // a stale happening stays in its feeds
	case happening.OccurrenceChanged:
		return x.occurrenceChanged(id, e)
	case happening.Merged:
		if e.Into != uuid.Nil {
			return x.merge(id, e.At)
		}
	case happening.Split:
		if e.Into != uuid.Nil {
			return x.restore(id, e.At)
		}
		return x.drop(id, e.Sources, e.At)
	}
	return nil
}

// merge removes a happening from its feeds that was merged into another one.
func (x *index) merge(id uuid.UUID, at time.Time) []change {
	h := x.happenings.get(id)
	if h == nil {
		h = NewKnown()
	}
	h.Merged = true
	return x.leave(id, h, at, reasonMerged, func(uuid.UUID) bool { return true })
}

// restore adds a happening that was split off to the feeds of its sources, without publishing it.
func (x *index) restore(id uuid.UUID, at time.Time) []change {
	h := x.happenings.get(id)
	if h == nil {
		return nil
	}
	h.Merged = false
	x.happenings.set(id, h)
	var changes []change
	for sourceID := range h.Sources {
		for feedID := range x.feedsOfSource[sourceID] {
			if !x.feeds.Get(feedID).Enabled {
				continue
			}
			if c, fresh := x.add(feedID, id, sourceID, at); fresh {
				c.backfill = true
				changes = append(changes, c)
			}
		}
	}
	return changes
}

// drop removes sources from a happening. It leaves the feeds that no other source of it fills.
func (x *index) drop(id uuid.UUID, sources []uuid.UUID, at time.Time) []change {
	h := x.happenings.get(id)
	if h == nil {
		return nil
	}
	for _, sourceID := range sources {
		delete(h.Sources, sourceID)
	}
	h.Dropped = append(h.Dropped, sources...)
	return x.leave(id, h, at, reasonDetached, func(feedID uuid.UUID) bool {
		f := x.feeds.Get(feedID)
		return f != nil && !h.carriedBySourceOf(f)
	})
}

// leave removes a happening from feeds.
func (x *index) leave(id uuid.UUID, h *Known, at time.Time, reason string, of func(feed uuid.UUID) bool) []change {
	x.happenings.set(id, h)
	var changes []change
	for feedID := range h.Feeds {
		if !of(feedID) {
			continue
		}
		delete(h.Feeds, feedID)
		if f := x.feeds.Get(feedID); f != nil {
			changes = append(changes, change{
				feed:         feedID,
				organization: f.Organization,
				happening:    id,
				remove:       true,
				reason:       reason,
				at:           at,
			})
		}
	}
	return changes
}

// occurrenceChanged returns a change for each feed with the happening, except for feeds in which the causing source is
// new.
func (x *index) occurrenceChanged(id uuid.UUID, e happening.OccurrenceChanged) []change {
	h := x.happenings.get(id)
	if h == nil {
		return nil
	}
	var changes []change
	for feedID := range h.Feeds {
		f := x.feeds.Get(feedID)
		if f == nil || !f.Enabled {
			continue
		}
		if a := f.Sources[e.SourceID]; a != nil && a.backfilling(e.At) {
			continue
		}
		changes = append(changes, change{
			feed:         feedID,
			organization: f.Organization,
			happening:    id,
			source:       e.SourceID,
			occurrence:   &e,
			at:           e.At,
		})
	}
	return changes
}

// seen adds a happening to the feeds that its source fills: always when it was observed, else while it is recent. A
// happening that is over is not published, because a site may give its archive new addresses.
func (x *index) seen(
	id, sourceID uuid.UUID, dates SourceDates, details happening.Details, at time.Time, observed bool,
	added map[uuid.UUID]bool,
) []change {
	if dates.FirstSeen.IsZero() {
		dates.FirstSeen = instant(at)
	}
	dates.Last = instant(details.Last())
	over := !dates.Last.IsZero() && !dates.Last.After(at)
	x.carry(id, sourceID, dates)
	var changes []change
	for feedID := range x.feedsOfSource[sourceID] {
		f := x.feeds.Get(feedID)
		if !f.Enabled || !observed && !dates.recent(at, x.window) || x.happenings.get(id).Merged {
			continue
		}
		if added == nil && x.merged[id] || added != nil && !added[feedID] {
			continue // replaced by the one that it was merged into
		}
		if c, fresh := x.add(feedID, id, sourceID, at); fresh {
			c.backfill, c.details = f.Sources[sourceID].Backfill, details
			c.news = !c.backfill && !over
			c.others = len(x.happenings.get(id).Sources) > 1
			changes = append(changes, c)
		}
	}
	return changes
}

func (x *index) applySource(id uuid.UUID, event source.Event) {
	for feedID := range x.feedsOfSource[id] {
		f := x.feeds.Get(feedID)
		a := f.Sources[id]
		switch e := event.(type) {
		case source.CollectionStarted:
			a.Collecting = true
		case source.CollectionCompleted:
			if a.Backfill && a.Collecting {
				a.Backfill, a.KnownAt = false, e.At
			}
			a.Collecting = false
		case source.CollectionFailed, source.CredentialsMissing, source.JavaScriptNeeded:
			a.Collecting = false
		case source.Registered, source.CollectionRequested, source.Paused, source.Resumed,
			source.Revised: // no part of a visit
			continue
		}
		x.feeds.Set(feedID, f)
	}
}

func (x *index) applyFeed(id uuid.UUID, event feed.Event) []sweep {
	f := x.feeds.Get(id)
	if created, ok := event.(feed.Created); ok {
		f = &feedState{Organization: created.Organization, Enabled: created.Enabled}
	}
	if f == nil {
		return nil // not an event feed
	}
	x.feeds.Set(id, f)
	switch e := event.(type) {
	case feed.Created: // see above
	case feed.Registered, feed.Revised, feed.Shared, feed.Unshared: // do not change the sources of a feed
	case feed.Enabled: // it catches up
		f.Enabled = true
		return f.sweeps(id, sweep{at: e.At})
	case feed.Disabled:
		f.Enabled = false
	case feed.SourceAttached:
		f.Sources[e.SourceID] = &attachedSource{Backfill: !e.Known}
		if e.Known {
			f.Sources[e.SourceID].KnownAt = e.At
		}
		put(x.feedsOfSource, e.SourceID, id)
		if f.Enabled {
			return []sweep{{feed: id, source: e.SourceID, at: e.At}}
		}
	case feed.SourceDetached:
		delete(f.Sources, e.SourceID)
		drop(x.feedsOfSource, e.SourceID, id)
		return []sweep{{
			feed:   id,
			source: e.SourceID,
			at:     e.At,
			remove: true,
		}}
	case feed.Deleted:
		sweeps := f.sweeps(id, sweep{at: e.At, remove: true, deleted: true})
		for sourceID := range f.Sources {
			drop(x.feedsOfSource, sourceID, id)
		}
		x.feeds.Set(id, nil)
		return sweeps
	}
	return nil
}

// add makes a happening an item, unless it is one already.
func (x *index) add(feedID, id, sourceID uuid.UUID, at time.Time) (c change, fresh bool) {
	h := x.happenings.get(id)
	if h.Feeds[feedID] {
		return change{}, false
	}
	h.Feeds[feedID] = true
	x.happenings.set(id, h)
	return change{
		feed:         feedID,
		organization: x.feeds.Get(feedID).Organization,
		happening:    id,
		source:       sourceID,
		at:           at,
	}, true
}

// dates returns the dates that a source shows of a happening; zero if it does not carry it.
func (x *index) dates(id, sourceID uuid.UUID) SourceDates {
	if h := x.happenings.get(id); h != nil {
		return h.Sources[sourceID]
	}
	return SourceDates{}
}

// carry stores the dates that a source shows of a happening.
func (x *index) carry(id, sourceID uuid.UUID, dates SourceDates) {
	h := x.happenings.get(id)
	if h == nil {
		h = NewKnown()
	}
	if known, carried := h.Sources[sourceID]; carried && known == dates {
		return
	}
	h.Sources[sourceID] = dates
	x.happenings.set(id, h)
}

func put(sets map[uuid.UUID]map[uuid.UUID]struct{}, key, member uuid.UUID) {
	if sets[key] == nil {
		sets[key] = map[uuid.UUID]struct{}{}
	}
	sets[key][member] = struct{}{}
}

func drop(sets map[uuid.UUID]map[uuid.UUID]struct{}, key, member uuid.UUID) {
	delete(sets[key], member)
	if len(sets[key]) == 0 {
		delete(sets, key)
	}
}
