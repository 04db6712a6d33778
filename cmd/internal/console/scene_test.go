package console_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/happening"
	"carillon/cmd/internal/console"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
	"carillon/projections/feeds"
	"carillon/query"
)

// firstOfMany is the first attempt of a delivery that is retried if it fails.
var firstOfMany = delivery.RecordAttempt{
	Number: 1, Trigger: delivery.Automatic, Retry: delivery.Retry{Schedule: []time.Duration{time.Hour}},
}

// scene is a world with destinations and deliveries.
type scene struct {
	*world

	names map[string]string // values of {…} in an address of a page
}

// newScene creates an organization with a destination that works, one that fails, and deliveries in each state.
func newScene(t *testing.T) *scene {
	t.Helper()
	return open(t).scene(t)
}

func (w *world) scene(tb testing.TB) *scene {
	tb.Helper()
	s := &scene{world: w, names: map[string]string{"org": w.org.String()}}
	works := s.subscribed(tb, "Ticket shop", receiver(tb, 204, ""))
	fails := s.subscribed(tb, "Old newsletter", receiver(tb, 500, "no"))
	s.names["works"], s.names["fails"] = works.String(), fails.String()
	s.names["subscription"] = s.only(tb, works).ID.String()
	var event uuid.UUID
	for i := range 3 {
		event = s.publish(tb, fmt.Sprintf("concert/%d", i))
		s.attempted(tb, event, works, 204, `{"ok":true}`)
		s.attempted(tb, event, fails, 500, "<h1>Out of order</h1>")
	}
	s.names["delivered"], s.names["failed"] = dispatch.DeliveryID(event, works).String(), dispatch.DeliveryID(event,
		fails).String()
	waiting := s.publish(tb, "concert/4")
	s.attemptedAs(tb, waiting, fails, 500, "<h1>Out of order</h1>", firstOfMany)
	s.fillFeed(tb)
	s.names["hour"] = time.Now().UTC().Add(-time.Hour).Format("2006-01-02T15:04")
	s.names["waiting"], s.names["event"] = dispatch.DeliveryID(waiting, works).String(), event.String()
	return s
}

// fillFeed creates a feed with items from a source.
func (s *scene) fillFeed(tb testing.TB) {
	tb.Helper()
	feed := s.namedFeed(tb, "Concerts")
	site := s.Source(tb, "https://example.org/concerts/"+s.org.String(), "")
	attach := command.AttachSource{FeedID: feed, SourceType: "site", SourceID: site}
	attached := must.Get(s.Commands.AttachSource(tb.Context(), s.by(s.org), attach))(tb)
	spare := s.Source(tb, "https://example.org/theatre/"+s.org.String(), "")
	s.Await(tb, attached.Position, feeds.ReadModel.Name)
	for i, title := range []string{"Organ at noon", "Brass in the park", `<b>Bold</b> & "quoted"`} {
		s.observe(tb, site, title, i)
	}
	now := time.Now().UTC()
	var page []struct {
		ID uuid.UUID `json:"id"`
	}
	must.Eventually(tb, "the items are in the feed", func() bool {
		found, err := s.Queries.Items(tb.Context(), s.org, feed, query.ItemsQuery{
			Since:   now.AddDate(0, -1, 0),
			Until:   now.AddDate(0, 2, 0),
			OrderBy: query.OrderByOccurrence,
			Limit:   10,
			Now:     now,
		})
		return err == nil && found.Total == 3 && json.Unmarshal(found.Items, &page) == nil
	})
	all := must.Get(s.Queries.Associations(tb.Context(), s.org, feed))(tb)
	s.names["site"] = site.String()
	s.names["feed"], s.names["item"], s.names["association"], s.names["source"] = feed.String(), page[0].ID.String(),
		all[0].ID.String(), spare.String()
}

