package visiting

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command/collect"
)

// Gathering combines the pages of a source as walks do, without recording anything. The zero value is empty.
type Gathering struct {
	known     []Shown
	places    map[uuid.UUID]int // indexes of known, by happening
	sightings map[uuid.UUID][]Sighting
	pages     int
}

// Add adds the observations of a page at a time.
func (g *Gathering) Add(page string, observations []collect.Observation, now time.Time) error {
	if g.sightings == nil {
		g.sightings, g.places = map[uuid.UUID][]Sighting{}, map[uuid.UUID]int{}
	}
	x, err := newIdentification(observations, now)
	if err == nil {
		err = x.resolve(slices.Clone(g.known), memory{detailsOf: g.observed})
	}
	if err != nil {
		return err
	}
	g.pages++
	since := time.Unix(int64(g.pages), 0) // the page that was read first has precedence
	for _, t := range x.sightings {
		i, ok := g.places[t.Happening]
		if !ok {
			i, g.places[t.Happening] = len(g.known), len(g.known)
			g.known = append(g.known, Shown{Identity: Identity{Happening: t.Happening, Key: t.Key}})
		}
		known := &g.known[i]
		known.Dates = append(known.Dates, t.Dates)
		known.Evidence = append(known.Evidence, t.Evidence...)
		t.Page, t.Since, t.DatedAt = PageID(page), since, since
		g.sightings[t.Happening] = append(g.sightings[t.Happening], t)
	}
	return nil
}

// observed returns the details that the pages show of happenings.
func (g *Gathering) observed(ids []uuid.UUID) (map[uuid.UUID][]happening.Details, error) {
	all := map[uuid.UUID][]happening.Details{}
	for _, id := range ids {
		for _, t := range g.sightings[id] {
			all[id] = append(all[id], t.Observation.Details)
		}
	}
	return all, nil
}

// Together returns one observation for each happening, in the order of their first appearance.
func (g *Gathering) Together() []collect.Observation {
	all := make([]collect.Observation, len(g.known))
	for i, known := range g.known {
		sightings := g.sightings[known.Happening]
		all[i] = together(uuid.Nil, sightings)
		all[i].Key = known.Key
	}
	return all
}
