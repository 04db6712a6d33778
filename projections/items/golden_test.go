package items_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/item/shape"
	"carillon/eventstore/aggregatetest"
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
		page, err := f.Items(t.Context(), org, f.feed, in)
		if err != nil {
			t.Fatal(err)
		}
		aggregatetest.GoldenFile(t, name, page.Items)
	}
	single, err := f.Item(t.Context(), org, f.feed, item.ID(f.feed, goldenFull), true, now)
	if err != nil {
		t.Fatal(err)
	}
	aggregatetest.GoldenFile(t, "item-with-source.json", single)
	added, err := shape.Published(shape.Item{
		ID:      item.ID(f.feed, goldenFull),
		EventID: goldenFull,
		AddedAt: now,
		Details: everything(),
	})
	if err != nil {
		t.Fatal(err)
	}
	aggregatetest.GoldenFile(t, "event.item.added.json", added)
	moved := everything().Instances[3]
	changed, err := shape.Changed(item.ID(f.feed, goldenFull), goldenFull, happening.OccurrenceChanged{
		OccurrenceID:   moved.Occurrences[0].ID,
		InstanceID:     moved.ID,
		Title:          "Carillon & <friends>",
		Start:          moved.Occurrences[0].Start,
		End:            moved.Occurrences[0].End,
		Status:         happening.Rescheduled,
		PreviousStart:  &published,
		PreviousStatus: happening.Scheduled,
	})
	if err != nil {
		t.Fatal(err)
	}
	aggregatetest.GoldenFile(t, "event.occurrence.changed.json", changed)
}
