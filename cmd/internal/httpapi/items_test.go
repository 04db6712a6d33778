package httpapi_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/eventstore"
)

// concert is everything that a source can say of an event which takes place on two days. Those of other tests take
// place elsewhere, so that the curation of feeds does not take them for the same.
func (s *server) concert(title string, start time.Time) happening.Details {
	total, end := 120, start.Add(2*time.Hour)
	instance := happening.DeriveInstanceID(title, "")
	occurrence := func(day int) happening.Occurrence {
		o := happening.Occurrence{
			ID:     happening.DeriveOccurrenceID(instance, day),
			Start:  start.AddDate(0, 0, day),
			Status: happening.Scheduled,
		}
		if day == 0 {
			o.End = &end
		}
		return o
	}
	return happening.Details{
		Title:            title,
		Description:      "<p>Music &amp; more</p>",
		ShortDescription: "Music",
		Time: happening.Time{
			TemporalPattern: happening.Singular,
			Timezone:        "Europe/Rome",
			DisplayText:     "Saturday evening",
		},
		Location: &happening.Location{
			Venue:          &happening.Venue{Name: "Town hall", Address: "Market 1"},
			Coordinates:    &happening.Coordinates{Lat: float64(s.town % 80), Lng: float64(s.town / 80 % 100)},
			Online:         &happening.Online{Platform: "Stream", URL: "https://example.org/live"},
			DisplayAddress: "Town hall, Market 1",
		},
		Capacity:         &happening.Capacity{Total: &total},
		Organizer:        &happening.Organizer{Name: "Town", URL: "https://example.org", Contact: "info@example.org"},
		PrimaryImage:     "https://example.org/1.png",
		SupportingImages: []string{"https://example.org/2.png"},
		PrimaryURL:       "https://example.org/concert",
		URLs:             []string{"https://example.org/concert"},
		GeoLocations: []happening.GeoLocation{{
			ID:           happening.DeriveGeoLocationID("town hall"),
			Description:  "Town hall",
			RelationType: happening.AtLocation,
			Score:        100,
		}},
		Instances: []happening.Instance{{
			ID:          instance,
			Status:      happening.Scheduled,
			Occurrences: []happening.Occurrence{occurrence(0), occurrence(1)},
		}},
	}
}

// happening is the id of one of the test's own.
func (s *server) happening(title string) uuid.UUID { return happening.DeriveID(s.org.String() + title) }

// observe records what a source shows.
func (s *server) observe(t *testing.T, source uuid.UUID, details happening.Details) {
	t.Helper()
	_, err := happening.Aggregate.Execute(t.Context(), s.Store, s.happening(details.Title), happening.Observe{
		SourceID: source,
		Key:      details.Title,
		Details:  details,
		Source:   happening.Block{Type: "site", URL: "https://example.org/events"},
		At:       time.Now().UTC().Truncate(time.Microsecond),
	}, happening.Options{Metadata: eventstore.Metadata{Actor: "collector"}})
	if err != nil {
		t.Fatal(err)
	}
}

type itemsPage struct {
	Items []struct {
		ID         string `json:"id"`
		Title      string `json:"title"`
		Occurrence struct {
			NextOccurrence *struct {
				ID string `json:"id"`
			} `json:"nextOccurrence"`
			InRange  []any `json:"occurrencesInRange"`
			Total    int   `json:"totalOccurrences"`
			Upcoming int   `json:"upcomingOccurrences"`
		} `json:"occurrence"`
		Source map[string]any `json:"source"`
	} `json:"items"`
	Total      int `json:"total"`
	Pagination struct {
		Limit   int  `json:"limit"`
		Offset  int  `json:"offset"`
		HasMore bool `json:"hasMore"`
	} `json:"pagination"`
}

func (p itemsPage) titles() []string {
	titles := make([]string, len(p.Items))
	for i, item := range p.Items {
		titles[i] = item.Title
	}
	return titles
}

func TestItemsOfAnAttachedSource(t *testing.T) {
	t.Parallel()
	s := serve(t)
	source, soon := s.site(t), tomorrow()
	s.observe(t, source, s.concert("Third", soon.AddDate(0, 0, 20)))
	s.observe(t, source, s.concert("First", soon))
	s.observe(t, source, happening.Details{Title: "Bare", Instances: []happening.Instance{{
		ID: uuid.New(), Status: happening.Cancelled,
		Occurrences: []happening.Occurrence{{ID: uuid.New(), Start: soon.Add(time.Hour), Status: happening.Cancelled}},
	}}})
	_, path := s.eventFeed(t)
	s.attach(t, path, source)
	path += "/items"
	var page itemsPage
	apitest.Eventually(t, "the items are in the feed", func() bool {
		s.do(t, request{path: path}).into(t, 200, &page)
		return page.Total == 3
	})
	if got := page.titles(); !slices.Equal(got, []string{"First", "Bare", "Third"}) {
		t.Errorf("in order of occurrence: %v", got)
	}
	if o := page.Items[0].Occurrence; o.NextOccurrence == nil || len(o.InRange) != 2 || o.Total != 2 || o.Upcoming != 2 {
		t.Errorf("occurrences of the first: %+v", o)
	}
	if o := page.Items[1].Occurrence; o.Upcoming != 0 || o.Total != 1 {
		t.Errorf("occurrences of the cancelled one: %+v", o)
	}
	for query, want := range map[string]struct {
		titles string
		more   bool
	}{
		"?limit=2": {"First Bare", true}, "?limit=2&offset=2": {"Third", false}, "?status=cancelled": {"Bare", false},
		"?status=completed": {"", false},
		"?until=" + soon.AddDate(0, 0, 3).Format(time.RFC3339): {"First Bare", false},
	} {
		s.do(t, request{path: path + query}).into(t, 200, &page)
		if got := strings.Join(page.titles(), " "); got != want.titles || page.Pagination.HasMore != want.more {
			t.Errorf("%s: %s, more %v", query, got, page.Pagination.HasMore)
		}
	}
	s.do(t, request{path: path + "?include=source&orderBy=created"}).into(t, 200, &page)
	for _, item := range page.Items {
		if item.Source["type"] != "site" || item.Source["url"] != "https://example.org/events" || len(item.Source) != 2 {
			t.Errorf("source block of %s: %v", item.Title, item.Source)
		}
	}
}
