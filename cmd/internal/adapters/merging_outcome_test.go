package adapters_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/publication"
	"carillon/eventstore"
)

// root is the happening that replaces a merged one.
func (p *plot) root(name string) uuid.UUID {
	p.t.Helper()
	id := p.known[name]
	for {
		loaded, err := happening.Aggregate.Load(p.t.Context(), p.store, id)
		if err != nil {
			p.t.Fatal(err)
		}
		if loaded.State.Into == uuid.Nil {
			return id
		}
		id = loaded.State.Into
	}
}

func (p *plot) holds(into, id uuid.UUID) bool {
	p.t.Helper()
	loaded, err := happening.Aggregate.Load(p.t.Context(), p.store, into)
	if err != nil {
		p.t.Fatal(err)
	}
	_, held := loaded.State.Holds[id]
	return held
}

// outcome is the final state of all happenings.
func (p *plot) outcome() (list []string) {
	p.t.Helper()
	for name, id := range p.known {
		loaded, err := happening.Aggregate.Load(p.t.Context(), p.store, id)
		if err != nil {
			p.t.Fatal(err)
		}
		for teller, telling := range loaded.State.Tellings {
			for source, sourceID := range p.sources {
				if sourceID == teller.Source {
					list = append(list, fmt.Sprintf("%s is shown by %s as %q under %q, stale: %t", name, source, p.names[teller.Of],
						telling.Details.Title, telling.Stale))
				}
			}
		}
		for held := range loaded.State.Holds {
			list = append(list, name+" holds "+p.names[held])
		}
		for apart := range loaded.State.Apart {
			list = append(list, name+" is not "+p.names[apart])
		}
		if into := loaded.State.Into; into != uuid.Nil {
			list = append(list, name+" is merged into "+p.names[into])
		}
		for of, feedID := range p.feeds {
			shown, err := item.Aggregate.Load(p.t.Context(), p.store, item.ID(feedID, id))
			if err != nil {
				p.t.Fatal(err)
			}
			if shown.State.InFeed || shown.State.Feedback != uuid.Nil {
				list = append(list, fmt.Sprintf("%s is in the feed of %s: %t, has feedback: %t", name, of, shown.State.InFeed,
					shown.State.Feedback != uuid.Nil))
			}
		}
	}
	return slices.Sorted(slices.Values(append(list, p.told()...)))
}

// told lists the publications of each feed.
func (p *plot) told() (list []string) {
	p.t.Helper()
	subjects := map[string]string{}
	for of, feedID := range p.feeds {
		for name, id := range p.known {
			subjects[item.ID(feedID, id).String()] = of + " is told of " + name + ": "
		}
	}
	for m, err := range p.store.Subscribe(p.t.Context(), p.began, eventstore.Categories(publication.Aggregate.Category)) {
		if err != nil {
			p.t.Fatal(err)
		}
		if m.CaughtUp {
			break
		}
		if m.Event == nil {
			continue
		}
		event, err := publication.Events.Decode(m.Event)
		if err != nil {
			p.t.Fatal(err)
		}
		if e, ok := event.(publication.Published); ok && subjects[e.Subject] != "" {
			list = append(list, subjects[e.Subject]+e.Type)
		}
	}
	return list
}

// heard counts the new events published to each feed.
func (p *plot) heard() map[string]int {
	p.t.Helper()
	heard := map[string]int{}
	for _, line := range p.told() {
		if of, _, _ := strings.Cut(line, " "); strings.HasSuffix(line, "event.item.added") {
			heard[of]++
		}
	}
	return heard
}
