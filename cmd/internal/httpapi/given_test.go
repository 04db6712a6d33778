package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/happening"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore/storetest/must"
	"carillon/projections/organizations"
)

const feedsPath = "/feeds/events"

// eventFeed makes one, and returns its path.
func (s *server) eventFeed(t *testing.T) (feedView, string) {
	t.Helper()
	feed := into[feedView](t, 201, s.post(t, feedsPath, `{"name":"Downtown","description":"Near"}`))
	return feed, feedsPath + "/" + feed.ID
}

// world holds the values of the parameters of a feed's routes.
type world struct{ feed, item, association, source string }

// pairs are those of a strings.Replacer.
func (w world) pairs() []string {
	return []string{feedsPath + "/{id}", feedsPath + "/" + w.feed, "{feedId}", w.feed, "{itemId}", w.item,
		"{sourceId}", w.association, "{source}", w.source}
}

// filledFeed is a feed with one source and one item.
func (s *server) filledFeed(t *testing.T) world {
	t.Helper()
	source := s.site(t)
	s.observe(t, source, s.concert("Concert", tomorrow()))
	made, path := s.eventFeed(t)
	association := s.attach(t, path, source)
	return world{made.ID, s.items(t, path, 1)["Concert"], association, source.String()}
}

// site makes a source.
func (s *server) site(t *testing.T) uuid.UUID {
	t.Helper()
	return s.Source(t, "https://example.org/"+uuid.NewString(), "")
}

// attach returns the id of the association.
func (s *server) attach(t *testing.T, feedPath string, source uuid.UUID) string {
	t.Helper()
	var association idView
	body := fmt.Sprintf(`{"sourceType":"site","sourceId":"%s"}`, source)
	s.post(t, feedPath+"/sources", body).into(t, 201, &association)
	return association.ID
}

// items waits until a feed's list has n items, and returns them by title.
func (s *server) items(t *testing.T, feedPath string, number int) map[string]string {
	t.Helper()
	var page itemsPage
	must.Eventually(t, fmt.Sprintf("%d items are in the feed", number), func() bool {
		s.get(t, feedPath+"/items?since="+time.Now().UTC().AddDate(0, 0, -6).Format(time.DateOnly)+
			"&until="+time.Now().UTC().AddDate(0, 0, 29).Format(time.DateOnly)).into(t, 200, &page)
		return page.Total == number
	})
	ids := map[string]string{}
	for _, item := range page.Items {
		ids[item.Title] = item.ID
	}
	return ids
}

// share lets a new organization read a feed, and returns its key.
func (s *server) share(t *testing.T, feedID string) string {
	t.Helper()
	reader, key := s.Organization(t, "Reader")
	s.Share(t, "event", uuid.MustParse(feedID), reader)
	return key
}

// revoke revokes a key of the organization.
func (s *server) revoke(t *testing.T, key string) {
	t.Helper()
	in := command.RevokeKey{Organization: s.org, KeyID: strings.Split(key, "_")[1]}
	changed := must.Get(s.Commands.RevokeKey(t.Context(), apitest.Operator, in))(t)
	s.Await(t, changed.Position, organizations.ReadModel.Name)
}

// tomorrow is a full hour.
func tomorrow() time.Time { return time.Now().UTC().Truncate(time.Hour).AddDate(0, 0, 1) }

// bare is an event without fields but its starts: each is a separate instance.
func bare(title string, status happening.Status, starts ...time.Time) happening.Details {
	d := happening.Details{Title: title}
	for i, start := range starts {
		instance := happening.DeriveInstanceID(title, fmt.Sprint(i))
		d.Instances = append(d.Instances, happening.Instance{
			ID:          instance,
			Status:      status,
			Occurrences: []happening.Occurrence{{ID: happening.DeriveOccurrenceID(instance, 0), Start: start, Status: status}},
		})
	}
	return d
}

// published publishes an event and returns the id of its delivery to a destination, once that can be read.
func (s *server) published(t *testing.T, destination string, in command.Publish) string {
	t.Helper()
	event := s.publish(t, in)
	id := dispatch.DeliveryID(event, uuid.MustParse(destination)).String()
	must.Eventually(t, "the delivery can be read", func() bool {
		return s.get(t, "/events/deliveries/"+id).status == http.StatusOK
	})
	return id
}

// delivery makes a pending delivery to a destination that is subscribed to news.
func (s *server) delivery(t *testing.T, destination string) string {
	t.Helper()
	return s.published(t, destination, command.Publish{Subject: "storm"})
}

// happens executes a command on a delivery as the workers do, and waits until it can be read.
func (s *server) happens(t *testing.T, id string, command delivery.Command) {
	t.Helper()
	s.Happens(t, s.org, uuid.MustParse(id), command)
}

// attempt is an attempt that began under a number and was answered with a status and a body.
func (s *server) attempt(t *testing.T, destination string, number, status int, body string) delivery.RecordAttempt {
	t.Helper()
	return s.Attempted(t, s.org, uuid.MustParse(destination), status, body, delivery.RecordAttempt{
		Type:    "news.item.added",
		Number:  number,
		Trigger: delivery.Automatic,
		Retry:   delivery.Retry{Schedule: []time.Duration{time.Hour, time.Hour}},
	})
}

// subscribed makes a destination that is subscribed to everything.
func (s *server) subscribed(t *testing.T, name string) destinationView {
	t.Helper()
	created := s.destination(t, name)
	s.post(t, destinationsPath+"/"+created.ID+"/subscriptions",
		`{"externalId":"all","eventTypes":["*"],"scopeKind":"all"}`).into(t, 201, new(any))
	return created
}
