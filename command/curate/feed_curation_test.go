package curate

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/publication"
	"carillon/aggregates/retirement"
	"carillon/aggregates/source"
	"carillon/command"
	"carillon/command/catalog"
	"carillon/eventstore"
	"carillon/eventstore/processtest"
)

// curating returns the rule after a site that fills one feed was visited once and showed a concert.
func curating(t *testing.T) *processtest.Rule {
	t.Helper()
	types, err := catalog.New()
	if err != nil {
		t.Fatal(err)
	}
	r := processtest.Of(t, func(store eventstore.Store) eventstore.ProcessManager {
		commands := &command.Commands{Store: store, Now: time.Now, Catalog: types}
		return NewFeedCuration(store, commands, held{}, noLikeness{}, 0, slog.New(slog.DiscardHandler))
	})
	processtest.Given(r, feed.Aggregate, oneFeed,
		feed.Event(feed.Created{Organization: org, Enabled: true, At: noon}),
		feed.Event(feed.SourceAttached{
			AssociationID: uuid.New(),
			SourceID:      site,
			SourceType:    "site",
			At:            noon,
		}))
	processtest.Given(r, source.Aggregate, site, source.Event(source.CollectionStarted{Number: 1, At: noon}))
	shows(r, concert)
	processtest.Given(r, source.Aggregate, site, source.Event(source.CollectionCompleted{Number: 1, At: noon}))
	return r
}

// shows records that the site shows a happening for the first time. It returns the record of its publication.
func shows(r *processtest.Rule, id uuid.UUID) (published string) {
	processtest.Given(r, happening.Aggregate, id, happening.Event(happening.Observed{
		SourceID: site,
		Key:      "url:" + id.String(),
		Details:  takingPlace(noon.Add(day)),
		Source:   happening.Block{Type: "site"},
		At:       noon,
	}))
	shown := r.Events(eventstore.Start, eventstore.Categories(happening.Aggregate.Category))
	cause := shown[len(shown)-1].ID
	return publication.Aggregate.Stream(uuid.NewSHA1(cause, []byte(itemAdded+item.ID(oneFeed, id).String()))) +
		" publication.event-published.v1"
}

// itemWas returns the record of an event of the feed's item of a happening.
func itemWas(change string, id uuid.UUID) string {
	return item.Aggregate.Stream(item.ID(oneFeed, id)) + " item." + change + ".v1"
}

func TestFeedCuration_backfill(t *testing.T) {
	t.Parallel()
	curating(t).Then(itemWas("added", concert))
}

func TestFeedCuration_newHappening(t *testing.T) {
	t.Parallel()
	r := curating(t)
	r.Then(itemWas("added", concert))
	published := shows(r, exhibition)
	r.Then(itemWas("added", exhibition), published)
}

func TestFeedCuration_disabledFeed(t *testing.T) {
	t.Parallel()
	r := curating(t)
	r.Then(itemWas("added", concert))
	processtest.Given(r, feed.Aggregate, oneFeed, feed.Event(feed.Disabled{At: noon}))
	shows(r, exhibition)
	r.Then()
}

func TestFeedCuration_detachment(t *testing.T) {
	t.Parallel()
	r := curating(t)
	r.Then(itemWas("added", concert))
	processtest.Given(r, feed.Aggregate, oneFeed, feed.Event(feed.SourceDetached{SourceID: site, At: noon}))
	r.Then(itemWas("removed", concert))
}

// A retired happening leaves no feed: its items go without an event, and no sweep finds it.
func TestFeedCuration_retired(t *testing.T) {
	t.Parallel()
	r := curating(t)
	r.Then(itemWas("added", concert))
	processtest.Given(r, retirement.Aggregate, retirement.HappeningsLogID, retirement.Event(retirement.HappeningsRetired{
		Batch:      uuid.New(),
		Happenings: []retirement.Happening{{ID: concert}},
		At:         noon,
	}))
	processtest.Given(r, feed.Aggregate, oneFeed,
		feed.Event(feed.SourceDetached{SourceID: site, At: noon}),
		feed.Event(feed.SourceAttached{
			AssociationID: uuid.New(),
			SourceID:      site,
			SourceType:    "site",
			At:            noon,
		}))
	r.Then()
}

// Publications combine all sources, also those outside of the feed.
func TestFeedCuration_publishesAllSources(t *testing.T) {
	t.Parallel()
	r := curating(t)
	r.Then(itemWas("added", concert))
	details := takingPlace(noon.Add(day))
	details.Title = "As its own page has it"
	processtest.Given(r, happening.Aggregate, exhibition, happening.Event(happening.Observed{
		SourceID: page,
		Details:  details,
		Source:   happening.Block{Type: "site"},
		At:       noon,
		Standing: happening.FromOwnPage,
	}))
	published := shows(r, exhibition)
	r.Then(itemWas("added", exhibition), published)
	events := r.Events(eventstore.Start, eventstore.Categories(publication.Aggregate.Category))
	event, err := publication.Events.Decode(&events[len(events)-1])
	if err != nil {
		t.Fatal(err)
	}
	if p, ok := event.(publication.Published); !ok || !strings.Contains(string(p.Data), details.Title) {
		t.Errorf("published %+v", event)
	}
}
