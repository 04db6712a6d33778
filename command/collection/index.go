package collection

import (
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/eventstore"
)

// backfillWindow is how far back a newly attached source is looked at.
const backfillWindow = 14 * 24 * time.Hour

// index knows which sources fill which feeds, what each source carries, and which of it are items. It is folded from
// events in their global order, so that replaying them comes to the same changes. It is not safe for concurrent use.
type index struct {
	feeds              *eventstore.SavedTable[uuid.UUID, feedState]
	happenings         *eventstore.SavedTable[uuid.UUID, happeningState]
	feedsOfSource      map[uuid.UUID]map[uuid.UUID]struct{}
	happeningsOfSource map[uuid.UUID]map[uuid.UUID]struct{}
}

// feedState is an event feed and its sources.
type feedState struct {
	Organization uuid.UUID                     `json:"organization"`
	Enabled      bool                          `json:"enabled"`
	Sources      map[uuid.UUID]*attachedSource `json:"sources"`
}

// attachedSource is a source in a feed. Until a collection that began after the attachment has completed, what it brings is
// backfill: it is no news.
type attachedSource struct {
	Backfill   bool `json:"backfill,omitempty"`
	Collecting bool `json:"collecting,omitempty"`
}

// happeningState is a happening: its dates as each source that carries it gives them, and where it is shown.
type happeningState struct {
	Sources map[uuid.UUID]sourceDates `json:"sources"`
	Feeds   map[uuid.UUID]bool        `json:"feeds,omitempty"` // of which it is an item
}

// sourceDates decide whether what a source carries is recent.
type sourceDates struct {
	FirstSeen time.Time `json:"firstSeen"`
	Published time.Time `json:"published,omitzero"`
	Last      time.Time `json:"last,omitzero"` // end of the last occurrence
}

// recent says that a happening belongs to a backfill that begins at a time.
func (d sourceDates) recent(at time.Time) bool {
	cutoff := at.Add(-backfillWindow)
	return !d.FirstSeen.Before(cutoff) || !d.Published.Before(cutoff) || !d.Last.Before(cutoff)
}

// change is an item to be added or removed.
type change struct {
	feed, organization, happening, source uuid.UUID

	remove   bool
	backfill bool
	details  happening.Details // of what is to be published
	at       time.Time
}

// newIndex makes an empty index, which is saved with the state of a process manager.
func newIndex(state *eventstore.ProcessState) *index {
	x := &index{
		feeds:              eventstore.NewSavedTable[uuid.UUID, feedState](state, "feed", uuid.Parse),
		happenings:         eventstore.NewSavedTable[uuid.UUID, happeningState](state, "happening", uuid.Parse),
		feedsOfSource:      map[uuid.UUID]map[uuid.UUID]struct{}{},
		happeningsOfSource: map[uuid.UUID]map[uuid.UUID]struct{}{},
	}
	x.feeds.Indexed, x.happenings.Indexed = x.indexFeed, x.indexHappening
	return x
}

// indexFeed keeps the feeds by source. A source that is detached leaves it by itself, see detach.
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

// indexHappening keeps the happenings by source. No source ever leaves a happening.
func (x *index) indexHappening(id uuid.UUID, _, after *happeningState) {
	if after.Feeds == nil {
		after.Feeds = map[uuid.UUID]bool{}
	}
	for sourceID := range after.Sources {
		put(x.happeningsOfSource, sourceID, id)
	}
}

// apply folds one event and returns the changes that follow from it.
func (x *index) apply(recorded *eventstore.Recorded) ([]change, error) {
	id := recorded.StreamID()
	switch recorded.Category() {
	case feed.Aggregate.Category:
		event, err := feed.Events.Decode(recorded)
		if err != nil {
			return nil, err
		}
		return x.applyFeed(id, event), nil
	case source.Aggregate.Category:
		event, err := source.Events.Decode(recorded)
		if err == nil {
			x.applySource(id, event)
		}
		return nil, err
	default:
		event, err := happening.Events.Decode(recorded)
		if err != nil {
			return nil, err
		}
		return x.applyHappening(id, event), nil
	}
}

func (x *index) applyHappening(id uuid.UUID, event happening.Event) []change {
	switch e := event.(type) {
	case happening.Observed:
		dates := x.dates(id, e.SourceID)
		if dates.FirstSeen.IsZero() {
			dates.FirstSeen = e.At
		}
		if e.PublishedAt != nil {
			dates.Published = *e.PublishedAt
		}
		return x.seen(id, e.SourceID, dates, e.Details, e.At, true)
	case happening.Revised:
		// What was too old for a feed may have got a new date.
		return x.seen(id, e.SourceID, x.dates(id, e.SourceID), e.Details, e.At, false)
	case happening.WentStale: // an item stays in its feeds when its source shows it no longer
	case happening.OccurrenceChanged: // changes nothing about which items there are
	}
	return nil
}

