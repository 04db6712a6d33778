package items_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/item/shape"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

// The ids in the golden files.
var (
	goldenFeed   = uuid.MustParse("aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa")
	goldenSource = uuid.MustParse("bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb")
	goldenFull   = uuid.MustParse("cccccccc-cccc-4ccc-8ccc-cccccccccccc")
	goldenBare   = uuid.MustParse("dddddddd-dddd-4ddd-8ddd-dddddddddddd")
)

// everything has each field that there is, and an occurrence of each status.
func everything() happening.Details {
	total, available := 300, 12
	end := func(at time.Duration) *time.Time { return new(now.Add(at + 2*time.Hour)) }
	d := happening.Details{
		Title:            "Carillon & <friends>",
		Description:      "<p>Bells</p>",
		ShortDescription: "Bells at dusk",
		Time: happening.Time{
			TemporalPattern: happening.Recurring,
			Timezone:        "Europe/Rome",
			DisplayText:     "Saturdays, 20:00",
		},
		Location: &happening.Location{
			Venue:          &happening.Venue{Name: "Tower", Address: "Market 1"},
			Coordinates:    &happening.Coordinates{Lat: 45.4642, Lng: 9.19},
			Online:         &happening.Online{Platform: "zoom", URL: "https://zoom.example/1"},
			DisplayAddress: "Tower, Market 1, Milan",
		},
		Capacity:         &happening.Capacity{Total: &total, Available: &available},
		Organizer:        &happening.Organizer{Name: "Guild", URL: "https://guild.example/", Contact: "guild@example.org"},
		PrimaryImage:     "https://example.org/1.png",
		SupportingImages: []string{"https://example.org/2.png"},
		PrimaryURL:       "https://example.org/carillon",
		URLs:             []string{"https://example.org/carillon", "https://tickets.example/1"},
		GeoLocations: []happening.GeoLocation{{
			ID:           goldenSource,
			Description:  "Milan",
			RelationType: happening.RelevanceRegion,
			Score:        80,
		}},
	}
	for i, status := range []happening.Status{happening.Scheduled, happening.Cancelled, happening.Postponed,
		happening.Rescheduled, happening.Scheduled} {
		start := []time.Duration{-3 * day, day, 2 * day, 3 * day, 4 * day}[i]
		instance := happening.Instance{ID: happening.DeriveInstanceID("golden", string(rune('a'+i))), Status: status}
		instance.Occurrences = []happening.Occurrence{{
			ID:     happening.DeriveOccurrenceID(instance.ID, 0),
			Start:  now.Add(start),
			End:    end(start),
			Status: status,
		}}
		d.Instances = append(d.Instances, instance)
	}
	d.Instances[4].Occurrences[0].End = nil
	return d
}

// Both shapes of an item, one with everything and one with nothing, and its published form, byte by byte.
func TestGoldenFiles(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.feed, f.source = goldenFeed, goldenSource
	f.onFeed(f.feed, created(feed.Settings{Name: "F", Description: "D"}), attached(f.source))
	published := now.Add(-day)
	from := happening.Block{
		Type:         "instagram",
		Subtype:      "post",
		URL:          "https://instagram.example/guild",
		PermalinkURL: "https://instagram.example/p/1",
		Publisher: &happening.Publisher{
			Type:      "account",
			Name:      "Guild",
			Username:  "guild",
			AvatarURL: "https://instagram.example/guild.png",
		},
	}
	f.onHappening(goldenFull, happening.Observed{
		SourceID:    f.source,
		Key:         "k",
		Details:     everything(),
		PublishedAt: &published,
		Source:      from,
		At:          now,
	})
	f.addTo(f.feed, goldenFull, now)
	f.add(goldenBare, happening.Details{
		Title:     "Plain",
		Instances: []happening.Instance{{Occurrences: []happening.Occurrence{{Start: now.Add(5 * day)}}}},
	})
	f.Project()
	f.WithoutRelevance = true // see TestRelevance
	list := query.ItemsQuery{
		Since:   now.Add(-7 * day),
		Until:   now.Add(30 * day),
		OrderBy: query.OrderByOccurrence,
		Limit:   20,
		Now:     now,
	}
	withSource, legacy := list, list
	withSource.Source, legacy.Legacy = true, true
	for name, in := range map[string]query.ItemsQuery{
		"items.json":             list,
		"items-with-source.json": withSource,
		"items-legacy.json":      legacy,
	} {
		page := must.Get(f.Items(t.Context(), org, f.feed, in))(t)
		aggregatetest.GoldenFile(t, name, page.Items)
	}
	single := must.Get(f.Item(t.Context(), org, f.feed, item.ID(f.feed, goldenFull), true, now))(t)
	aggregatetest.GoldenFile(t, "item-with-source.json", single)
	added := must.Get(shape.Published(shape.Item{
		ID:      item.ID(f.feed, goldenFull),
		EventID: goldenFull,
		AddedAt: now,
		Details: everything(),
	}))(t)
	aggregatetest.GoldenFile(t, "event.item.added.json", added)
	moved := everything().Instances[3]
	changed := must.Get(shape.Changed(item.ID(f.feed, goldenFull), goldenFull, happening.OccurrenceChanged{
		OccurrenceID:   moved.Occurrences[0].ID,
		InstanceID:     moved.ID,
		Title:          "Carillon & <friends>",
		Start:          moved.Occurrences[0].Start,
		End:            moved.Occurrences[0].End,
		Status:         happening.Rescheduled,
		PreviousStart:  &published,
		PreviousStatus: happening.Scheduled,
	}))(t)
	aggregatetest.GoldenFile(t, "event.occurrence.changed.json", changed)
}

