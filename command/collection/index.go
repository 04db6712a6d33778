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
	feeds      map[uuid.UUID]*filled
	filledBy   map[uuid.UUID]map[uuid.UUID]struct{} // feeds by source
	happenings map[uuid.UUID]*carried
	carriedBy  map[uuid.UUID]map[uuid.UUID]struct{} // happenings by source
	dirty      map[rowKey]struct{}
}

// filled is an event feed.
type filled struct {
	Organization uuid.UUID               `json:"organization"`
	Enabled      bool                    `json:"enabled"`
	Sources      map[uuid.UUID]*attached `json:"sources"`
}

// attached is a source in a feed. Until a collection that began after the attachment has completed, what it brings is
// backfill: it is no news.
type attached struct {
	Backfill   bool `json:"backfill,omitempty"`
	Collecting bool `json:"collecting,omitempty"`
}

// carried is a happening, and what each of its sources says about when it is of interest.
type carried struct {
	Sources map[uuid.UUID]interest `json:"sources"`
	Feeds   map[uuid.UUID]bool     `json:"feeds,omitempty"` // of which it is an item
}

type interest struct {
	FirstSeen time.Time `json:"firstSeen"`
	Published time.Time `json:"published,omitzero"`
	Last      time.Time `json:"last,omitzero"` // end of the last occurrence
}

// recent says that a happening belongs to a backfill that begins at a time.
func (i interest) recent(at time.Time) bool {
	cutoff := at.Add(-backfillWindow)
	return !i.FirstSeen.Before(cutoff) || !i.Published.Before(cutoff) || !i.Last.Before(cutoff)
}

// change is an item to be added or removed.
type change struct {
	feed, organization, happening, source uuid.UUID

	remove   bool
	backfill bool
	details  happening.Details // of what is to be published
	at       time.Time
}

func newIndex() *index {
	return &index{
		feeds: map[uuid.UUID]*filled{}, filledBy: map[uuid.UUID]map[uuid.UUID]struct{}{},
		happenings: map[uuid.UUID]*carried{}, carriedBy: map[uuid.UUID]map[uuid.UUID]struct{}{},
		dirty: map[rowKey]struct{}{},
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
		i := x.interest(id, e.SourceID)
		if i.FirstSeen.IsZero() {
			i.FirstSeen = e.At
		}
		if e.PublishedAt != nil {
			i.Published = *e.PublishedAt
		}
		return x.seen(id, e.SourceID, i, e.Details, e.At, true)
	case happening.Revised:
		// What was too old for a feed may have got a new date.
		return x.seen(id, e.SourceID, x.interest(id, e.SourceID), e.Details, e.At, false)
	}
	return nil
}

// seen adds a happening to the feeds that its source fills: always where it was observed, else while it is recent.
func (x *index) seen(id, sourceID uuid.UUID, i interest, details happening.Details, at time.Time, observed bool) []change {
	i.Last = details.Last()
	x.carry(id, sourceID, i)
	var changes []change
	for feedID := range x.filledBy[sourceID] {
		f := x.feeds[feedID]
		if !f.Enabled || !observed && !i.recent(at) {
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
	for feedID := range x.filledBy[id] {
		a := x.feeds[feedID].Sources[id]
		switch event.(type) {
		case source.CollectionStarted:
			a.Collecting = true
		case source.CollectionCompleted:
			a.Backfill = a.Backfill && !a.Collecting
			a.Collecting = false
		case source.CollectionFailed, source.CredentialsMissing:
			a.Collecting = false
		default:
			continue
		}
		x.dirty[rowKey{kindFeed, feedID}] = struct{}{}
	}
}

func (x *index) applyFeed(id uuid.UUID, event feed.Event) []change {
	f := x.feeds[id]
	if created, ok := event.(feed.Created); ok {
		f = &filled{Organization: created.Organization, Enabled: created.Enabled, Sources: map[uuid.UUID]*attached{}}
		x.feeds[id] = f
	}
	if f == nil {
		return nil // not an event feed
	}
	x.dirty[rowKey{kindFeed, id}] = struct{}{}
	switch e := event.(type) {
	case feed.Enabled:
		f.Enabled = true
		return x.backfillAll(id, e.At)
	case feed.Disabled:
		f.Enabled = false
	case feed.SourceAttached:
		f.Sources[e.SourceID] = &attached{Backfill: true}
		put(x.filledBy, e.SourceID, id)
		return x.backfill(id, e.SourceID, e.At)
	case feed.SourceDetached:
		return x.detach(id, e.SourceID, e.At)
	case feed.Deleted:
		for sourceID := range f.Sources {
			x.detach(id, sourceID, e.At) // the items need not be removed one by one: their feed is gone
		}
		delete(x.feeds, id)
	}
	return nil
}

// backfillAll catches up with what a disabled feed has missed.
func (x *index) backfillAll(feedID uuid.UUID, at time.Time) []change {
	f := x.feeds[feedID]
	changes := make([]change, 0, len(f.Sources))
	for sourceID := range f.Sources {
		changes = append(changes, x.backfill(feedID, sourceID, at)...)
	}
	return changes
}

func (x *index) backfill(feedID, sourceID uuid.UUID, at time.Time) []change {
	if !x.feeds[feedID].Enabled {
		return nil
	}
	var changes []change
	for id := range x.carriedBy[sourceID] {
		if !x.happenings[id].Sources[sourceID].recent(at) {
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
	f := x.feeds[feedID]
	delete(f.Sources, sourceID)
	drop(x.filledBy, sourceID, feedID)
	var changes []change
	for id := range x.carriedBy[sourceID] {
		c := x.happenings[id]
		if !c.Feeds[feedID] || c.carriedIn(f) {
			continue
		}
		delete(c.Feeds, feedID)
		x.dirty[rowKey{kindHappening, id}] = struct{}{}
		changes = append(changes, change{
			feed: feedID, organization: f.Organization, happening: id, source: sourceID, remove: true, at: at,
		})
	}
	return changes
}

func (c *carried) carriedIn(f *filled) bool {
	for sourceID := range c.Sources {
		if f.Sources[sourceID] != nil {
			return true
		}
	}
	return false
}

// add makes a happening an item, unless it is one.
func (x *index) add(feedID, id, sourceID uuid.UUID, at time.Time) (c change, fresh bool) {
	h := x.happenings[id]
	if h.Feeds[feedID] {
		return change{}, false
	}
	h.Feeds[feedID] = true
	x.dirty[rowKey{kindHappening, id}] = struct{}{}
	return change{feed: feedID, organization: x.feeds[feedID].Organization, happening: id, source: sourceID, at: at}, true
}

func (x *index) interest(id, sourceID uuid.UUID) interest {
	if h := x.happenings[id]; h != nil {
		return h.Sources[sourceID]
	}
	return interest{}
}

func (x *index) carry(id, sourceID uuid.UUID, i interest) {
	h := x.happenings[id]
	if h == nil {
		h = &carried{Sources: map[uuid.UUID]interest{}, Feeds: map[uuid.UUID]bool{}}
		x.happenings[id] = h
	}
	if h.Sources[sourceID] == i {
		return
	}
	h.Sources[sourceID] = i
	put(x.carriedBy, sourceID, id)
	x.dirty[rowKey{kindHappening, id}] = struct{}{}
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