// seen adds a happening to the feeds that its source fills: always where it was observed, else while it is recent.
func (x *index) seen(id, sourceID uuid.UUID, dates sourceDates, details happening.Details, at time.Time, observed bool) []change {
	dates.Last = details.Last()
	x.carry(id, sourceID, dates)
	var changes []change
	for feedID := range x.feedsOfSource[sourceID] {
		f := x.feeds.Get(feedID)
		if !f.Enabled || !observed && !dates.recent(at) {
			continue
		}
		if c, fresh := x.add(feedID, id, sourceID, at); fresh {
			c.backfill, c.details = f.Sources[sourceID].Backfill, details
			changes = append(changes, c)
		}
	}
	return changes
}

func (x *index) applySource(id uuid.UUID, event source.Event) {
	for feedID := range x.feedsOfSource[id] {
		f := x.feeds.Get(feedID)
		a := f.Sources[id]
		switch event.(type) {
		case source.CollectionStarted:
			a.Collecting = true
		case source.CollectionCompleted:
			a.Backfill = a.Backfill && !a.Collecting
			a.Collecting = false
		case source.CollectionFailed, source.CredentialsMissing, source.JavaScriptNeeded:
			a.Collecting = false
		case source.Registered, source.CollectionRequested: // say nothing about a visit
			continue
		}
		x.feeds.Set(feedID, f)
	}
}

func (x *index) applyFeed(id uuid.UUID, event feed.Event) []change {
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
	case feed.Registered, feed.Revised, feed.Shared, feed.Unshared: // change nothing about what fills it
	case feed.Enabled:
		f.Enabled = true
		return x.backfillAll(id, e.At)
	case feed.Disabled:
		f.Enabled = false
	case feed.SourceAttached:
		f.Sources[e.SourceID] = &attachedSource{Backfill: true}
		put(x.feedsOfSource, e.SourceID, id)
		return x.backfill(id, e.SourceID, e.At)
	case feed.SourceDetached:
		return x.detach(id, e.SourceID, e.At)
	case feed.Deleted:
		for sourceID := range f.Sources {
			x.detach(id, sourceID, e.At) // the items need not be removed one by one: their feed is gone
		}
		x.feeds.Set(id, nil)
	}
	return nil
}

// backfillAll catches up with what a disabled feed has missed.
func (x *index) backfillAll(feedID uuid.UUID, at time.Time) []change {
	f := x.feeds.Get(feedID)
	changes := make([]change, 0, len(f.Sources))
	for sourceID := range f.Sources {
		changes = append(changes, x.backfill(feedID, sourceID, at)...)
	}
	return changes
}

func (x *index) backfill(feedID, sourceID uuid.UUID, at time.Time) []change {
	if !x.feeds.Get(feedID).Enabled {
		return nil
	}
	var changes []change
	for id := range x.happeningsOfSource[sourceID] {
		if !x.happenings.Get(id).Sources[sourceID].recent(at) {
			continue
		}
		if c, fresh := x.add(feedID, id, sourceID, at); fresh {
			c.backfill = true
			changes = append(changes, c)
		}
	}
	return changes
}

// detach removes the items that no other source of the feed carries.
func (x *index) detach(feedID, sourceID uuid.UUID, at time.Time) []change {
	f := x.feeds.Get(feedID)
	delete(f.Sources, sourceID)
	drop(x.feedsOfSource, sourceID, feedID)
	var changes []change
	for id := range x.happeningsOfSource[sourceID] {
		h := x.happenings.Get(id)
		if !h.Feeds[feedID] || h.carriedBySourceOf(f) {
			continue
		}
		delete(h.Feeds, feedID)
		x.happenings.Set(id, h)
		changes = append(changes, change{
			feed: feedID, organization: f.Organization, happening: id, source: sourceID, remove: true, at: at,
		})
	}
	return changes
}

// carriedBySourceOf says that a source of the feed carries the happening.
func (h *happeningState) carriedBySourceOf(f *feedState) bool {
	for sourceID := range h.Sources {
		if f.Sources[sourceID] != nil {
			return true
		}
	}
	return false
}

// add makes a happening an item, unless it is one.
func (x *index) add(feedID, id, sourceID uuid.UUID, at time.Time) (c change, fresh bool) {
	h := x.happenings.Get(id)
	if h.Feeds[feedID] {
		return change{}, false
	}
	h.Feeds[feedID] = true
	x.happenings.Set(id, h)
	return change{feed: feedID, organization: x.feeds.Get(feedID).Organization, happening: id, source: sourceID, at: at}, true
}

// dates are what a source says of a happening; zero where it was not seen there.
func (x *index) dates(id, sourceID uuid.UUID) sourceDates {
	if h := x.happenings.Get(id); h != nil {
		return h.Sources[sourceID]
	}
	return sourceDates{}
}

// carry keeps what a source says of a happening.
func (x *index) carry(id, sourceID uuid.UUID, dates sourceDates) {
	h := x.happenings.Get(id)
	if h == nil {
		h = &happeningState{Sources: map[uuid.UUID]sourceDates{}}
	}
	if known, carried := h.Sources[sourceID]; carried && known == dates {
		return
	}
	h.Sources[sourceID] = dates
	x.happenings.Set(id, h)
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