// observe records an observation of a source: an event of this month, with a place and a picture.
func (w *world) observe(tb testing.TB, source uuid.UUID, title string, number int) {
	tb.Helper()
	now, key := time.Now().UTC(), w.org.String()+" "+title
	instance := happening.DeriveInstanceID(key, "")
	start := time.Date(now.Year(), now.Month(), 10+number, 19, 30, 0, 0, time.UTC)
	details := happening.Details{
		Title:        title,
		Description:  "<p>Music &amp; <script>alert(1)</script>more</p>",
		PrimaryImage: "https://example.org/poster.png",
		PrimaryURL:   "https://example.org/concerts/1",
		Location:     &happening.Location{DisplayAddress: "Town hall, Market 1"},
		Instances: []happening.Instance{{ID: instance, Status: happening.Scheduled, Occurrences: []happening.Occurrence{
			{ID: happening.DeriveOccurrenceID(instance, 0), Start: start, Status: happening.Scheduled},
			{ID: happening.DeriveOccurrenceID(instance, 1), Start: start.AddDate(0, 0, 7), Status: happening.Scheduled},
		}}},
	}
	must.Get(w.observed(tb, source, key, "https://example.org/concerts", details))(tb)
}

// observed records what a source shows at an address.
func (w *world) observed(
	tb testing.TB, source uuid.UUID, key, url string, details happening.Details,
) (eventstore.Position, error) {
	tb.Helper()
	out, err := happening.Aggregate.Execute(tb.Context(), w.Store, happening.DeriveID(key), happening.Observe{
		SourceID: source,
		Key:      key,
		Details:  details,
		Source:   happening.Block{Type: "site", URL: url},
		At:       time.Now().UTC().Truncate(time.Microsecond),
	}, happening.Options{Metadata: eventstore.Metadata{Actor: "collector"}})
	return out.Position, err
}

// lives runs the work on many deliveries until the test ends.
func (w *world) lives(t *testing.T) {
	t.Helper()
	runs(t, w.console, w.inside)
}

// runs runs consoles until the test ends, each once.
func runs(t *testing.T, consoles ...*console.Console) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	for _, c := range consoles {
		running.Go(func() { c.Run(ctx) })
	}
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
}

// at resolves the names in an address. {fresh} is a new destination.
func (s *scene) at(tb testing.TB, path string) string {
	tb.Helper()
	if strings.Contains(path, "{fresh}") {
		path = strings.ReplaceAll(path, "{fresh}", s.destination(tb, "Fresh", receiver(tb, 204, "")).String())
	}
	for name, value := range s.names {
		path = strings.ReplaceAll(path, "{"+name+"}", value)
	}
	return path
}

// subscribed creates a destination that gets everything.
func (w *world) subscribed(tb testing.TB, name, address string) uuid.UUID {
	tb.Helper()
	id := w.destination(tb, name, address)
	w.subscribe(tb, id, "*")
	return id
}

// publish publishes news, and waits until its deliveries can be read.
func (w *world) publish(tb testing.TB, subject string) uuid.UUID {
	tb.Helper()
	return w.announce(tb, command.Publish{Organization: w.org, Subject: subject})
}

// announce publishes to a feed, or for one organization only, and waits until its deliveries can be read.
func (w *world) announce(tb testing.TB, event command.Publish) uuid.UUID {
	tb.Helper()
	event.Data = []byte(`{"id":"7","title":"Concert in the park"}`)
	id := w.Publish(tb, event)
	w.Newest(tb, deliveries.ReadModel)
	return id
}

// attempted records an attempt as the deliverer does, and waits until it can be read.
func (w *world) attempted(tb testing.TB, event, destination uuid.UUID, status int, body string) {
	tb.Helper()
	w.attemptedAs(tb, event, destination, status, body, delivery.RecordAttempt{Number: 1, Trigger: delivery.Automatic})
}

// attemptedAs records an attempt with a number and a trigger; its schedule determines the next one.
func (w *world) attemptedAs(tb testing.TB, event, destination uuid.UUID, status int, body string,
	as delivery.RecordAttempt) {
	tb.Helper()
	w.Happens(tb, w.org, dispatch.DeliveryID(event, destination),
		w.Attempted(tb, w.org, destination, status, body, as))
}
