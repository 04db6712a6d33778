package httpapi_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/projections/feeds"
)

const feedsPath = "/feeds/events"

// eventFeed makes one, and gives its path.
func (s *server) eventFeed(t *testing.T) (feedView, string) {
	t.Helper()
	var feed feedView
	s.do(t, request{method: "POST", path: feedsPath, body: `{"name":"Downtown","description":"Near"}`}).into(t, 201, &feed)
	return feed, feedsPath + "/" + feed.ID
}

// site makes a source.
func (s *server) site(t *testing.T) uuid.UUID {
	t.Helper()
	source, err := s.Commands.RegisterSource(t.Context(), apitest.Operator, command.RegisterSource{
		Type: "site",
		URL:  "https://example.org/" + uuid.NewString(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return source.ID
}

// attach returns the id of the association.
func (s *server) attach(t *testing.T, feedPath string, source uuid.UUID) string {
	t.Helper()
	var association struct {
		ID string `json:"id"`
	}
	body := fmt.Sprintf(`{"sourceType":"site","sourceId":"%s"}`, source)
	s.do(t, request{method: "POST", path: feedPath + "/sources", body: body}).into(t, 201, &association)
	return association.ID
}

// items waits until a feed's list has n items, and returns them by title.
func (s *server) items(t *testing.T, feedPath string, number int) map[string]string {
	t.Helper()
	var page itemsPage
	apitest.Eventually(t, fmt.Sprintf("%d items are in the feed", number), func() bool {
		s.do(t, request{path: feedPath + "/items?since=" + time.Now().UTC().AddDate(0, 0, -6).Format(time.DateOnly) +
			"&until=" + time.Now().UTC().AddDate(0, 0, 29).Format(time.DateOnly)}).into(t, 200, &page)
		return page.Total == number
	})
	ids := map[string]string{}
	for _, item := range page.Items {
		ids[item.Title] = item.ID
	}
	return ids
}

// share lets a new organization read a feed, and gives its key.
func (s *server) share(t *testing.T, feedID string) string {
	t.Helper()
	reader, key := s.Organization(t, "Reader")
	shared, err := s.Commands.ShareFeed(t.Context(), apitest.Operator, command.ShareFeed{
		FeedType:     "event",
		FeedID:       uuid.MustParse(feedID),
		Organization: reader,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Await(t, shared.Position, feeds.ReadModel.Name)
	return key
}

// tomorrow is a full hour.
func tomorrow() time.Time { return time.Now().UTC().Truncate(time.Hour).AddDate(0, 0, 1) }

// bare is an event without fields but its starts: each is a separate instance.
func bare(title string, status happening.Status, starts ...time.Time) happening.Details {
	d := happening.Details{Title: title}
	for i, start := range starts {
		instance := happening.DeriveInstanceID(title, fmt.Sprint(i))
		d.Instances = append(d.Instances, happening.Instance{
			ID:     instance,
			Status: status,
			Occurrences: []happening.Occurrence{
				{ID: happening.DeriveOccurrenceID(instance, 0), Start: start, Status: status},
			},
		})
	}
	return d
}
