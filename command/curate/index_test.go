package curate

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	org        = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	oneFeed    = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	otherFeed  = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	site       = uuid.MustParse("44444444-4444-4444-8444-444444444444")
	page       = uuid.MustParse("55555555-5555-4555-8555-555555555555")
	concert    = uuid.MustParse("66666666-6666-4666-8666-666666666666")
	exhibition = uuid.MustParse("77777777-7777-4777-8777-777777777777")
	noon       = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

const day = 24 * time.Hour

// story is a history that an index follows.
type story struct {
	t     testing.TB
	state *eventstore.ProcessState
	index *index
	known map[uuid.UUID]*Known
	now   time.Time
	made  []change // by the last event
}

func begin(t testing.TB) *story {
	state := &eventstore.ProcessState{}
	s := &story{
		t:     t,
		state: state,
		index: newIndex(state, 0),
		known: map[uuid.UUID]*Known{},
		now:   noon,
	}
	for _, id := range []uuid.UUID{oneFeed, otherFeed} {
		s.feed(id, feed.Created{Organization: org, Enabled: true, At: noon})
	}
	return s
}

func record[S, E, C any](s *story, a eventstore.Aggregate[S, E, C], id uuid.UUID, event E) *story {
	s.t.Helper()
	name, data, err := a.Codec.Encode(event)
	must.OK(s.t, err)
	events := must.Get(decode([]eventstore.Recorded{{
		ID:     uuid.New(),
		Stream: a.Stream(id),
		Type:   name,
		Data:   data,
	}}))(s.t)
	s.index.happenings = newRecalled(s.known)
	made, sweeps, err := s.index.apply(&events[0])
	must.OK(s.t, err)
	for _, all := range sweeps {
		made = append(made, s.index.sweep(all)...)
	}
	s.made = made
	return s
}

func (s *story) feed(id uuid.UUID, event feed.Event) *story {
	s.t.Helper()
	return record(s, feed.Aggregate, id, event)
}

func (s *story) source(id uuid.UUID, event source.Event) *story {
	s.t.Helper()
	return record(s, source.Aggregate, id, event)
}

func (s *story) attach(feedID, sourceID uuid.UUID) *story {
	s.t.Helper()
	return s.feed(feedID, feed.SourceAttached{
		AssociationID: uuid.New(),
		SourceID:      sourceID,
		SourceType:    "site",
		At:            s.now,
	})
}

func (s *story) detach(feedID, sourceID uuid.UUID) *story {
	s.t.Helper()
	return s.feed(feedID, feed.SourceDetached{SourceID: sourceID, At: s.now})
}

// collected records a complete walk of a source that finds nothing.
func (s *story) collected(sourceID uuid.UUID) *story {
	s.t.Helper()
	return s.source(sourceID, source.CollectionStarted{Number: 1, At: s.now}).
		source(sourceID, source.CollectionCompleted{Number: 1, At: s.now})
}

// observe records a happening that takes place at a time.
func (s *story) observe(id, sourceID uuid.UUID, at time.Time) *story {
	s.t.Helper()
	return record(s, happening.Aggregate, id,
		happening.Event(happening.Observed{SourceID: sourceID, Details: takingPlace(at), At: s.now}))
}

func takingPlace(at time.Time) happening.Details {
	return happening.Details{Title: "T",
		Instances: []happening.Instance{{Occurrences: []happening.Occurrence{{Start: at}}}}}
}

// cancel records that a source cancelled an occurrence.
func (s *story) cancel(id, sourceID uuid.UUID) *story {
	s.t.Helper()
	return record(s, happening.Aggregate, id, happening.Event(happening.OccurrenceChanged{
		Status:         happening.Cancelled,
		PreviousStatus: happening.Scheduled,
		SourceID:       sourceID,
		At:             s.now,
	}))
}

// expect checks the changes that followed from the last event, in the form "+feed happening": "~" marks a backfill,
// "." an addition without publication, "!" a changed occurrence.
func (s *story) expect(want ...string) *story {
	s.t.Helper()
	names := map[uuid.UUID]string{
		oneFeed:    "one",
		otherFeed:  "other",
		concert:    "concert",
		exhibition: "exhibition",
	}
	var got []string
	for _, c := range s.made {
		sign := "."
		switch {
		case c.remove:
			sign = "-"
		case c.occurrence != nil:
			sign = "!"
		case c.backfill:
			sign = "~"
		case c.news:
			sign = "+"
		}
		got = append(got, fmt.Sprintf("%s%s %s", sign, names[c.feed], names[c.happening]))
		assert.True(s.t, c.organization == org && c.at.Equal(s.now), "change of %s at %s", c.organization, c.at)
	}
	slices.Sort(got)
	assert.Same(s.t, got, want)
	return s
}