// An occurrence is in a range that it overlaps: a concert stays in the default list until it is over, an all-day event
// for its day, and one that began weeks ago until its end.
func TestRunningEventsAreListed(t *testing.T) {
	t.Parallel()
	f := open(t)
	hours := func(from, to int) happening.Details {
		d := on("x", time.Duration(from)*time.Hour)
		end := now.Add(time.Duration(to) * time.Hour)
		d.Instances[0].Occurrences[0].End = &end
		return d
	}
	endless := hours(-1, 0)
	endless.Instances[0].Occurrences[0].End = nil
	allDay := hours(-12, 12)
	allDay.Instances[0].Occurrences[0].AllDay = true
	yesterday := hours(-36, -12)
	yesterday.Instances[0].Occurrences[0].AllDay = true
	tests := map[string]struct {
		details happening.Details
		since   time.Duration
		there   bool
	}{
		"a concert that has begun":        {hours(-1, 1), 0, true},
		"a concert that ends now":         {hours(-1, 0), 0, false},
		"a concert a microsecond earlier": {hours(-1, 0), -time.Microsecond, true},
		"all of today":                    {allDay, 0, true},
		"all of yesterday":                {yesterday, 0, false},
		"yesterday, as today begins":      {yesterday, -12 * time.Hour, false},
		"began a month ago":               {hours(-720, 24), 0, true},
		"endless, has begun":              {endless, 0, false},
		"endless, begins then":            {endless, -time.Hour, true},
		"begins at the range's end":       {hours(24*30, 24*30+1), 0, true},
		"begins after the range":          {hours(24*30+1, 24*30+2), 0, false},
	}
	ids := map[string]uuid.UUID{}
	for name, tt := range tests {
		ids[name] = uuid.New()
		f.add(ids[name], tt.details)
	}
	f.Project()
	for name, tt := range tests {
		for _, order := range []string{query.OrderByOccurrence, query.OrderByCreated} {
			for _, legacy := range []bool{false, true} {
				in := usual()
				in.Since, in.OrderBy, in.Legacy = now.Add(tt.since), order, legacy
				list, total := f.list(in)
				i := slices.IndexFunc(list, func(shown shownItem) bool { return shown.ID == item.ID(f.feed, ids[name]) })
				if (i >= 0) != tt.there || total != len(list) {
					t.Errorf("%s, by %s: at %d of %d, total %d", name, order, i, len(list), total)
				} else if i >= 0 && (list[i].Occurrence.Total != 1 || list[i].Occurrence.NextOccurrence == nil) {
					t.Errorf("%s, by %s: %+v", name, order, list[i].Occurrence)
				}
			}
		}
	}
}

// before does something once, before a statement that has some words.
type before struct {
	words string
	once  sync.Once
	do    func()
}

// TraceQueryStart implements pgx.QueryTracer.
func (b *before) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, b.words) {
		b.once.Do(b.do)
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*before) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// An item that comes between two statements of a list that is empty is in the next list, and in the one after it.
func TestAnItemThatComesWhileAnEmptyListIsRead(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"coalesce((SELECT version FROM items.feeds WHERE feed_id = $2)", "count("} {
		f := open(t)
		f.Project()
		config := f.Pool.Config()
		config.ConnConfig.Tracer = &before{words: words, do: func() {
			f.add(uuid.New(), on("Jazz", day))
			f.Project()
		}}
		pool := must.Get(pgxpool.NewWithConfig(t.Context(), config))(t)
		t.Cleanup(pool.Close)
		f.Queries = &query.Queries{Pool: pool}
		f.list(usual()) // with it or without, as it comes
		for range 2 {
			list, total := f.list(usual())
			assert.True(t, len(list) == 1 && total == 1, "before %q: %d items of %d", words, len(list), total)
		}
	}
}
