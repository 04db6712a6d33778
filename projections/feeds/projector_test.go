package feeds_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/feeds"
	"carillon/projections/projecttest"
	"carillon/query"
)

var (
	org, reader, other = uuid.New(), uuid.New(), uuid.New()
	noon               = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	created            = feed.Created{
		Organization: org,
		Settings:     feed.Settings{Name: "Concerts", Description: "In town", Config: feed.Config{Version: 1}},
		Enabled:      true,
		At:           noon,
	}
)

func open(t *testing.T) (*projecttest.Log, *query.Queries) {
	t.Helper()
	log := projecttest.New(t, feeds.ReadModel)
	return log, &query.Queries{Pool: log.Database}
}

func record(log *projecttest.Log, id uuid.UUID, events ...feed.Event) {
	projecttest.Stream(log, feed.Aggregate, id, noon)(events...)
}

func TestFeedAsItChanges(t *testing.T) {
	t.Parallel()
	log, queries := open(t)
	id := uuid.New()
	record(log, id, created)
	log.Project()
	want := query.Feed{
		ID:            id,
		Name:          "Concerts",
		Description:   "In town",
		Enabled:       true,
		EnabledSource: "system",
		FeedConfig:    query.FeedConfig{Version: 1},
		CreatedAt:     noon,
		UpdatedAt:     noon,
	}
	expectFeed(t, queries, want)

	at, reason := noon.Add(time.Hour), "maintenance"
	record(log, id, feed.Revised{
		Settings: feed.Settings{Name: "Gigs", Description: "Out of town", Config: feed.Config{Version: 1.5}},
		At:       at,
	},
		feed.Disabled{By: feed.ByAdmin, Reason: reason, At: at.Add(time.Minute)})
	log.Project()
	want.Name, want.Description, want.Version = "Gigs", "Out of town", 1.5
	want.Enabled, want.EnabledSource, want.EnabledReason, want.UpdatedAt = false, "admin", &reason, at.Add(time.Minute)
	expectFeed(t, queries, want)

	record(log, id, feed.Enabled{By: feed.ByAPI, At: at.Add(time.Hour)})
	log.Project()
	want.Enabled, want.EnabledSource, want.EnabledReason, want.UpdatedAt = true, "api", nil, at.Add(time.Hour)
	expectFeed(t, queries, want)

	record(log, id, feed.Deleted{At: at})
	log.Project()
	assert.Is(t, assert.Err(queries.Feed(t.Context(), org, id)), query.ErrNotFound, "a deleted feed")
}

func expectFeed(t *testing.T, queries *query.Queries, want query.Feed) {
	t.Helper()
	got := must.Get(queries.Feed(t.Context(), org, want.ID))(t)
	assert.Same(t, got, want)
}

func TestReadersOfFeeds(t *testing.T) {
	t.Parallel()
	log, queries := open(t)
	own, shared, gone, news := uuid.New(), uuid.New(), uuid.New(), uuid.New()
	record(log, own, created)
	record(log, shared, created, feed.Shared{With: reader, At: noon})
	record(log, gone, created, feed.Shared{With: reader, At: noon}, feed.Unshared{With: reader, At: noon})
	record(log, news, feed.Registered{
		Organization: org,
		FeedType:     feed.TypeNews,
		Name:         "News",
		At:           noon,
	}, feed.Shared{With: reader, At: noon})
	log.Project()
	log.SameInBatches(t, feeds.ReadModel, []int{3, 7, 1}, "feeds.feeds", "feeds.shares")

	tests := map[string]struct {
		organization uuid.UUID
		feeds        []uuid.UUID
	}{
		"owner":   {org, []uuid.UUID{own, shared, gone}},
		"reader":  {reader, []uuid.UUID{shared}},
		"another": {other, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			listed := map[uuid.UUID]bool{}
			for f, err := range queries.Feeds(t.Context(), tt.organization) {
				must.OK(t, err)
				listed[f.ID] = true
			}
			for _, id := range []uuid.UUID{own, shared, gone, news} {
				want := false
				for _, readable := range tt.feeds {
					want = want || readable == id
				}
				_, err := queries.Feed(t.Context(), tt.organization, id)
				if listed[id] != want || (err == nil) != want {
					t.Errorf("feed %s: listed %t, found %v; want %t", id, listed[id], err, want)
				}
			}
		})
	}
	for _, tt := range []struct {
		organization uuid.UUID
		feedType     string
		id           uuid.UUID
		want         bool
	}{
		{org, "news", news, true}, {reader, "news", news, true}, {other, "news", news, false}, {org, "event", news, false},
		{org, "event", own, true}, {reader, "event", own, false}, {reader, "event", shared, true},
		{org, "event", uuid.New(), false},
	} {
		assert.Equal(t, must.Get(queries.Readable(t.Context(), tt.organization, tt.feedType, tt.id))(t), tt.want,
			"readable(%+v)", tt)
	}
}

func TestAssociations(t *testing.T) {
	t.Parallel()
	log, queries := open(t)
	id := uuid.New()
	first := query.Association{
		ID:         uuid.New(),
		FeedID:     id,
		SourceType: "site",
		SourceID:   uuid.New(),
		CreatedAt:  noon,
	}
	second := query.Association{
		ID:         uuid.New(),
		FeedID:     id,
		SourceType: "tiktok",
		SourceID:   uuid.New(),
		CreatedAt:  noon.Add(time.Minute),
	}
	record(log, id, created)
	log.Project()
	expectAssociations(t, queries, id)
	for _, a := range []query.Association{first, second} {
		record(log, id, feed.SourceAttached{
			AssociationID: a.ID,
			SourceID:      a.SourceID,
			SourceType:    a.SourceType,
			At:            a.CreatedAt,
		})
	}
	log.Project()
	expectAssociations(t, queries, id, first, second)
	assert.Is(t, assert.Err(queries.Associations(t.Context(), other, id)), query.ErrNotFound, "another's feed")
	record(log, id, feed.SourceDetached{AssociationID: first.ID, SourceID: first.SourceID, At: noon})
	log.Project()
	expectAssociations(t, queries, id, second)
	log.SameInBatches(t, feeds.ReadModel, []int{3, 1}, "feeds.associations")
}

func expectAssociations(t *testing.T, queries *query.Queries, id uuid.UUID, want ...query.Association) {
	t.Helper()
	got := must.Get(queries.Associations(t.Context(), org, id))(t)
	assert.Same(t, got, append([]query.Association{}, want...))
}