func TestIndex_addsToFeeds(t *testing.T) {
	t.Parallel()
	begin(t).attach(oneFeed, site).collected(site).attach(otherFeed, page).collected(page).
		observe(concert, site, noon.Add(day)).expect("+one concert").
		observe(concert, page, noon.Add(day)).expect("+other concert").
		observe(concert, site, noon.Add(2*day)).expect() // it is there already
}

func TestIndex_firstCollectionIsBackfill(t *testing.T) {
	t.Parallel()
	s := begin(t).attach(oneFeed, site).
		source(site, source.CollectionStarted{Number: 1, At: noon}).
		observe(concert, site, noon.Add(day)).expect("~one concert")
	// The second feed is attached in the middle of a collection, the rest of which is incomplete.
	s.attach(otherFeed, site).expect("~other concert").
		source(site, source.CollectionCompleted{Number: 1, At: noon}).
		observe(exhibition, site, noon.Add(day)).expect("+one exhibition", "~other exhibition")
}

// The happenings of an attached source are known: the next one is published, also during a walk.
func TestIndex_knownSourcePublishes(t *testing.T) {
	t.Parallel()
	s := begin(t).observe(concert, site, noon.Add(day)).
		source(site, source.CollectionStarted{Number: 1, At: noon})
	s.feed(oneFeed, feed.SourceAttached{
		AssociationID: uuid.New(),
		SourceID:      site,
		SourceType:    "site",
		Known:         true,
		At:            s.now,
	}).expect("~one concert").
		observe(exhibition, site, noon.Add(day)).expect("+one exhibition")
}

func TestIndex_failedCollection(t *testing.T) {
	t.Parallel()
	begin(t).attach(oneFeed, site).
		source(site, source.CollectionStarted{Number: 1, At: noon}).
		source(site, source.CollectionFailed{Number: 1, At: noon}).
		source(site, source.CollectionStarted{Number: 2, At: noon}).
		observe(concert, site, noon.Add(day)).expect("~one concert").
		source(site, source.CollectionCompleted{Number: 2, At: noon}).
		observe(exhibition, site, noon.Add(day)).expect("+one exhibition")
}

func TestBackfillWindow(t *testing.T) {
	t.Parallel()
	long := noon.Add(-100 * day)
	published := noon.Add(-14 * day)
	tests := map[string]struct {
		seen      time.Time
		published *time.Time
		takes     time.Time
		added     bool
	}{
		"first seen 14 days ago":    {noon.Add(-14 * day), nil, long, true},
		"published 14 days ago":     {long, &published, long, true},
		"took place 14 days ago":    {long, nil, noon.Add(-14 * day), true},
		"takes place in the future": {long, nil, noon.Add(300 * day), true},
		"all before that":           {noon.Add(-14*day - time.Second), nil, noon.Add(-15 * day), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			record(s, happening.Aggregate, concert, happening.Event(happening.Observed{
				SourceID:    site,
				Details:     takingPlace(tt.takes),
				PublishedAt: tt.published,
				At:          tt.seen,
			}))
			s.attach(oneFeed, site)
			if tt.added {
				s.expect("~one concert")
			} else {
				s.expect()
			}
		})
	}
}

func TestIndex_revisionOfOldHappening(t *testing.T) {
	t.Parallel()
	s := begin(t)
	s.now = noon.Add(-100 * day)
	s.observe(concert, site, noon.Add(-90*day))
	s.now = noon
	s.attach(oneFeed, site).expect().collected(site)
	record(s, happening.Aggregate, concert,
		happening.Event(happening.Revised{SourceID: site, Details: takingPlace(noon.Add(-80 * day)), At: noon})).expect()
	record(s, happening.Aggregate, concert,
		happening.Event(happening.Revised{SourceID: site, Details: takingPlace(noon.Add(day)), At: noon})).
		expect("+one concert")
}

// A site that gives its archive new addresses shows unknown happenings, which are not published.
func TestIndex_pastHappeningUnpublished(t *testing.T) {
	t.Parallel()
	s := begin(t).attach(oneFeed, site).collected(site).
		observe(concert, site, noon.Add(-time.Second)).expect(".one concert").
		observe(exhibition, site, noon.Add(time.Second)).expect("+one exhibition")
	undated := uuid.New()
	s.observe(undated, site, time.Time{}).expect("+one ")
	// A happening that is over and was added stays an item. It is neither added again nor published.
	record(s, happening.Aggregate, concert,
		happening.Event(happening.Revised{SourceID: site, Details: takingPlace(noon.Add(day)), At: noon})).expect()
}

// A happening is over when its last occurrence has ended; without an end the start counts.
func TestIndex_over(t *testing.T) {
	t.Parallel()
	span := func(from, to time.Duration) happening.Occurrence {
		end := noon.Add(to)
		return happening.Occurrence{Start: noon.Add(from), End: &end}
	}
	for name, tt := range map[string]struct {
		occurrences []happening.Occurrence
		want        string
	}{
		"it is going on":               {[]happening.Occurrence{span(-time.Hour, time.Second)}, "+one concert"},
		"it ends as it is seen":        {[]happening.Occurrence{span(-time.Hour, 0)}, ".one concert"},
		"its last day is to come":      {[]happening.Occurrence{span(-2*day, -day), span(day, 2*day)}, "+one concert"},
		"a day is to come, seen first": {[]happening.Occurrence{span(day, 2*day), span(-2*day, -day)}, "+one concert"},
		"all its days are over":        {[]happening.Occurrence{span(-3*day, -2*day), span(-2*day, -day)}, ".one concert"},
		"it begins as it is seen":      {[]happening.Occurrence{{Start: noon}}, ".one concert"},
		"today, the whole day":         {[]happening.Occurrence{span(-12*time.Hour, 12*time.Hour)}, "+one concert"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t).attach(oneFeed, site).collected(site)
			record(s, happening.Aggregate, concert, happening.Event(happening.Observed{SourceID: site, At: noon,
				Details: happening.Details{
					Title: "T", Instances: []happening.Instance{{Occurrences: tt.occurrences}},
				}})).expect(tt.want)
		})
	}
}

func TestIndex_detach(t *testing.T) {
	t.Parallel()
	begin(t).attach(oneFeed, site).attach(oneFeed, page).attach(otherFeed, site).
		observe(concert, site, noon.Add(day)).observe(exhibition, site, noon.Add(day)).observe(exhibition, page,
		noon.Add(day)).
		detach(oneFeed, site).expect("-one concert").
		observe(concert, site, noon.Add(day)).expect().
		detach(oneFeed, page).expect("-one exhibition").
		attach(oneFeed, page).expect("~one exhibition")
}

func TestIndex_disabledFeedCatchesUp(t *testing.T) {
	t.Parallel()
	begin(t).attach(oneFeed, site).collected(site).
		feed(oneFeed, feed.Disabled{At: noon}).
		observe(concert, site, noon.Add(day)).expect().
		attach(oneFeed, page).observe(exhibition, page, noon.Add(day)).expect().
		feed(oneFeed, feed.Enabled{At: noon}).expect("~one concert", "~one exhibition")
}

func TestIndex_deletedFeed(t *testing.T) {
	t.Parallel()
	s := begin(t).attach(oneFeed, site).observe(concert, site, noon.Add(day)).
		feed(oneFeed, feed.Deleted{At: noon}).expect().
		observe(exhibition, site, noon.Add(day)).expect()
	assert.True(t, !s.known[concert].Feeds[oneFeed] && s.index.feeds.Get(oneFeed) == nil &&
		len(s.index.feedsOfSource) == 0, "something of the feed is left")
}

func TestIndex_registeredFeed(t *testing.T) {
	t.Parallel()
	news := uuid.New()
	begin(t).feed(news, feed.Registered{Organization: org, FeedType: feed.TypeNews, At: noon}).expect().
		feed(news, feed.Shared{With: org, At: noon}).expect()
}

func TestIndex_occurrenceChanged(t *testing.T) {
	t.Parallel()
	begin(t).attach(oneFeed, site).collected(site).attach(otherFeed, page).collected(page).
		observe(concert, site, noon.Add(day)).
		cancel(concert, site).expect("!one concert").
		observe(concert, page, noon.Add(day)).
		cancel(concert, site).expect("!one concert", "!other concert").
		feed(oneFeed, feed.Disabled{At: noon}).
		cancel(concert, page).expect("!other concert").
		cancel(exhibition, site).expect()
}

// A difference that comes with a new source is not published.
func TestIndex_changeFromNewSource(t *testing.T) {
	t.Parallel()
	begin(t).attach(oneFeed, site).collected(site).observe(concert, site, noon.Add(day)).
		attach(otherFeed, site).attach(oneFeed, page).
		observe(concert, page, noon.Add(day)).cancel(concert, page).expect("!other concert").
		collected(page).cancel(concert, page).expect("!one concert", "!other concert")
}

func TestInstantPrecision(t *testing.T) {
	t.Parallel()
	got := instant(noon.Add(1999 * time.Nanosecond))
	assert.True(t, got.Equal(noon.Add(time.Microsecond)), "%v", got)
	assert.True(t, instant(time.Time{}).IsZero(), "no time became one")
}
